import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

/** The table of notes by JDBC's own means, for recipes that end in a connection. */
final class Notes {
    private Notes() {}

    static void write(Connection db, List<Recipe.Row> rows) throws SQLException {
        try (Statement statement = db.createStatement()) {
            statement.execute("CREATE TABLE note(id INTEGER PRIMARY KEY, body TEXT NOT NULL)");
        }
        db.setAutoCommit(false);
        try (PreparedStatement insert = db.prepareStatement("INSERT INTO note VALUES(?, ?)")) {
            for (Recipe.Row row : rows) {
                insert.setInt(1, row.id());
                insert.setString(2, row.body());
                insert.executeUpdate();
            }
        }
        db.commit();
    }

    static List<Recipe.Row> read(Connection db) throws SQLException {
        List<Recipe.Row> rows = new ArrayList<>();
        try (Statement statement = db.createStatement();
                ResultSet found = statement.executeQuery("SELECT id, body FROM note ORDER BY id")) {
            while (found.next()) {
                rows.add(new Recipe.Row(found.getInt(1), found.getString(2)));
            }
        }
        return rows;
    }
}
