import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.util.ArrayList;
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
            try (Statement statement = db.createStatement()) {
                statement.execute("CREATE TABLE note(id INTEGER PRIMARY KEY, body TEXT NOT NULL)");
            }
            db.setAutoCommit(false);
            try (PreparedStatement insert = db.prepareStatement("INSERT INTO note VALUES(?, ?)")) {
                for (Row row : rows) {
                    insert.setInt(1, row.id());
                    insert.setString(2, row.body());
                    insert.executeUpdate();
                }
            }
            db.commit();
        }
    }

    @Override
    public List<Row> read(String path) throws Exception {
        List<Row> rows = new ArrayList<>();
        try (Connection db = open(path);
                Statement statement = db.createStatement();
                ResultSet found = statement.executeQuery("SELECT id, body FROM note ORDER BY id")) {
            while (found.next()) {
                rows.add(new Row(found.getInt(1), found.getString(2)));
            }
        }
        return rows;
    }
}
