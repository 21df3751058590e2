import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.Date;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Every scalar type: a row by literals, one by parameters, one of NULLs; all are read alike. */
final class Types {
    /** A type's declaration, a literal of T-SQL, a parameter, and what it is read as. */
    private record Column(
            String declaration, String literal, int type, Object sent, Object read, Class<?> as) {}

    private static final String GUID = "6F9619FF-8B86-D011-B42D-00C04FC964FF";
    private static final BigDecimal LONG =
            new BigDecimal("1234567890123456789012345678.0123456789");

    private final Connection connection;
    private final String table;
    private final List<Column> columns;

    Types(Connection connection, String table) {
        this.connection = connection;
        this.table = table;
        this.columns = columns();
    }

    private static Column column(String declaration, String literal, int type, Object value) {
        return new Column(declaration, literal, type, value, value, null);
    }

    private static Column padded(
            String declaration, String literal, int type, Object sent, Object read) {
        return new Column(declaration, literal, type, sent, read, null);
    }

    private static Column as(String declaration, String literal, int type, Object value) {
        return new Column(declaration, literal, type, value, value, value.getClass());
    }

    private static BigDecimal decimal(String text) {
        return new BigDecimal(text);
    }

    private static byte[] bytes(int... values) {
        byte[] bytes = new byte[values.length];
        for (int at = 0; at < values.length; at++) {
            bytes[at] = (byte) values[at];
        }
        return bytes;
    }

    private static List<Column> columns() {
        String text = "N'" + Client.TEXT + "'";
        return List.of(
                column("bit", "1", java.sql.Types.BIT, true),
                column("tinyint", "255", java.sql.Types.TINYINT, (short) 255),
                column("smallint", "-32768", java.sql.Types.SMALLINT, (short) -32768),
                column("int", "-2147483648", java.sql.Types.INTEGER, Integer.MIN_VALUE),
                column("bigint", "9223372036854775807", java.sql.Types.BIGINT, Long.MAX_VALUE),
                column("real", "0.25", java.sql.Types.REAL, 0.25f),
                column("float", "1.7976931348623157E308", java.sql.Types.DOUBLE, Double.MAX_VALUE),
                column("decimal(38, 10)", LONG.toPlainString(), java.sql.Types.DECIMAL, LONG),
                column("numeric(9, 2)", "-1234567.89", java.sql.Types.NUMERIC,
                        decimal("-1234567.89")),
                column("money", "922337203685477.5807", java.sql.Types.DECIMAL,
                        decimal("922337203685477.5807")),
                column("smallmoney", "-214748.3648", java.sql.Types.DECIMAL,
                        decimal("-214748.3648")),
                padded("char(8)", "'a€c'", java.sql.Types.NVARCHAR, "a€c", "a€c     "),
                column("varchar(50)", "'it''s é'", java.sql.Types.VARCHAR, "it's é"),
                column("varchar(max)", "'long é'", java.sql.Types.LONGVARCHAR, "long é"),
                padded("nchar(4)", "N'日本'", java.sql.Types.NCHAR, "日本", "日本  "),
                column("nvarchar(50)", text, java.sql.Types.NVARCHAR, Client.TEXT),
                column("nvarchar(max)", text, java.sql.Types.LONGNVARCHAR, Client.TEXT),
                padded("binary(4)", "0xFF00", java.sql.Types.BINARY, bytes(255, 0),
                        bytes(255, 0, 0, 0)),
                column("varbinary(50)", "0x00FF10", java.sql.Types.VARBINARY, bytes(0, 255, 16)),
                column("varbinary(max)", "0xFF0000", java.sql.Types.LONGVARBINARY,
                        bytes(255, 0, 0)),
                column("date", "'9999-12-31'", java.sql.Types.DATE,
                        Date.valueOf(LocalDate.of(9999, 12, 31))),
                as("time(7)", "'23:59:59.9999999'", java.sql.Types.TIME,
                        LocalTime.of(23, 59, 59, 999999900)),
                as("datetime", "'1953-01-01T12:34:56.790'", java.sql.Types.TIMESTAMP,
                        LocalDateTime.of(1953, 1, 1, 12, 34, 56, 790000000)),
                as("smalldatetime", "'2079-06-06T23:59:00'", java.sql.Types.TIMESTAMP,
                        LocalDateTime.of(2079, 6, 6, 23, 59)),
                as("datetime2(7)", "'0001-01-01T00:00:00.0000001'", java.sql.Types.TIMESTAMP,
                        LocalDateTime.of(1, 1, 1, 0, 0, 0, 100)),
                as("datetimeoffset(7)", "'2024-02-29T13:14:15.1234567+05:30'",
                        java.sql.Types.TIMESTAMP_WITH_TIMEZONE,
                        OffsetDateTime.parse("2024-02-29T13:14:15.1234567+05:30")),
                column("uniqueidentifier", "'" + GUID + "'", microsoft.sql.Types.GUID, GUID),
                column("text", "'text é'", java.sql.Types.LONGVARCHAR, "text é"),
                column("ntext", text, java.sql.Types.LONGNVARCHAR, Client.TEXT),
                column("image", "0x00CAFE", java.sql.Types.LONGVARBINARY, bytes(0, 0xca, 0xfe)),
                new Column("xml", text, java.sql.Types.LONGNVARCHAR, Client.TEXT, Client.TEXT,
                        String.class));
    }

    void run() throws SQLException {
        String definitions = IntStream.range(0, columns.size())
                .mapToObj(at -> "c" + at + " " + columns.get(at).declaration() + " NULL")
                .collect(Collectors.joining(", "));
        Client.execute(connection,
                "CREATE TABLE " + table + " (id int NOT NULL PRIMARY KEY, " + definitions + ")");
        String literals = columns.stream().map(Column::literal).collect(Collectors.joining(", "));
        Client.execute(connection, "INSERT INTO " + table + " VALUES (1, " + literals + ")");
        String marks = ", ?".repeat(columns.size());
        String insert = "INSERT INTO " + table + " VALUES (?" + marks + ")";
        try (PreparedStatement prepared = connection.prepareStatement(insert)) {
            for (int id = 2; id <= 3; id++) {
                prepared.setInt(1, id);
                for (int at = 0; at < columns.size(); at++) {
                    set(prepared, at + 2, columns.get(at), id == 3);
                }
                Client.same(prepared.executeUpdate(), 1);
            }
        }
        String select = "SELECT * FROM " + table + " WHERE id = ?";
        try (PreparedStatement prepared = connection.prepareStatement(select)) {
            for (int id = 1; id <= 3; id++) {
                prepared.setInt(1, id);
                read(prepared, id);
            }
        }
    }

    private static void set(PreparedStatement prepared, int at, Column column, boolean isNull)
            throws SQLException {
        if (isNull) {
            prepared.setNull(at, column.type());
        } else if (column.sent() instanceof BigDecimal value) {
            prepared.setBigDecimal(at, value);
        } else {
            prepared.setObject(at, column.sent(), column.type());
        }
    }

    private void read(PreparedStatement prepared, int id) throws SQLException {
        try (ResultSet rows = prepared.executeQuery()) {
            Client.same(rows.next(), true);
            for (int at = 0; at < columns.size(); at++) {
                Column column = columns.get(at);
                Object found = column.as() == null
                        ? rows.getObject(at + 2)
                        : rows.getObject(at + 2, column.as());
                try {
                    Client.same(found, id == 3 ? null : column.read());
                } catch (AssertionError error) {
                    throw new AssertionError(column.declaration() + " in row " + id, error);
                }
            }
            Client.same(rows.next(), false);
        }
    }
}
