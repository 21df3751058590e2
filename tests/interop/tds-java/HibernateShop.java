import jakarta.persistence.CascadeType;
import jakarta.persistence.CollectionTable;
import jakarta.persistence.Column;
import jakarta.persistence.ElementCollection;
import jakarta.persistence.Entity;
import jakarta.persistence.EnumType;
import jakarta.persistence.Enumerated;
import jakarta.persistence.FetchType;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Index;
import jakarta.persistence.Lob;
import jakarta.persistence.ManyToMany;
import jakarta.persistence.ManyToOne;
import jakarta.persistence.OneToOne;
import jakarta.persistence.Table;
import jakarta.persistence.UniqueConstraint;
import jakarta.persistence.Version;
import java.math.BigDecimal;
import java.sql.Connection;
import java.time.Instant;
import java.time.LocalDate;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.function.Consumer;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.boot.MetadataSources;
import org.hibernate.boot.registry.StandardServiceRegistryBuilder;
import org.hibernate.exception.ConstraintViolationException;

/** Hibernate: `update` by one set of entities, by another, once more, and `validate`. */
final class HibernateShop {
    enum Size { SMALL, LARGE }

    /** The entities before the change. */
    static final class First {
        @Entity(name = "Owner")
        @Table(name = "hb_owner")
        static class Owner {
            @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
            @Column(nullable = false, unique = true, length = 50) String name;
        }

        @Entity(name = "Item")
        @Table(name = "hb_item", indexes = @Index(name = "hb_item_title", columnList = "title"))
        static class Item {
            @Id @GeneratedValue(strategy = GenerationType.SEQUENCE) Long id;
            @Column(nullable = false, length = 200) String title;
            @Column(precision = 19, scale = 4) BigDecimal price;
            @Enumerated(EnumType.STRING) Size size;
            LocalDate day;
            Instant added;
            boolean active;
            @ManyToOne(fetch = FetchType.LAZY) Owner owner;
        }
    }

    /** The entities after it. */
    static final class Second {
        @Entity(name = "Owner")
        @Table(name = "hb_owner")
        static class Owner {
            @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
            @Column(nullable = false, unique = true, length = 50) String name;
            @Column(unique = true) String mail;
            @ElementCollection @CollectionTable(name = "hb_phone") Set<String> phones =
                    new HashSet<>();
        }

        @Entity(name = "Label")
        @Table(name = "hb_label", uniqueConstraints = @UniqueConstraint(columnNames = "text"))
        static class Label {
            @Id @GeneratedValue UUID id;
            @Column(columnDefinition = "nvarchar(80)") String text;
        }

        @Entity(name = "Detail")
        @Table(name = "hb_detail")
        static class Detail {
            @Id @GeneratedValue Integer id;
            @Lob String text;
            @Lob byte[] data;
        }

        @Entity(name = "Item")
        @Table(name = "hb_item", indexes = {
            @Index(name = "hb_item_title", columnList = "title"),
            @Index(name = "hb_item_day", columnList = "day, price desc"),
        })
        static class Item {
            @Id @GeneratedValue(strategy = GenerationType.SEQUENCE) Long id;
            @Column(nullable = false, length = 200) String title;
            @Column(precision = 19, scale = 4) BigDecimal price;
            @Enumerated(EnumType.STRING) Size size;
            LocalDate day;
            Instant added;
            boolean active;
            @ManyToOne(fetch = FetchType.LAZY) Owner owner;
            @OneToOne(cascade = CascadeType.ALL) Detail detail;
            @ManyToMany Set<Label> labels = new HashSet<>();
            @Column(columnDefinition = "bigint not null default 5") long stock;
            @Version @Column(columnDefinition = "int not null default 1") int version;
        }
    }

    private HibernateShop() {}

    static void run(String url) throws Exception {
        work(url, "update", List.of(First.Owner.class, First.Item.class), HibernateShop::fill);
        List<Class<?>> second = List.of(
                Second.Owner.class, Second.Item.class, Second.Label.class, Second.Detail.class);
        work(url, "update", second, HibernateShop::use);
        try (Connection connection = Migrate.open(url)) {
            List<String> before = objects(connection);
            work(url, "update", second, session -> { });
            Client.same(objects(connection), before);
            Client.same(Migrate.column(connection, "hb_item", "stock"), "bigint|19|NO");
            work(url, "validate", second, session -> { });
            refused(() -> work(url, "update", second, HibernateShop::repeat));
            work(url, "create-drop", second, session -> { });
            Client.same(objects(connection), List.of());
        }
    }

