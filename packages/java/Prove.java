import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Proves the jar as a user meets it: {@code java -cp tdekit.jar:sqlite-jdbc.jar:. Prove TDEKIT},
 * in an empty directory that is its home. TDEKIT is the command.
 */
final class Prove {
    private static final String MARKER = "a name that no raw file may show";
    private static final Path FILE = Path.of("app.db");
    private static final String COUNT = "SELECT count(*) FROM t";

    private Prove() {}

    public static void main(String[] words) throws Exception {
        if (words[0].equals("--child")) {
            if (words[1].equals("load")) {
                tdekit.Tdekit.load();
                tdekit.Tdekit.load();
            }
            try (Connection connection = connection(words[1]);
                    Statement statement = connection.createStatement()) {
                if (statement.execute(words[2])) {
                    ResultSet rows = statement.getResultSet();
                    System.out.println("found " + rows.getInt(1));
                }
            } catch (SQLException error) {
                System.out.println(error.getMessage());
                System.exit(1);
            }
            return;
        }
        prove(words[0]);
    }

    /** The connection of a child process: {@code password=SECRET} and the like name a secret. */
    private static Connection connection(String way) throws IOException, SQLException {
        String secret = way.substring(way.indexOf('=') + 1);
        if (way.startsWith("password=")) {
            return tdekit.Tdekit.connect(FILE + "?foreign_keys=on", secret);
        }
        if (way.startsWith("password_file=")) {
            return tdekit.Tdekit.connect(FILE.toString(), Path.of(secret));
        }
        return DriverManager.getConnection("jdbc:sqlite:" + FILE);
    }

    private static void prove(String tdekit) throws IOException, InterruptedException {
        expect(child("", "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT)", Map.of()), "");
        String many = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i<500)";
        expect(child("", "INSERT INTO t " + many + " SELECT i, '" + MARKER + "' FROM c", Map.of()),
                "");
        check(shows(), "the plain file shows the marker");
        run(Map.of(), tdekit, "key", "init");
        run(Map.of(), tdekit, "cert", "create", "Proof");
        run(Map.of(), tdekit, "encrypt", FILE.toString(), "--certificate", "Proof");
        check(!shows(), "the encrypted file shows nothing");
        expect(child("load", COUNT, Map.of()), "found 500");
        expect(child("load", "INSERT INTO t VALUES(501, '" + MARKER + "')", Map.of()), "");
        expect(child("load", COUNT, Map.of()), "found 501");
        check(!shows(), "nothing shows after the insert");
        expect(child("", COUNT, Map.of()), "not a database");
        String wrong = child("load", COUNT, Map.of("TDEKIT_PASSWORD", "another one"));
        expect(wrong, "wrong password for the key store");
        String denied = "authorization denied";
        expect(child("load", COUNT, Map.of("TDEKIT_PASSWORD", "")), denied);
        proveSecrets();
        byte[] content = Files.readAllBytes(FILE);
        // One bit of one byte of one page.
        content[content.length - 2000] ^= 1;
        Files.write(FILE, content);
        String tampered = child("load", COUNT, Map.of());
        check(!tampered.contains("found"), "tampered with: " + tampered);
        System.out.println("jar: ok");
    }

    /** Secrets of the program's own, in processes whose environment has none. */
    private static void proveSecrets() throws IOException, InterruptedException {
        String right = "only for this proof";
        Path file = Path.of("password");
        Files.writeString(file, right + "\n");
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
        Map<String, String> none = Map.of("TDEKIT_PASSWORD", "");
        expect(child("password=" + right, COUNT, none), "found 501");
        expect(child("password=another one", COUNT, none), "wrong password for the key store");
        expect(child("password_file=password", COUNT, none), "found 501");
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r--r--"));
        String readable = "password has mode 0644: others could read it";
        expect(child("password_file=password", COUNT, none), readable);
        Files.delete(file);
    }

    private static String child(String load, String sql, Map<String, String> variables)
            throws IOException, InterruptedException {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        String path = System.getProperty("java.class.path");
        return run(variables, java, "-classpath", path, "Prove", "--child", load, sql);
    }

    private static String run(Map<String, String> variables, String... words)
            throws IOException, InterruptedException {
        // The beginning of command lines where an emulator runs all this.
        String through = System.getenv().getOrDefault("PROVE_THROUGH", "");
        List<String> line = new ArrayList<>();
        if (!through.isEmpty()) {
            line.addAll(List.of(through.split(" ")));
        }
        line.addAll(List.of(words));
        ProcessBuilder builder = new ProcessBuilder(line);
        builder.environment().putAll(variables);
        Process process = builder.redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        int code = process.waitFor();
        boolean child = words.length > 4 && words[4].equals("--child");
        check(child || code == 0, String.join(" ", words) + ": " + said);
        return said;
    }

    private static boolean shows() throws IOException {
        return Files.readString(FILE, StandardCharsets.ISO_8859_1).contains(MARKER);
    }

    private static void expect(String said, String wanted) {
        check(wanted.isEmpty() ? said.isEmpty() : said.contains(wanted), wanted + ": " + said);
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            System.err.println("jar: " + what);
            System.exit(1);
        }
    }
}
