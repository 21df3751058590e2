import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

// recipe
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import tdekit.Tdekit;

final class Pool {
    static HikariDataSource open(String path) throws Exception {
        Tdekit.load();
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl("jdbc:sqlite:" + path);
        return new HikariDataSource(config);
    }
}
// end

/** HikariCP, a pool of JDBC connections. */
final class WithHikari implements Recipe {
    @Override
    public void write(String path, List<Row> rows) throws Exception {
        try (HikariDataSource pool = Pool.open(path); Connection db = pool.getConnection()) {
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
        try (HikariDataSource pool = Pool.open(path);
                Connection db = pool.getConnection();
                Statement statement = db.createStatement();
                ResultSet found = statement.executeQuery("SELECT id, body FROM note ORDER BY id")) {
            while (found.next()) {
                rows.add(new Row(found.getInt(1), found.getString(2)));
            }
        }
        return rows;
    }
}
