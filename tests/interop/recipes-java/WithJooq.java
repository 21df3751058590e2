import static org.jooq.impl.DSL.field;
import static org.jooq.impl.DSL.name;
import static org.jooq.impl.DSL.table;

import java.util.List;
import org.jooq.Field;
import org.jooq.Table;
import org.jooq.impl.SQLDataType;

// recipe
import org.jooq.CloseableDSLContext;
import org.jooq.impl.DSL;
import tdekit.Tdekit;

final class Context {
    static CloseableDSLContext open(String path) throws Exception {
        Tdekit.load();
        return DSL.using("jdbc:sqlite:" + path);
    }
}
// end

/** jOOQ over one connection. */
final class WithJooq implements Recipe {
    private static final Table<?> NOTE = table(name("note"));
    private static final Field<Integer> ID = field(name("id"), SQLDataType.INTEGER.notNull());
    private static final Field<String> BODY = field(name("body"), SQLDataType.CLOB.notNull());

    @Override
    public void write(String path, List<Row> rows) throws Exception {
        try (CloseableDSLContext db = Context.open(path)) {
            db.createTable(NOTE).column(ID).column(BODY).primaryKey(ID).execute();
            db.transaction(
                    work ->
                            rows.forEach(
                                    row ->
                                            work.dsl()
                                                    .insertInto(NOTE, ID, BODY)
                                                    .values(row.id(), row.body())
                                                    .execute()));
        }
    }

    @Override
    public List<Row> read(String path) throws Exception {
        try (CloseableDSLContext db = Context.open(path)) {
            return db.select(ID, BODY)
                    .from(NOTE)
                    .orderBy(ID)
                    .fetch(row -> new Row(row.get(ID), row.get(BODY)));
        }
    }
}
