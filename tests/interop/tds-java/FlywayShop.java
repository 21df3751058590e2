import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.util.Arrays;
import java.util.List;
import org.flywaydb.core.Flyway;
import org.flywaydb.core.api.MigrationInfo;
import org.flywaydb.core.api.configuration.FluentConfiguration;

/** Flyway: two migrations of SQL and a repeatable one, `validate`, `info`, `repair`, `clean`. */
final class FlywayShop {
    private static final String FIRST = """
            CREATE TABLE shop.owner (id int IDENTITY(1, 1) CONSTRAINT owner_key PRIMARY KEY,
              name nvarchar(50) NOT NULL CONSTRAINT owner_name UNIQUE);
            CREATE TABLE shop.product (id int IDENTITY(1, 1) CONSTRAINT product_key PRIMARY KEY,
              name nvarchar(200) NOT NULL, code varchar(10) NULL,
              price decimal(9, 2) NULL CONSTRAINT product_price DEFAULT 1.5,
              owner_id int NULL CONSTRAINT product_owner REFERENCES shop.owner (id));
            CREATE INDEX product_name ON shop.product (name);
            GO
            CREATE PROCEDURE shop.add_owner @name nvarchar(50) AS
            BEGIN
              SET NOCOUNT ON;
              INSERT INTO shop.owner (name) VALUES (@name);
            END
            GO
            EXEC shop.add_owner @name = N'${owner}';
            """;
    private static final String SECOND = """
            ALTER TABLE shop.product DROP CONSTRAINT product_price;
            UPDATE shop.product SET price = 0 WHERE price IS NULL;
            ALTER TABLE shop.product ALTER COLUMN price decimal(19, 4) NOT NULL;
            ALTER TABLE shop.product ADD CONSTRAINT product_price DEFAULT 2 FOR price;
            ALTER TABLE shop.product ADD note nvarchar(max) NULL, stock int NOT NULL DEFAULT 5;
            EXEC sp_rename 'shop.product.name', 'title', 'COLUMN';
            EXEC sp_rename 'shop.product', 'item';
            ALTER TABLE shop.item WITH CHECK ADD CONSTRAINT item_price CHECK (price >= 0);
            CREATE UNIQUE INDEX item_code ON shop.item (code) WHERE code IS NOT NULL;
            IF OBJECT_ID('shop.label') IS NULL
            BEGIN
              CREATE TABLE shop.label (item_id int NOT NULL REFERENCES shop.item (id)
                ON DELETE CASCADE, text nvarchar(40) NOT NULL, PRIMARY KEY (item_id, text));
            END
            GO
            INSERT INTO shop.label SELECT id, N'old' FROM shop.item WHERE id <= 10;
            GO
            """;
    private static final String VIEW = """
            CREATE OR ALTER VIEW shop.sums AS
              SELECT owner_id, COUNT(*) AS items, SUM(price) AS price FROM shop.item
              GROUP BY owner_id;
            """;

    private FlywayShop() {}

    static void run(String url) throws Exception {
        Path migrations = Files.createTempDirectory(Path.of("").toAbsolutePath(), "flyway");
        FluentConfiguration configuration = Flyway.configure()
                .dataSource(url, Migrate.USER, Migrate.PASSWORD)
                .locations("filesystem:" + migrations).schemas("shop").cleanDisabled(false)
                .placeholders(java.util.Map.of("owner", Client.TEXT));
        Files.writeString(migrations.resolve("V1__first.sql"), FIRST);
        Flyway first = configuration.load();
        Client.same(first.migrate().migrationsExecuted, 1);
        Client.same(first.migrate().migrationsExecuted, 0);
        try (Connection connection = Migrate.open(url)) {
            fill(connection);
            Files.writeString(migrations.resolve("V2__second.sql"), SECOND);
            Files.writeString(migrations.resolve("R__view.sql"), VIEW);
            Flyway second = configuration.load();
            Client.same(second.migrate().migrationsExecuted, 2);
            Client.same(second.migrate().migrationsExecuted, 0);
            second.validate();
            check(connection);
            List<String> states = Arrays.stream(second.info().all())
                    .map(MigrationInfo::getState).map(String::valueOf).toList();
            Client.same(states, List.of("SUCCESS", "SUCCESS", "SUCCESS", "SUCCESS"));
            failed(migrations, configuration, connection);
            second.clean();
            String sql = "SELECT COUNT(*) FROM sys.objects WHERE schema_id = SCHEMA_ID('shop')";
            Client.same(Client.one(connection, sql), 0);
        }
    }

    private static void fill(Connection connection) throws Exception {
        String sql = "INSERT INTO shop.product (name, code, price, owner_id) VALUES (?, ?, ?, ?)";
        try (var insert = connection.prepareStatement(sql)) {
            for (int number = 1; number <= Migrate.COUNT; number++) {
                insert.setString(1, Migrate.text(number));
                insert.setString(2, number % 5 == 0 ? null : "c" + number);
                insert.setBigDecimal(3, number % 7 == 0 ? null : new java.math.BigDecimal(number));
                insert.setObject(4, number % 2 == 0 ? null : 1, java.sql.Types.INTEGER);
                insert.addBatch();
            }
            Client.same(insert.executeBatch().length, Migrate.COUNT);
        }
    }

    private static void check(Connection connection) throws Exception {
        List<String> found = Migrate.rows(connection, "SELECT title, code, CAST(price AS int),"
                + " owner_id, stock, note FROM shop.item ORDER BY id");
        for (int number = 1; number <= Migrate.COUNT; number++) {
            Object code = number % 5 == 0 ? null : "c" + number;
            Object owner = number % 2 == 0 ? null : 1;
            int price = number % 7 == 0 ? 0 : number;
            String wanted = Migrate.text(number) + "|" + code + "|" + price + "|" + owner;
            Client.same(found.get(number - 1), wanted + "|5|null");
        }
        Client.same(found.size(), Migrate.COUNT);
        Client.same(Migrate.column(connection, "item", "price"), "decimal|19|NO");
        Client.same(Client.one(connection, "SELECT COUNT(*) FROM shop.label"), 10);
        Client.same(Client.one(connection, "SELECT SUM(items) FROM shop.sums"), Migrate.COUNT);
        String change = "UPDATE shop.item SET ";
        Client.refused(547, () -> Client.execute(connection, change + "price = -1"));
        Client.refused(2601, () -> Client.execute(connection, change + "code = 'x'"));
        Client.refused(547, () -> Client.execute(connection, change + "owner_id = 9"));
    }

    /** A migration that fails in its middle leaves nothing behind. */
    private static void failed(Path migrations, FluentConfiguration configuration,
            Connection connection) throws Exception {
        Path path = migrations.resolve("V3__third.sql");
        String script = "CREATE TABLE shop.third (id int);\nGO\nALTER TABLE shop.nix ADD a int;";
        Files.writeString(path, script);
        try {
            configuration.load().migrate();
        } catch (org.flywaydb.core.api.FlywayException error) {
            String sql = "SELECT OBJECT_ID('shop.third')";
            Client.same(Client.one(connection, sql), null);
            Files.delete(path);
            configuration.load().repair();
            configuration.load().validate();
            return;
        }
        throw new AssertionError("the third migration did not fail");
    }
}
