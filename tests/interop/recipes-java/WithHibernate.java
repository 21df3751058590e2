import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import java.util.List;

// recipe
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;
import tdekit.Tdekit;

final class Sessions {
    static final String DIALECT = "org.hibernate.community.dialect.SQLiteDialect";

    static SessionFactory open(String path, Class<?>... entities) throws Exception {
        Tdekit.load();
        Configuration configuration =
                new Configuration()
                        .setProperty("hibernate.connection.url", "jdbc:sqlite:" + path)
                        .setProperty("hibernate.dialect", DIALECT)
                        .setProperty("hibernate.hbm2ddl.auto", "update");
        for (Class<?> entity : entities) {
            configuration.addAnnotatedClass(entity);
        }
        return configuration.buildSessionFactory();
    }
}
// end

/** Hibernate, which makes the table by itself. */
final class WithHibernate implements Recipe {
    /** A row. */
    @Entity(name = "Note")
    @Table(name = "note")
    static class Note {
        @Id int id;

        @Column(nullable = false)
        String body;
    }

    @Override
    public void write(String path, List<Row> rows) throws Exception {
        try (SessionFactory sessions = Sessions.open(path, Note.class)) {
            sessions.inTransaction(
                    session ->
                            rows.forEach(
                                    row -> {
                                        Note note = new Note();
                                        note.id = row.id();
                                        note.body = row.body();
                                        session.persist(note);
                                    }));
        }
    }

    @Override
    public List<Row> read(String path) throws Exception {
        try (SessionFactory sessions = Sessions.open(path, Note.class)) {
            return sessions.fromSession(
                            session ->
                                    session.createQuery("from Note order by id", Note.class).list())
                    .stream()
                    .map(note -> new Row(note.id, note.body))
                    .toList();
        }
    }
}
