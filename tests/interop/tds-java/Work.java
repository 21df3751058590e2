import com.microsoft.sqlserver.jdbc.SQLServerBulkCSVFileRecord;
import com.microsoft.sqlserver.jdbc.SQLServerBulkCopy;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLTimeoutException;
import java.sql.SQLWarning;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.time.LocalDateTime;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicBoolean;

/** What an application does, beside types. */
final class Work {
    private static final LocalDateTime START = LocalDateTime.of(2024, 2, 29, 13, 14, 15);

    private final Connection connection;
    private final String mode;
    private final String table;

    Work(Connection connection, String mode) {
        this.connection = connection;
        this.mode = mode;
        this.table = "dbo.rows_" + mode;
    }

    void run() throws SQLException, InterruptedException {
        fill();
        change();
        longValues();
        bulk();
        scroll();
        refusals();
        results();
        cancel();
    }

    private static boolean empty(int id) {
        return id % 10 == 9;
    }

    private static String name(int id) {
        return Client.TEXT + " " + id + " " + Client.MARKER;
    }

    private static byte[] data(int id) {
        return new byte[] {-1, (byte) (id >> 8), (byte) id};
    }

    private void makeTable(String name) throws SQLException {
        Client.execute(connection, "CREATE TABLE " + name + " (id int NOT NULL PRIMARY KEY,"
                + " name nvarchar(100), amount decimal(19, 4), at datetime2(7),"
                + " data varbinary(100))");
    }

    private void fill() throws SQLException {
        makeTable(table);
        connection.setAutoCommit(false);
        String insert = "INSERT INTO " + table + " VALUES (?, ?, ?, ?, ?)";
        try (PreparedStatement prepared = connection.prepareStatement(insert)) {
            for (int id = 0; id < 1000; id++) {
                prepared.setInt(1, id);
                prepared.setNString(2, empty(id) ? null : name(id));
                prepared.setBigDecimal(3, empty(id) ? null : new BigDecimal(id + ".0625"));
                Timestamp at = empty(id) ? null : Timestamp.valueOf(START.plusNanos(id * 100L));
                prepared.setTimestamp(4, at);
                prepared.setBytes(5, empty(id) ? null : data(id));
                if (id < 500) {
                    Client.same(prepared.executeUpdate(), 1);
                } else {
                    prepared.addBatch();
                }
            }
            int[] ones = new int[500];
            Arrays.fill(ones, 1);
            Client.same(prepared.executeBatch(), ones);
        }
        connection.commit();
        connection.setAutoCommit(true);
        compare(table);
    }

