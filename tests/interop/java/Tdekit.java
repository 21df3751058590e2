import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;

/**
 * Opens databases that tdekit encrypted, with the stock xerial sqlite-jdbc.
 *
 * <p>{@code Tdekit.load()} once, before the first encrypted database is opened. Every later
 * {@code DriverManager.getConnection("jdbc:sqlite:" + path)} opens plain and encrypted databases
 * alike: a VFS belongs to the process, not to a connection.
 */
final class Tdekit {
    private Tdekit() {}

    /** The extension's path: TDEKIT_EXTENSION, or what {@code tdekit sqlite path} prints. */
    static String extensionPath() throws IOException {
        String path = System.getenv("TDEKIT_EXTENSION");
        if (path != null && !path.isEmpty()) {
            return path;
        }
        Process tdekit = new ProcessBuilder("tdekit", "sqlite", "path").start();
        return new String(tdekit.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
    }

    static void load() throws IOException, SQLException {
        load(extensionPath());
    }

    static void load(String path) throws SQLException {
        String url = "jdbc:sqlite::memory:?enable_load_extension=true";
        try (Connection connection = DriverManager.getConnection(url);
                PreparedStatement load = connection.prepareStatement("SELECT load_extension(?)")) {
            load.setString(1, path);
            load.execute();
        }
    }
}
