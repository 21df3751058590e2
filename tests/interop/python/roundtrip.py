"""Uses one database through the stock ``sqlite3`` module; see tests/interop/README.md."""

import os
import sqlite3
import subprocess
import sys

import tdekit

ROWS = 1000
MARKER = os.environ["INTEROP_MARKER"]
SEALED = "TDEKIT_EXTENSION" in os.environ


def body(i):
    return f"žluťoučký 表 🔑 {i} {MARKER}"


def data(i):
    return bytes((i * 7 + j * 13) & 0xFF for j in range(300))


def expect(what, found, wanted):
    if found != wanted:
        raise AssertionError(f"{what}: found {found!r}, expected {wanted!r}")


def one(db, sql, *values):
    return db.execute(sql, values).fetchone()


def expect_sealed_files(path, when, must_exist=None):
    """No file beside the database shows the marker; in a plain run at least one does."""
    directory = os.path.dirname(path)
    if must_exist:
        size = os.path.getsize(path + must_exist)
        expect(f"{must_exist} {when} holds something", size > 0, True)
    showing = []
    for name in sorted(os.listdir(directory)):
        with open(os.path.join(directory, name), "rb") as file:
            if MARKER.encode() in file.read():
                showing.append(name)
    expect(f"files that show the marker {when} ({showing})", bool(showing), not SEALED)


def write_and_change(db, path, mode):
    expect("journal mode", one(db, f"PRAGMA journal_mode={mode}")[0], mode)
    table = f"note_{mode}"
    db.execute(f"CREATE TABLE {table}(id INTEGER PRIMARY KEY, body TEXT, data BLOB, n REAL)")
    with db:
        db.execute("BEGIN")
        db.executemany(
            f"INSERT INTO {table} VALUES(?, ?, ?, ?)",
            ((i, body(i), data(i), i / 4) for i in range(1, ROWS + 1)),
        )
    for i in (1, 500, ROWS):
        found = one(db, f"SELECT body, data, n FROM {table} WHERE id=?", i)
        expect(f"row {i}", found, (body(i), data(i), i / 4))
    changed = db.execute(f"UPDATE {table} SET n=-n, body=body||'!' WHERE id%10=0").rowcount
    expect("rows updated", changed, 100)
    expect("rows deleted", db.execute(f"DELETE FROM {table} WHERE id%10=5").rowcount, 100)
    db.execute("BEGIN")
    db.execute(f"DELETE FROM {table}")
    db.execute("ROLLBACK")
    expect("rows left", one(db, f"SELECT count(*), sum(n) FROM {table}"), (900, 87375.0))


def write_through_rollback_journal(db, path):
    db.execute("PRAGMA cache_size=10")
    db.execute("BEGIN")
    db.execute("UPDATE note_delete SET n=n+1, body=body||'?'")
    expect_sealed_files(path, "in a transaction", "-journal")
    db.execute("ROLLBACK")
    db.execute("PRAGMA cache_size=-2000")


def attach_plain(db, path):
    side = os.path.join(os.path.dirname(path), "side.db")
    db.execute("ATTACH ? AS side", (side,))
    db.execute("BEGIN")
    db.execute("INSERT INTO side.side SELECT id+100, 'from main' FROM note_delete WHERE id<=20")
    db.execute("UPDATE note_delete SET n=0 WHERE id=1")
    db.execute("COMMIT")
    expect("rows in the attached file", one(db, "SELECT count(*) FROM side.side"), (28,))
    joined = one(db, "SELECT count(*) FROM side.side s JOIN note_delete n ON s.id=n.id+100")
    expect("joined rows", joined, (18,))
    db.execute("DETACH side")
    with open(side, "rb") as file:
        expect("the attached file stays plain", file.read(16), b"SQLite format 3\0")


def opens_afresh(path):
    """What a fresh process, with the extension if it is told where, says to this file."""
    if SEALED:
        load_extension()
    try:
        db = sqlite3.connect(path, uri=path.startswith("file:"))
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        db.execute("CREATE TEMP TABLE lost(x)")
    except sqlite3.DatabaseError as error:
        print(error)
        return 1
    return 0


def load_extension():
    """Loads as an application does, or by ctypes alone where the driver asks for that; not at all
    where the loader put the extension before this program.
    """
    if "LD_PRELOAD" in os.environ:
        return "preloaded"
    if "INTEROP_PYTHON_CTYPES" in os.environ:
        tdekit.load_by_ctypes(tdekit.extension_path())
        return "loaded by ctypes"
    return f"loaded by {tdekit.load()}"


def expect_fresh_process(path, wanted, *missing, **changed):
    """What a process says that lacks something of this one's environment."""
    if "TDEKIT_EXTENSION" in missing:
        missing += ("LD_PRELOAD",)
    environment = {k: v for k, v in os.environ.items() if k not in missing}
    fresh = subprocess.run(
        [sys.executable, __file__, "--afresh", path],
        env={**environment, **changed},
        stdout=subprocess.PIPE,
        text=True,
    )
    case = f"without {missing} with {changed}"
    said = fresh.stdout.strip()
    expect(f"said {case}", said[: len(wanted)] if wanted else said, wanted)
    expect(f"code {case}", fresh.returncode, int(wanted != ""))


def run(path):
    way = load_extension() if SEALED else "without the extension"
    db = sqlite3.connect(path, isolation_level=None)
    expect("seed", one(db, "SELECT count(*), sum(id) FROM seed"), (500, 125250))
    expect("row of seed", one(db, "SELECT name FROM seed WHERE id=7")[0], f"seed 7 {MARKER}")
    write_and_change(db, path, "wal")
    expect_sealed_files(path, "in WAL mode", "-wal")
    write_and_change(db, path, "delete")
    write_through_rollback_journal(db, path)
    attach_plain(db, path)
    expect("integrity_check", db.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
    db.close()
    expect_sealed_files(path, "at rest")
    expect_fresh_process(path, "file is not a database" if SEALED else "", "TDEKIT_EXTENSION")
    if SEALED:
        denied = "authorization denied: tdekit: the database's key did not open: "
        expect_fresh_process(path, denied + "nothing is configured", "TDEKIT_PASSWORD")
        expect_fresh_process(path, denied + "wrong password", TDEKIT_PASSWORD="wrong")
    print(f"python: ok (SQLite {sqlite3.sqlite_version}, {way})")


if __name__ == "__main__":
    if sys.argv[1] == "--afresh":
        sys.exit(opens_afresh(sys.argv[2]))
    try:
        run(sys.argv[1])
    except Exception as error:
        sys.exit(f"python: FAILED: {type(error).__name__}: {error}")