    private void compare(String name) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT * FROM " + name + " ORDER BY id")) {
            int id = 0;
            for (; rows.next(); id++) {
                Client.same(rows.getInt(1), id);
                Client.same(rows.getNString(2), empty(id) ? null : name(id));
                Client.same(rows.getBigDecimal(3), empty(id) ? null : new BigDecimal(id + ".0625"));
                Client.same(rows.getObject(4, LocalDateTime.class),
                        empty(id) ? null : START.plusNanos(id * 100L));
                Client.same(rows.getBytes(5), empty(id) ? null : data(id));
            }
            Client.same(id, 1000);
        }
    }

    private int update(String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            return statement.executeUpdate(sql);
        }
    }

    private Object count(String condition) throws SQLException {
        return Client.one(connection, "SELECT COUNT(*) FROM " + table + condition);
    }

    private void change() throws SQLException {
        Client.same(update("UPDATE " + table + " SET name = N'new' WHERE id < 100"), 100);
        Client.same(update("DELETE FROM " + table + " WHERE id >= 900"), 100);
        connection.setAutoCommit(false);
        Client.same(update("DELETE FROM " + table), 900);
        Client.same(count(""), 0);
        connection.rollback();
        Client.same(count(""), 900);
        Client.same(update("DELETE FROM " + table + " WHERE id = 899"), 1);
        connection.commit();
        connection.setAutoCommit(true);
        Client.same(count(""), 899);
        Client.same(count(" WHERE name = N'new'"), 100);
    }

    private void longValues() throws SQLException {
        String name = "dbo.long_" + mode;
        Client.execute(connection, "CREATE TABLE " + name
                + " (id int NOT NULL PRIMARY KEY, a varchar(max), b nvarchar(max),"
                + " c varbinary(max))");
        String narrow = "abcé".repeat(250_000);
        String wide = "Ω日".repeat(500_000);
        byte[] data = new byte[1_000_000];
        for (int at = 0; at < data.length; at++) {
            data[at] = (byte) at;
        }
        String insert = "INSERT INTO " + name + " VALUES (1, ?, ?, ?)";
        try (PreparedStatement prepared = connection.prepareStatement(insert)) {
            prepared.setString(1, narrow);
            prepared.setNString(2, wide);
            prepared.setBinaryStream(3, new ByteArrayInputStream(data), data.length);
            Client.same(prepared.executeUpdate(), 1);
        }
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT a, b, c FROM " + name)) {
            rows.next();
            Client.same(rows.getString(1), narrow);
            Client.same(rows.getNString(2), wide);
            Client.same(rows.getBytes(3), data);
        }
        Client.same(Client.one(connection, "SELECT LEN(b) FROM " + name), 1_000_000L);
    }

    /** A thousand rows from a file of text, whose columns the driver converts. */
    private void bulk() throws SQLException {
        String name = "dbo.bulk_" + mode;
        makeTable(name);
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        for (int id = 0; id < 1000; id++) {
            String line = id + "||||";
            if (!empty(id)) {
                line = String.format("%d|%s|%d.0625|%s|ff%04x", id, name(id), id,
                        Timestamp.valueOf(START.plusNanos(id * 100L)), id);
            }
            text.writeBytes((line + "\n").getBytes(StandardCharsets.UTF_8));
        }
        ByteArrayInputStream in = new ByteArrayInputStream(text.toByteArray());
        try (SQLServerBulkCSVFileRecord rows =
                        new SQLServerBulkCSVFileRecord(in, "UTF-8", "|", false);
                SQLServerBulkCopy copy = new SQLServerBulkCopy(connection)) {
            rows.addColumnMetadata(1, "id", Types.INTEGER, 0, 0);
            rows.addColumnMetadata(2, "name", Types.NVARCHAR, 100, 0);
            rows.addColumnMetadata(3, "amount", Types.DECIMAL, 19, 4);
            rows.addColumnMetadata(4, "at", Types.TIMESTAMP, 27, 7);
            rows.addColumnMetadata(5, "data", Types.VARBINARY, 100, 0);
            copy.setDestinationTableName(name);
            copy.writeToServer(rows);
        }
        compare(name);
    }

    private void scroll() throws SQLException {
        String select = "SELECT id FROM " + table + " ORDER BY id";
        try (Statement scrolling = connection.createStatement(
                        ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_READ_ONLY);
                ResultSet rows = scrolling.executeQuery(select)) {
            Client.same(rows.last(), true);
            Client.same(rows.getInt(1), 898);
            Client.same(rows.absolute(11), true);
            Client.same(rows.getInt(1), 10);
            Client.same(rows.previous(), true);
            Client.same(rows.getInt(1), 9);
            Client.same(rows.first(), true);
            Client.same(rows.getInt(1), 0);
        }
    }

    private void refusals() throws SQLException {
        String name = "dbo.strict_" + mode;
        Client.execute(connection,
                "CREATE TABLE " + name + " (id int NOT NULL PRIMARY KEY, n int CHECK (n > 0))");
        String insert = "INSERT INTO " + name + " VALUES (?, ?)";
        try (PreparedStatement prepared = connection.prepareStatement(insert)) {
            int[][] rows = {{1, 1, 0}, {1, 2, 2627}, {2, -1, 547}};
            for (int[] row : rows) {
                prepared.setInt(1, row[0]);
                prepared.setInt(2, row[1]);
                if (row[2] == 0) {
                    Client.same(prepared.executeUpdate(), 1);
                } else {
                    Client.refused(row[2], prepared::executeUpdate);
                }
            }
        }
        Client.refused(8134, () -> Client.one(connection, "SELECT 1 / 0"));
        Client.refused(102, () -> Client.execute(connection, "SELECT 1 + * FROM"));
        Client.refused(208, () -> Client.one(connection, "SELECT * FROM dbo.not_there"));
        Client.refused(50000, () -> Client.execute(connection, "RAISERROR('mine', 16, 1)"));
        Client.same(Client.one(connection, "SELECT COUNT(*) FROM " + name), 1);
    }

    private void results() throws SQLException {
        try (Statement statement = connection.createStatement()) {
            String sql = "SELECT 1; SELECT N'ä' UNION ALL SELECT N'ö'";
            Client.same(statement.execute(sql), true);
            try (ResultSet rows = statement.getResultSet()) {
                rows.next();
                Client.same(rows.getInt(1), 1);
            }
            Client.same(statement.getMoreResults(), true);
            try (ResultSet rows = statement.getResultSet()) {
                rows.next();
                rows.next();
                Client.same(rows.getString(1), "ö");
            }
            Client.same(statement.getMoreResults(), false);
            statement.execute("PRINT N'printed é'; RAISERROR('warned %d', 10, 1, 5)");
            SQLWarning warning = statement.getWarnings();
            Client.same(warning.getMessage(), "printed é");
            while (statement.getMoreResults() || statement.getUpdateCount() != -1) {
                continue;
            }
            StringBuilder all = new StringBuilder();
            for (warning = statement.getWarnings(); warning != null;
                    warning = warning.getNextWarning()) {
                all.append(warning.getMessage()).append('\n');
            }
            Client.same(all.toString().contains("warned 5"), true);
        }
        String procedure = "dbo.double_" + mode;
        Client.execute(connection, "CREATE PROCEDURE " + procedure + " @n int, @twice int OUTPUT AS"
                + " BEGIN SET @twice = @n * 2; RETURN 7; END");
        String sql = "{? = call " + procedure + "(?, ?)}";
        try (CallableStatement call = connection.prepareCall(sql)) {
            call.registerOutParameter(1, Types.INTEGER);
            call.setInt(2, 21);
            call.registerOutParameter(3, Types.INTEGER);
            call.execute();
            Client.same(call.getInt(1), 7);
            Client.same(call.getInt(3), 42);
        }
    }

    private void cancel() throws SQLException, InterruptedException {
        String[] endless = {
            "DECLARE @i bigint = 0; WHILE 1 = 1 SET @i += 1", "WAITFOR DELAY '00:01:00'"
        };
        for (String sql : endless) {
            long begun = System.nanoTime();
            try (Statement statement = connection.createStatement()) {
                AtomicBoolean ended = new AtomicBoolean();
                Thread canceller = new Thread(() -> stop(statement, ended));
                canceller.start();
                try {
                    statement.execute(sql);
                    throw new AssertionError("it was not cancelled");
                } catch (SQLException error) {
                    // "Cancelled". A message is there only if the thread that cancels is quick:
                    // the driver tells the other one before it has set the reason.
                    Client.same(error.getSQLState(), "HY008");
                } finally {
                    ended.set(true);
                    canceller.join();
                }
            }
            Client.same(System.nanoTime() - begun < 30_000_000_000L, true);
            Client.same(Client.one(connection, "SELECT 5"), 5);
        }
        // The driver counts the time until the first packet, which a loop sends at once.
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            statement.execute(endless[1]);
            throw new AssertionError("it did not time out");
        } catch (SQLTimeoutException expected) {
            Client.same(Client.one(connection, "SELECT 5"), 5);
        }
    }

    /** Cancels until it has ended: what the driver has not begun to send yet is not cancelled. */
    private static void stop(Statement statement, AtomicBoolean ended) {
        try {
            while (!ended.get()) {
                Thread.sleep(300);
                statement.cancel();
            }
        } catch (InterruptedException | SQLException error) {
            throw new AssertionError(error);
        }
    }
}
