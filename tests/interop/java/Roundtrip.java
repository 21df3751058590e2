import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import tdekit.Tdekit;

/** Uses one database through the stock xerial sqlite-jdbc; see tests/interop/README.md. */
final class Roundtrip {
    private static final int ROWS = 1000;
    private static final String MARKER = System.getenv("INTEROP_MARKER");
    private static final boolean SEALED = System.getenv("TDEKIT_EXTENSION") != null;

    private final Path file;
    private final Connection db;

    private Roundtrip(Path file, Connection db) {
        this.file = file;
        this.db = db;
    }

    private static String body(int i) {
        return "žluťoučký 表 🔑 " + i + " " + MARKER;
    }

    private static byte[] data(int i) {
        byte[] blob = new byte[300];
        for (int j = 0; j < blob.length; j++) {
            blob[j] = (byte) (i * 7 + j * 13);
        }
        return blob;
    }

    private static void expect(String what, Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) {
            throw new AssertionError(what + ": found " + found + ", expected " + wanted);
        }
    }

    private int run(String sql) throws SQLException {
        try (Statement statement = db.createStatement()) {
            return statement.executeUpdate(sql);
        }
    }

    private String text(String sql) throws SQLException {
        try (Statement statement = db.createStatement();
                ResultSet found = statement.executeQuery(sql)) {
            expect("a row of " + sql, found.next(), true);
            return found.getString(1);
        }
    }

    /** No file beside the database shows the marker; in a plain run at least one does. */
    private void expectSealedFiles(String when, String mustExist) throws IOException {
        if (!mustExist.isEmpty()) {
            long size = Files.size(Path.of(file + mustExist));
            expect(mustExist + " " + when + " holds something", size > 0, true);
        }
        List<Path> files;
        try (Stream<Path> entries = Files.list(file.getParent())) {
            files = entries.sorted().collect(Collectors.toList());
        }
        StringBuilder showing = new StringBuilder();
        for (Path each : files) {
            String content = new String(Files.readAllBytes(each), StandardCharsets.ISO_8859_1);
            if (content.contains(MARKER)) {
                showing.append(' ').append(each.getFileName());
            }
        }
        boolean shown = showing.length() > 0;
        expect("files that show the marker " + when + ":" + showing, shown, !SEALED);
    }

    private void writeAndChange(String mode) throws SQLException {
        expect("journal mode", text("PRAGMA journal_mode=" + mode), mode);
        String table = "note_" + mode;
        run("CREATE TABLE " + table + "(id INTEGER PRIMARY KEY, body TEXT, data BLOB, n REAL)");
        db.setAutoCommit(false);
        String insert = "INSERT INTO " + table + " VALUES(?, ?, ?, ?)";
        try (PreparedStatement statement = db.prepareStatement(insert)) {
            for (int i = 1; i <= ROWS; i++) {
                statement.setInt(1, i);
                statement.setString(2, body(i));
                statement.setBytes(3, data(i));
                statement.setDouble(4, i / 4.0);
                statement.addBatch();
            }
            statement.executeBatch();
        }
        db.commit();
        db.setAutoCommit(true);
        String select = "SELECT body, data FROM " + table + " WHERE id=?";
        for (int i : new int[] {1, 500, ROWS}) {
            try (PreparedStatement statement = db.prepareStatement(select)) {
                statement.setInt(1, i);
                try (ResultSet found = statement.executeQuery()) {
                    expect("text of row " + i, found.getString(1), body(i));
                    boolean same = Arrays.equals(found.getBytes(2), data(i));
                    expect("blob of row " + i + " is the same", same, true);
                }
            }
        }
        int updated = run("UPDATE " + table + " SET n=-n, body=body||'!' WHERE id%10=0");
        expect("rows updated", updated, 100);
        expect("rows deleted", run("DELETE FROM " + table + " WHERE id%10=5"), 100);
        db.setAutoCommit(false);
        run("DELETE FROM " + table);
        db.rollback();
        db.setAutoCommit(true);
        String left = text("SELECT count(*) || ' ' || sum(n) FROM " + table);
        expect("rows left", left, "900 87375.0");
    }

    private void writeThroughRollbackJournal() throws SQLException, IOException {
        run("PRAGMA cache_size=10");
        db.setAutoCommit(false);
        run("UPDATE note_delete SET n=n+1, body=body||'?'");
        expectSealedFiles("in a transaction", "-journal");
        db.rollback();
        db.setAutoCommit(true);
        run("PRAGMA cache_size=-2000");
    }

    private void attachPlain() throws SQLException, IOException {
        Path side = file.resolveSibling("side.db");
        try (PreparedStatement attach = db.prepareStatement("ATTACH ? AS side")) {
            attach.setString(1, side.toString());
            attach.execute();
        }
        db.setAutoCommit(false);
        run("INSERT INTO side.side SELECT id+100, 'from main' FROM note_delete WHERE id<=20");
        run("UPDATE note_delete SET n=0 WHERE id=1");
        db.commit();
        db.setAutoCommit(true);
        expect("rows in the attached file", text("SELECT count(*) FROM side.side"), "28");
        String join = "SELECT count(*) FROM side.side s JOIN note_delete n ON s.id=n.id+100";
        expect("joined rows", text(join), "18");
        run("DETACH side");
        byte[] head = Arrays.copyOf(Files.readAllBytes(side), 16);
        String magic = new String(head, StandardCharsets.ISO_8859_1);
        expect("the attached file stays plain", magic, "SQLite format 3\0");
    }

    /** What a fresh process, with the extension if it is told where, says to this file. */
    private static int opensAfresh(Path file) throws Exception {
        if (SEALED) {
            Tdekit.load();
        }
        try (Connection db = DriverManager.getConnection("jdbc:sqlite:" + file);
                Statement statement = db.createStatement()) {
            statement.executeQuery("SELECT count(*) FROM sqlite_master").close();
            return 0;
        } catch (SQLException error) {
            System.out.println(error.getMessage());
            return 1;
        }
    }

    private static void expectFreshProcess(Path file) throws IOException, InterruptedException {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        String classes = System.getProperty("java.class.path");
        ProcessBuilder builder =
                new ProcessBuilder(
                        java, "-cp", classes, "Roundtrip", "--afresh", file.toString());
        builder.environment().remove("TDEKIT_EXTENSION");
        builder.redirectError(ProcessBuilder.Redirect.INHERIT);
        Process fresh = builder.start();
        byte[] out = fresh.getInputStream().readAllBytes();
        String said = new String(out, StandardCharsets.UTF_8);
        expect("code without the extension", fresh.waitFor(), SEALED ? 1 : 0);
        boolean refused = said.contains("file is not a database");
        expect("said without the extension: " + said, refused, SEALED);
    }

    private static void roundtrip(Path file) throws Exception {
        expect("INTEROP_MARKER is set", MARKER != null && !MARKER.isEmpty(), true);
        if (SEALED) {
            Tdekit.load();
        }
        String version;
        Roundtrip each;
        try (Connection db = DriverManager.getConnection("jdbc:sqlite:" + file)) {
            each = new Roundtrip(file, db);
            String seed = each.text("SELECT count(*) || ' ' || sum(id) FROM seed");
            expect("seed", seed, "500 125250");
            String name = each.text("SELECT name FROM seed WHERE id=7");
            expect("row of seed", name, "seed 7 " + MARKER);
            each.writeAndChange("wal");
            each.expectSealedFiles("in WAL mode", "-wal");
            each.writeAndChange("delete");
            each.writeThroughRollbackJournal();
            each.attachPlain();
            expect("integrity_check", each.text("PRAGMA integrity_check"), "ok");
            version = each.text("SELECT sqlite_version()");
        }
        each.expectSealedFiles("at rest", "");
        expectFreshProcess(file);
        String way = SEALED ? "with the extension" : "without the extension";
        System.out.println("java: ok (SQLite " + version + ", " + way + ")");
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("--afresh")) {
            System.exit(opensAfresh(Path.of(arguments[1])));
        }
        try {
            roundtrip(Path.of(arguments[0]));
        } catch (Exception | AssertionError error) {
            System.err.println("java: FAILED: " + error);
            System.exit(1);
        }
    }
}
