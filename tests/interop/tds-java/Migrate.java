import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

/**
 * Java's tools of migration against {@code tdekit serve}: each runs its first and second one.
 *
 * <p>usage: Migrate TOOL PORT on CERTIFICATE OTHER_CERTIFICATE
 */
public final class Migrate {
    static final int COUNT = 50;
    static final String USER = "sa";
    static final String PASSWORD = System.getenv("INTEROP_PASSWORD");

    /** One tool; what it is given connects to the database. */
    interface Tool {
        void run(String url) throws Exception;
    }

    private Migrate() {}

    public static void main(String[] args) throws Exception {
        Tool tool = switch (args[0]) {
            case "liquibase" -> LiquibaseShop::run;
            case "flyway" -> FlywayShop::run;
            default -> HibernateShop::run;
        };
        Client.watch();
        tool.run(Client.url(args[1], args[2], args[3]));
        System.out.println(args[0] + " " + args[2] + ": ok");
        System.exit(0); // some leave threads behind
    }

    static Connection open(String url) throws SQLException {
        return DriverManager.getConnection(url, USER, PASSWORD);
    }

    /** A text for a row. */
    static String text(int number) {
        return Client.TEXT + " " + number + " " + Client.MARKER;
    }

    /** All rows, each with its values between bars. */
    static List<String> rows(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet found = statement.executeQuery(sql)) {
            List<String> rows = new ArrayList<>();
            while (found.next()) {
                List<String> row = new ArrayList<>();
                for (int at = 1; at <= found.getMetaData().getColumnCount(); at++) {
                    row.add(found.getString(at));
                }
                rows.add(String.join("|", row));
            }
            return rows;
        }
    }

    /** Type, length and nullability of a column, as the catalog says. */
    static String column(Connection connection, String table, String name) throws SQLException {
        String sql = "SELECT DATA_TYPE, COALESCE(CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION),"
                + " IS_NULLABLE FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = '" + table
                + "' AND COLUMN_NAME = '" + name + "'";
        return String.join(", ", rows(connection, sql));
    }
}
