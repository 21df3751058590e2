import java.sql.Connection;
import java.util.List;

// recipe
import java.sql.DriverManager;
import java.sql.Statement;

final class Settings {
    static Connection open(String extension, String path) throws Exception {
        String first = "jdbc:sqlite::memory:?enable_load_extension=true";
        try (Connection memory = DriverManager.getConnection(first);
                Statement bootstrap = memory.createStatement()) {
            bootstrap.execute("SELECT load_extension('" + extension + "')");
        }
        return DriverManager.getConnection("jdbc:sqlite:" + path);
    }
}
// end

/** Plain JDBC without a helper, as programs with settings for a driver use it, such as DBeaver. */
final class WithJdbc implements Recipe {
    private static Connection open(String path) throws Exception {
        return Settings.open(System.getenv("TDEKIT_EXTENSION"), path);
    }

    @Override
    public void write(String path, List<Row> rows) throws Exception {
        try (Connection db = open(path)) {
            Notes.write(db, rows);
        }
    }

    @Override
    public List<Row> read(String path) throws Exception {
        try (Connection db = open(path)) {
            return Notes.read(db);
        }
    }
}
