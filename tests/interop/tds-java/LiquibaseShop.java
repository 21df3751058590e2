import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.sql.Connection;
import java.util.List;
import java.util.Map;
import liquibase.Scope;
import liquibase.changelog.FastCheckService;
import liquibase.command.CommandScope;
import liquibase.resource.DirectoryResourceAccessor;

/** Liquibase: `update` twice, `snapshot`, `diff`, `generateChangelog`, `rollback`. */
final class LiquibaseShop {
    private static final String CHANGES = "changes.xml";

    private final String url;
    private final Path place;

    private LiquibaseShop(String url, Path place) {
        this.url = url;
        this.place = place;
    }

    static void run(String url) throws Exception {
        Path place = Path.of(LiquibaseShop.class.getResource("/" + CHANGES).toURI()).getParent();
        LiquibaseShop shop = new LiquibaseShop(url, place);
        shop.command("update", Map.of("changelogFile", CHANGES, "labelFilter", "first"));
        try (Connection connection = Migrate.open(url)) {
            fill(connection);
            shop.both(connection);
        }
    }

    private void both(Connection connection) throws Exception {
        for (int round = 0; round < 2; round++) {
            command("update", Map.of("changelogFile", CHANGES));
            check(connection);
            String sql = command("updateSql", Map.of("changelogFile", CHANGES));
            Client.same(sql.contains("ALTER TABLE"), false);
            if (round == 0) {
                reflect();
                command("rollbackCount", Map.of("changelogFile", CHANGES, "count", 8));
                kept(connection, "lb_product", "name");
                Client.same(Migrate.column(connection, "lb_product", "name"), "nvarchar|100|NO");
                Client.same(Migrate.column(connection, "lb_product", "price"), "decimal|9|YES");
            }
        }
        command("validate", Map.of("changelogFile", CHANGES));
        command("dropAll", Map.of());
        String sql = "SELECT COUNT(*) FROM sys.tables WHERE name LIKE 'lb[_]%'";
        Client.same(Client.one(connection, sql), 0);
    }

    /** What Liquibase reads of the catalog. */
    private void reflect() throws Exception {
        String snapshot = command("snapshot", Map.of("snapshotFormat", "json"));
        List<String> names =
                List.of("lb_item", "lb_owner", "lb_item_code", "lb_sums", "lb_numbers");
        for (String name : names) {
            Client.same(snapshot.contains("\"" + name + "\""), true);
        }
        Map<String, Object> itself = Map.of("referenceUrl", url, "referenceUsername", Migrate.USER,
                "referencePassword", Migrate.PASSWORD);
        String diff = command("diff", itself);
        for (String line : diff.split("\n")) {
            if (line.matches("(Missing|Unexpected|Changed) .*")) {
                Client.same(line.endsWith(": NONE"), true);
            }
        }
        String generated = command("generateChangelog", Map.of());
        Client.same(generated.contains("lb_item_owner"), true);
    }

    private static void fill(Connection connection) throws Exception {
        String sql = "INSERT INTO lb_product (name, code, price, owner_id) VALUES (?, ?, ?, ?)";
        try (var insert = connection.prepareStatement(sql)) {
            for (int number = 1; number <= Migrate.COUNT; number++) {
                insert.setString(1, Migrate.text(number));
                insert.setString(2, "c" + number);
                insert.setInt(3, number);
                insert.setObject(4, number % 2 == 0 ? null : 1, java.sql.Types.INTEGER);
                insert.execute();
            }
        }
    }

    private static void kept(Connection connection, String table, String column) throws Exception {
        List<String> found = Migrate.rows(connection, "SELECT " + column + ", code,"
                + " CAST(price AS int), owner_id FROM " + table + " ORDER BY id");
        Client.same(found.size(), Migrate.COUNT);
        for (int number = 1; number <= Migrate.COUNT; number++) {
            Object owner = number % 2 == 0 ? null : 1;
            Client.same(found.get(number - 1),
                    Migrate.text(number) + "|c" + number + "|" + number + "|" + owner);
        }
    }

    private static void check(Connection connection) throws Exception {
        kept(connection, "lb_item", "title");
        Client.same(Migrate.column(connection, "lb_item", "title"), "nvarchar|300|YES");
        Client.same(Migrate.column(connection, "lb_item", "price"), "decimal|19|NO");
        Client.same(Migrate.column(connection, "lb_item", "stock"), "int|10|NO");
        Client.same(Client.one(connection, "SELECT SUM(items) FROM lb_sums"), Migrate.COUNT);
        String change = "UPDATE lb_item SET ";
        Client.refused(2627, () -> Client.execute(connection, change + "code = 'x'"));
        Client.refused(547, () -> Client.execute(connection, change + "owner_id = 9"));
        Client.refused(515, () -> Client.execute(connection, change + "price = NULL"));
    }

    /** Runs a command on the database, and returns its output. */
    private String command(String name, Map<String, Object> arguments) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (DirectoryResourceAccessor files = new DirectoryResourceAccessor(place)) {
            Scope.child(Scope.Attr.resourceAccessor, files, () -> {
                // Otherwise it trusts what it found before, as if nobody rolled back meanwhile.
                Scope.getCurrentScope().getSingleton(FastCheckService.class).clearCache();
                CommandScope command = new CommandScope(name);
                command.addArgumentValue("url", url);
                command.addArgumentValue("username", Migrate.USER);
                command.addArgumentValue("password", Migrate.PASSWORD);
                arguments.forEach(command::addArgumentValue);
                command.setOutput(out).execute();
            });
        }
        return out.toString(StandardCharsets.UTF_8);
    }
}
