package tdekit;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;

/**
 * Opens databases that tdekit encrypted, with the stock xerial sqlite-jdbc.
 *
 * <p>{@code Tdekit.load()} once, before the first encrypted database is opened. Every later
 * {@code DriverManager.getConnection("jdbc:sqlite:" + path)} opens plain and encrypted databases
 * alike: a VFS belongs to the process, not to a connection. {@code Tdekit.connect(path, password)}
 * opens one by a password that no environment names.
 */
public final class Tdekit {
    private static final String LIBRARY = "libtdekit_sqlite.so";
    private static boolean loaded;

    private Tdekit() {}

    /**
     * Registers tdekit in this process, from {@code TDEKIT_EXTENSION}, else the library inside the
     * jar, else the one that {@code tdekit sqlite path} names. Any number of calls is fine.
     */
    public static synchronized void load() throws IOException, SQLException {
        if (loaded) {
            return;
        }
        String named = System.getenv("TDEKIT_EXTENSION");
        if (named != null && !named.isEmpty()) {
            load(named);
            return;
        }
        String machine = System.getProperty("os.name") + "-" + System.getProperty("os.arch");
        try (InputStream inside = Tdekit.class.getResourceAsStream(machine + "/" + LIBRARY)) {
            if (inside == null) {
                load(installed());
            } else {
                loadUnpacked(inside);
            }
        }
    }

    /** Registers tdekit in this process, from the extension at {@code path}. */
    public static synchronized void load(String path) throws SQLException {
        String url = "jdbc:sqlite::memory:?enable_load_extension=true";
        try (Connection connection = DriverManager.getConnection(url);
                PreparedStatement load = connection.prepareStatement("SELECT load_extension(?)")) {
            load.setString(1, path);
            load.execute();
        }
        loaded = true;
    }

    /**
     * Opens a database by a password of its own, for this connection alone. The exception has the
     * reason, such as a wrong password.
     */
    public static Connection connect(String path, String password)
            throws IOException, SQLException {
        return connect(path, "password", password);
    }

    /** The same by a password in a file, which nobody else can read or change. */
    public static Connection connect(String path, Path passwordFile)
            throws IOException, SQLException {
        return connect(path, "password_file", passwordFile.toString());
    }

    private static Connection connect(String path, String kind, String secret)
            throws IOException, SQLException {
        load();
        // The driver's own parameters are not part of the file's name, unless it is a URI.
        String name = path.startsWith("file:") ? path : path.split("\\?", 2)[0];
        String unlock = "SELECT tdekit_unlock(?, ?, ?)";
        // What this connection holds lasts until it closes.
        try (Connection holder = DriverManager.getConnection("jdbc:sqlite::memory:");
                PreparedStatement statement = holder.prepareStatement(unlock)) {
            statement.setString(1, name);
            statement.setString(2, kind);
            statement.setString(3, secret);
            statement.execute();
            return DriverManager.getConnection("jdbc:sqlite:" + path);
        }
    }

    /** Nobody else can read or change the directory; the loaded library needs no file. */
    private static void loadUnpacked(InputStream inside) throws IOException, SQLException {
        var owner = PosixFilePermissions.fromString("rwx------");
        var ours = PosixFilePermissions.asFileAttribute(owner);
        Path directory = Files.createTempDirectory("tdekit-", ours);
        Path library = directory.resolve(LIBRARY);
        try {
            Files.copy(inside, library);
            load(library.toString());
        } finally {
            Files.deleteIfExists(library);
            Files.delete(directory);
        }
    }

    private static String installed() throws IOException {
        Process tdekit = new ProcessBuilder("tdekit", "sqlite", "path").start();
        return new String(tdekit.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
    }
}