    private static List<String> objects(Connection connection) throws Exception {
        return Migrate.rows(connection, "SELECT o.name, o.type, c.name FROM sys.objects AS o"
                + " LEFT JOIN sys.columns AS c ON c.object_id = o.object_id"
                + " WHERE o.name LIKE 'hb[_]%' UNION SELECT name, type_desc, NULL FROM sys.indexes"
                + " WHERE name LIKE 'hb[_]%' ORDER BY 1, 2, 3");
    }

    private static void work(String url, String action, List<Class<?>> entities,
            Consumer<Session> work) {
        var registry = new StandardServiceRegistryBuilder()
                .applySetting("jakarta.persistence.jdbc.url", url)
                .applySetting("jakarta.persistence.jdbc.user", Migrate.USER)
                .applySetting("jakarta.persistence.jdbc.password", Migrate.PASSWORD)
                .applySetting("hibernate.hbm2ddl.auto", action)
                .applySetting("hibernate.hbm2ddl.halt_on_error", true)
                .applySetting("hibernate.use_nationalized_character_data", true)
                .build();
        MetadataSources sources = new MetadataSources(registry);
        entities.forEach(sources::addAnnotatedClass);
        try (SessionFactory factory = sources.buildMetadata().buildSessionFactory()) {
            factory.inTransaction(work);
        }
    }

    private static void fill(Session session) {
        First.Owner owner = new First.Owner();
        owner.name = Client.TEXT;
        session.persist(owner);
        for (int number = 0; number < Migrate.COUNT; number++) {
            First.Item item = new First.Item();
            item.title = Migrate.text(number);
            item.price = new BigDecimal(number);
            item.size = Size.values()[number % 2];
            item.day = LocalDate.of(2024, 2, 29);
            item.added = Instant.parse("2024-02-29T13:14:15.123456Z");
            item.owner = number % 2 == 0 ? null : owner;
            session.persist(item);
        }
    }

    private static void use(Session session) {
        var query = "from Item i left join fetch i.owner order by i.id";
        List<Second.Item> items = session.createQuery(query, Second.Item.class).getResultList();
        Client.same(items.size(), Migrate.COUNT);
        Second.Label label = new Second.Label();
        label.text = Client.TEXT;
        session.persist(label);
        for (int number = 0; number < Migrate.COUNT; number++) {
            Second.Item item = items.get(number);
            Client.same(item.title, Migrate.text(number));
            Client.same(item.price.intValueExact(), number);
            Client.same(item.added, Instant.parse("2024-02-29T13:14:15.123456Z"));
            Client.same(List.of(item.size, item.stock), List.of(Size.values()[number % 2], 5L));
            Client.same(item.owner == null ? null : item.owner.name,
                    number % 2 == 0 ? null : Client.TEXT);
            item.labels.add(label);
            item.detail = new Second.Detail();
            item.detail.text = Client.TEXT.repeat(1000);
            item.detail.data = new byte[] {0, -1};
        }
        items.get(1).owner.phones.addAll(List.of("1", "2"));
        session.flush();
        session.clear();
        Long count = session.createQuery("select count(i) from Item i join i.labels l where"
                + " l.text = :text and i.detail.data is not null", Long.class)
                .setParameter("text", Client.TEXT).getSingleResult();
        Client.same(count, (long) Migrate.COUNT);
        Client.same(session.createQuery("from Item i order by i.title", Second.Item.class)
                .setFirstResult(10).setMaxResults(5).getResultList().size(), 5);
    }

    /** The same name a second time. */
    private static void repeat(Session session) {
        Second.Owner owner = new Second.Owner();
        owner.name = Client.TEXT;
        session.persist(owner);
    }

    private static void refused(Runnable doing) {
        try {
            doing.run();
        } catch (ConstraintViolationException error) {
            Client.same(error.getConstraintName() != null, true);
            return;
        }
        throw new AssertionError("it was not refused");
    }
}
