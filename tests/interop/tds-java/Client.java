import java.io.FileInputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Arrays;
import java.util.Objects;

/**
 * mssql-jdbc against {@code tdekit serve}.
 *
 * <p>usage: Client PORT off|on|strict CERTIFICATE OTHER_CERTIFICATE
 */
public final class Client {
    static final String TEXT = "Grüße, Ω, 日本, \uD83D\uDE00";
    static final String MARKER = System.getenv("INTEROP_MARKER");
    private static final String PASSWORD = System.getenv("INTEROP_PASSWORD");

    /** What runs so long hangs. Whoever runs this ends it a minute later. */
    private static final long LIMIT_MS = 240_000;

    /** What may fail with an error of the server's. */
    interface Doing {
        void run() throws SQLException;
    }

    private Client() {}

    public static void main(String[] args) throws Exception {
        String port = args[0];
        String mode = args[1];
        watch();
        refused(18456, () -> open(port, mode, args[2], "not the password").close());
        if (!mode.equals("off")) {
            refused(0, () -> open(port, mode, args[3], PASSWORD).close());
        }
        try (Connection connection = open(port, mode, args[2], PASSWORD)) {
            String option = "SELECT encrypt_option FROM sys.dm_exec_connections"
                    + " WHERE session_id = @@SPID";
            same(one(connection, option), mode.equals("off") ? "FALSE" : "TRUE");
            new Types(connection, "dbo.types_" + mode).run();
            new Work(connection, mode).run();
        }
        System.out.println("mssql-jdbc " + mode + ": ok");
    }

    /** Ends the program when it hangs, and tells where. */
    static void watch() {
        Thread watcher = new Thread(() -> {
            try {
                Thread.sleep(LIMIT_MS);
            } catch (InterruptedException error) {
                throw new AssertionError(error);
            }
            Thread.getAllStackTraces().forEach((thread, stack) -> {
                System.err.println(thread);
                Arrays.stream(stack).forEach(place -> System.err.println("  " + place));
            });
            Runtime.getRuntime().halt(1);
        });
        watcher.setDaemon(true);
        watcher.start();
    }

    private static Connection open(String port, String mode, String certificate, String password)
            throws SQLException {
        return DriverManager.getConnection(url(port, mode, certificate), "sa", password);
    }

    static String url(String port, String mode, String certificate) {
        String url = "jdbc:sqlserver://localhost:" + port + ";databaseName=app"
                + ";loginTimeout=30;sendTimeAsDatetime=false";
        return url + switch (mode) {
            case "off" -> ";encrypt=false;trustServerCertificate=true";
            case "on" -> ";encrypt=true;trustStoreType=PKCS12;trustStorePassword=trusted"
                    + ";trustStore=" + trustStore(certificate);
            default -> ";encrypt=strict;serverCertificate=" + certificate;
        };
    }

    /** A store that holds the certificate. */
    private static Path trustStore(String certificate) {
        try (FileInputStream in = new FileInputStream(certificate)) {
            KeyStore store = KeyStore.getInstance("PKCS12");
            store.load(null, null);
            CertificateFactory factory = CertificateFactory.getInstance("X.509");
            store.setCertificateEntry("server", factory.generateCertificate(in));
            Path path = Files.createTempFile(Path.of(""), "trusted", ".p12");
            try (OutputStream out = Files.newOutputStream(path)) {
                store.store(out, "trusted".toCharArray());
            }
            return path.toAbsolutePath();
        } catch (Exception error) {
            throw new AssertionError(error);
        }
    }

    /** Checks that something fails with this error of the server's; 0 is the driver's own. */
    static void refused(int number, Doing doing) {
        try {
            doing.run();
        } catch (SQLException error) {
            if (error.getErrorCode() != number) {
                throw new AssertionError("not " + number, error);
            }
            return;
        }
        throw new AssertionError("it did not fail with " + number);
    }

    static void same(Object found, Object wanted) {
        if (!Objects.deepEquals(found, wanted)) {
            throw new AssertionError(shown(found) + ", not " + shown(wanted));
        }
    }

    private static String shown(Object value) {
        String text = String.valueOf(value);
        if (value instanceof byte[] bytes) {
            text = Arrays.toString(bytes);
        }
        return text.substring(0, Math.min(300, text.length()));
    }

    /** The first value of the first row. */
    static Object one(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(sql)) {
            same(rows.next(), true);
            return rows.getObject(1);
        }
    }

    static void execute(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }
}
