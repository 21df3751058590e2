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
 * alike: a VFS belongs to the process, not to a connection.
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
