import java.util.List;

/** Makes a table by a tool's own means, writes rows and reads them. */
interface Recipe {
    record Row(int id, String body) {}

    void write(String path, List<Row> rows) throws Exception;

    List<Row> read(String path) throws Exception;
}
