import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/**
 * Uses a database through one tool, as docs/recipes.md describes; see tests/interop/README.md.
 *
 * <p>{@code Recipes TOOL write|read DATABASE}: makes the table by the tool's own means and writes
 * the rows, or prints their number and sum. The program loads nothing of tdekit: the recipes do.
 */
final class Recipes {
    private static final Map<String, Recipe> TOOLS =
            Map.of(
                    "hikari", new WithHikari(),
                    "hibernate", new WithHibernate(),
                    "jooq", new WithJooq(),
                    "jdbc", new WithJdbc());

    private Recipes() {}

    public static void main(String[] arguments) throws Exception {
        Recipe recipe = TOOLS.get(arguments[0]);
        String marker = System.getenv("INTEROP_MARKER");
        List<Recipe.Row> rows =
                IntStream.rangeClosed(1, 100)
                        .mapToObj(id -> new Recipe.Row(id, "note " + id + " " + marker))
                        .toList();
        if (arguments[1].equals("write")) {
            recipe.write(arguments[2], rows);
            return;
        }
        List<Recipe.Row> found = recipe.read(arguments[2]);
        if (!found.equals(rows)) {
            throw new IllegalStateException("other rows: " + found);
        }
        System.out.println(found.size() + " " + found.stream().mapToInt(Recipe.Row::id).sum());
    }
}
