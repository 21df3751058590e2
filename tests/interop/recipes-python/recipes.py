"""Uses a database through one tool, as docs/recipes.md describes; see tests/interop/README.md.

``recipes.py TOOL write|read DATABASE``: makes the table by the tool's own means and writes the
rows, or prints their number and sum. The program loads nothing of tdekit: the recipes do.
"""

import importlib
import os
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
MARKER = os.environ["INTEROP_MARKER"]
ROWS = [(i, f"note {i} {MARKER}") for i in range(1, 101)]
TOOLS = ("django", "sqlalchemy", "alembic", "peewee", "pandas", "datasette")


def main():
    tool, work, path = sys.argv[1:]
    if tool not in TOOLS or work not in ("write", "read"):
        sys.exit(f"recipes: no {tool} {work}")
    sys.path.insert(0, HERE)
    os.environ["NOTES_DATABASE"] = path
    recipe = importlib.import_module(f"with_{tool}")
    if work == "write":
        recipe.write(path, ROWS)
        return
    found = sorted(recipe.read(path))
    if [tuple(row) for row in found] != ROWS:
        sys.exit(f"recipes: {tool} read {found[:3]} ... of {len(found)}")
    print(len(found), sum(row[0] for row in found))


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
        sys.exit(1)
