import java.sql.Connection;
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
            Notes.write(db, rows);
        }
    }

    @Override
    public List<Row> read(String path) throws Exception {
        try (HikariDataSource pool = Pool.open(path); Connection db = pool.getConnection()) {
            return Notes.read(db);
        }
    }
}
