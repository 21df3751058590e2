"""``tdekit import``, on databases that the other programs' own packages made.

``import.py DIRECTORY``: `TDEKIT_COMMAND` is the command, the key store's variables are set.
"""

import glob
import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

from databases import KEY, MARKER, Sqlcipher, Sqlite3mc, dump, make, without_closing

COMMAND = os.environ["TDEKIT_COMMAND"]
CERTIFICATE = "AppCert"
SITE = os.environ["PYTHONPATH"].split(":")[0]
LIBRARIES = {
    "sqlcipher": None,
    "sqlite3mc": glob.glob(f"{SITE}/apsw/**/libsqlite3_tool.so", recursive=True)
    + glob.glob(f"{SITE}/**/libsqlite3_tool.so", recursive=True),
}


def expect(what, found, wanted):
    if found != wanted:
        raise AssertionError(f"{what}: found {found!r}, wanted {wanted!r}")


def begin(origin, old, new, *more, key=KEY, **variables):
    arguments = [COMMAND, "import", old, "--from", origin, "--to", new]
    arguments += ["--certificate", CERTIFICATE, *more]
    if "--library" not in more and LIBRARIES[origin]:
        arguments += ["--library", LIBRARIES[origin][0]]
    environment = {**os.environ, "TDEKIT_OLD_KEY": key, **variables}
    pipe = subprocess.PIPE
    return subprocess.Popen(arguments, env=environment, stdout=pipe, stderr=pipe, text=True)


def run(*arguments, **options):
    """Imports, and tells how it ended."""
    work = begin(*arguments, **options)
    out, err = work.communicate()
    return subprocess.CompletedProcess(work.args, work.returncode, out, err)


def state(directory):
    """Content of all files, by name."""
    return state_of_files(directory, os.listdir(directory))


def state_of_files(directory, names):
    found = {}
    for name in sorted(names):
        path = os.path.join(directory, name)
        with open(path, "rb") as file:
            found[name] = hashlib.sha256(file.read()).hexdigest()
    return found


def expect_refused(case, code, said, directory, origin, old, new, *more, **options):
    before = state(directory)
    ended = run(origin, old, new, *more, **options)
    expect(f"exit code, {case}: {ended.stderr}", ended.returncode, code)
    expect(f"`{said}`, {case}: {ended.stderr}", said in ended.stderr, True)
    expect(f"the key in what is said, {case}", KEY in ended.stdout + ended.stderr, False)
    expect(f"files, {case}", state(directory), before)


def expect_imported(case, origin, old, settings, arguments, recovered=False):
    """Imports it, and compares what both programs read."""
    directory = os.path.dirname(old)
    new = os.path.join(directory, "new.db")
    before = state(directory)
    ended = run(origin.name, old, new, "--json", *arguments)
    expect(f"exit code, {case}: {ended.stderr}", ended.returncode, 0)
    told = json.loads(ended.stdout)
    expect(f"recovered, {case}", told["journal_recovered"], recovered)
    after = state(directory)
    expect(f"new file, {case}", after.pop("new.db") is not None, True)
    expect(f"old files, {case}", after, before)
    for name in os.listdir(directory):
        with open(os.path.join(directory, name), "rb") as file:
            content = file.read()
        for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
            expect(f"{name} shows rows, {case}", MARKER.encode(encoding) in content, False)
    ours = sqlite3.connect(new)
    expect(f"integrity, {case}", ours.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
    mode = ours.execute("PRAGMA journal_mode").fetchone()[0]
    # Last: it recovers the old file, and leaves no journal or log.
    theirs = origin.open(old, settings)
    expect(f"journal mode, {case}", mode, [*theirs.execute("PRAGMA journal_mode")][0][0])
    found, wanted = dump(ours), dump(theirs)
    for left, right in zip(found, wanted):
        expect(f"line of the dump, {case}", left[:300], right[:300])
    expect(f"dump, {case}", found, wanted)
    expect(f"rows told, {case}", told["rows"] > 300, True)
    ours.close()
    theirs.close()


CIPHERS = ("aes128cbc", "aes256cbc", "chacha20", "sqlcipher", "rc4", "ascon128", "aegis")
CIPHER_3 = [("cipher_compatibility", 3)]
CASES = [
    ("as it comes", Sqlcipher, [], [], "", ""),
    ("version 3", Sqlcipher, CIPHER_3, ["--compatibility", "3"], "", ""),
    (
        "small pages, own iterations",
        Sqlcipher,
        [("cipher_page_size", 1024), ("kdf_iter", 1000)],
        ["--page-size", "1024", "--kdf-iter", "1000"],
        "",
        "",
    ),
    (
        "another HMAC",
        Sqlcipher,
        [("cipher_hmac_algorithm", "HMAC_SHA256")],
        ["--pragma", "cipher_hmac_algorithm=HMAC_SHA256"],
        "",
        "",
    ),
    (
        "UTF-16, auto_vacuum",
        Sqlcipher,
        [],
        [],
        "PRAGMA encoding='UTF-16be'; PRAGMA auto_vacuum=1;",
        "",
    ),
    ("log", Sqlcipher, [], [], "", "PRAGMA journal_mode=wal;"),
    ("as it comes", Sqlite3mc, [], [], "", ""),
    ("UTF-16, log", Sqlite3mc, [], [], "PRAGMA encoding='UTF-16le';", "PRAGMA journal_mode=wal;"),
    *(
        (cipher, Sqlite3mc, [("cipher", f"'{cipher}'")], ["--cipher", cipher], "", "")
        for cipher in CIPHERS
    ),
    (
        "sqlcipher, version 4",
        Sqlite3mc,
        [("cipher", "'sqlcipher'"), ("legacy", 4)],
        ["--cipher", "sqlcipher", "--compatibility", "4"],
        "",
        "",
    ),
]


def imports(top):
    for number, (case, origin, settings, arguments, first, last) in enumerate(CASES):
        directory = os.path.join(top, f"case-{number}")
        os.mkdir(directory)
        old = os.path.join(directory, "old.db")
        make(origin, old, settings, first, last).close()
        expect_imported(f"{origin.name}, {case}", origin, old, settings, arguments)


def crashes(top):
    """A log that was not copied into the database, a journal that has to be rolled back."""
    change = f"UPDATE t SET a = a || ' {MARKER} changed', b = randomblob(400);"
    cases = {
        "log": ("PRAGMA journal_mode=wal;", "PRAGMA wal_autocheckpoint=0;" + change, "-wal"),
        "journal": ("", "PRAGMA cache_size=5; BEGIN;" + change, "-journal"),
    }
    for origin in (Sqlcipher, Sqlite3mc):
        for case, (before, work, side) in cases.items():
            directory = os.path.join(top, f"crash-{origin.name}-{case}")
            os.makedirs(os.path.join(directory, "left"))
            path, old = os.path.join(directory, "old.db"), os.path.join(directory, "left/old.db")
            db = make(origin, path, last=before)
            origin.script(db, work)
            without_closing(db, path, old)
            expect(f"{side} is there", os.path.getsize(old + side) > 1000, True)
            expect_imported(f"{origin.name}, left {case}", origin, old, [], [], recovered=True)


def raw_keys(top):
    """Keys that are no passphrases, as each program writes them."""
    for origin, key in ((Sqlcipher, f"x'{'2d' * 32}'"), (Sqlite3mc, f"raw:{'2d' * 32}")):
        directory = os.path.join(top, f"raw-{origin.name}")
        os.mkdir(directory)
        old, new = os.path.join(directory, "old.db"), os.path.join(directory, "new.db")
        db = origin.open(old, key=key)
        origin.script(db, "CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)")
        db.close()
        key_file = os.path.join(top, f"key-{origin.name}")
        with open(os.open(key_file, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(key + "\n")
        ended = run(origin.name, old, new, "--old-key-file", key_file, key="another")
        expect(f"raw key, {origin.name}: {ended.stderr}", ended.returncode, 0)
        rows = sqlite3.connect(new).execute("SELECT a FROM t").fetchall()
        expect(f"rows behind a raw key, {origin.name}", rows, [(1,), (2,)])


def interruptions(top):
    """Stopped in the middle there is no new file; of a killed run the next removes the rest."""
    directory = os.path.join(top, "stopped")
    os.mkdir(directory)
    old, new = os.path.join(directory, "old.db"), os.path.join(directory, "new.db")
    make(Sqlcipher, old).close()
    for number, left in ((signal.SIGTERM, False), (signal.SIGINT, False), (signal.SIGKILL, True)):
        work = begin("sqlcipher", old, new)
        while not glob.glob(f"{directory}/tdekit-new.*"):
            expect(f"the run goes on before signal {number}", work.poll(), None)
            time.sleep(0.001)
        work.send_signal(number)
        _, said = work.communicate()
        expect(f"exit code after {number}: {said}", work.returncode, -9 if left else 1)
        names = sorted(os.listdir(directory))
        expect(f"new file after {number}", "new.db" in names, False)
        expect(f"remains after {number} {names}", len(names), 2 if left else 1)
    expect("after a killed run", run("sqlcipher", old, new).returncode, 0)
    expect("files after it", sorted(os.listdir(directory)), ["new.db", "old.db"])


def refusals(top):
    for origin in (Sqlcipher, Sqlite3mc):
        directory = os.path.join(top, f"refused-{origin.name}")
        os.mkdir(directory)
        path = lambda name: os.path.join(directory, name)
        old, new, name = path("old.db"), path("new.db"), origin.name
        make(origin, old).close()
        refused = lambda case, code, said, *more, **options: expect_refused(
            case, code, said, directory, name, *more, **options
        )
        refused("wrong key", 3, "does not open in", old, new, key="wrong")
        refused("wrong settings", 3, "does not open in", old, new, "--compatibility", "1")
        refused("no key", 3, "there is no key of the old database", old, new, key="")
        refused("a key as a setting", 2, "no key", old, new, "--pragma", "key=x")
        with open(path("text"), "w") as file:
            file.write("this is no database\n" * 100)
        refused("not a database", 4, "is not a database", path("text"), new)
        sqlite3.connect(path("plain.db")).executescript("CREATE TABLE t(a)")
        refused("plain", 1, "is not encrypted", path("plain.db"), new)
        refused("target exists", 1, "exists", old, path("text"))
        with open(path("other.db-wal"), "w") as file:
            file.write("somebody's")
        refused("a log of the new name", 1, "exists", old, path("other.db"))
        refused("missing", 7, "cannot open", path("none.db"), new)
        refused("no such directory", 7, "cannot open", old, path("none/new.db"))
        stock = ["--library", "libsqlite3.so.0"]
        refused("stock library", 1, "another kind", old, new, *stock)
        refused("no library", 1, "no library of", old, new, "--library", path("none.so"))
        size = os.path.getsize(old)
        damaged = 0
        for page in range(2, size // 4096, 7):
            with open(old, "rb") as file:
                content = bytearray(file.read())
            content[page * 4096 + 2000] ^= 1
            with open(path("damaged.db"), "wb") as file:
                file.write(content)
            refused(f"page {page} damaged", 4, "", path("damaged.db"), new)
            damaged += 1
        expect("damaged pages tried", damaged > 5, True)
        with open(path("cut.db"), "wb") as file:
            file.write(content[: size // 2 // 4096 * 4096])
        refused("half of it", 4, "", path("cut.db"), new)
        held = origin.open(old)
        held.execute("SELECT count(*) FROM t").fetchone()
        refused("in use", 5, "is in use", old, new)
        held.close()


def directories(top):
    """Every database below a directory; what fails does not stop the others."""
    old, new = os.path.join(top, "directory"), os.path.join(top, "directory-new")
    os.makedirs(os.path.join(old, "below"))
    path = lambda *names: os.path.join(old, *names)
    make(Sqlcipher, path("a.db")).close()
    log = make(Sqlcipher, path("source.db"), last="PRAGMA journal_mode=wal;")
    Sqlcipher.script(log, "PRAGMA wal_autocheckpoint=0; INSERT INTO loose(x) VALUES ('logged')")
    without_closing(log, path("source.db"), path("below", "b.db"))
    os.remove(path("source.db"))
    sqlite3.connect(path("plain.db")).executescript("CREATE TABLE t(a)")
    with open(path("notes.txt"), "w") as file:
        file.write("no database")
    os.symlink(old, path("below", "again"))
    before = state_below(old)
    ended = run("sqlcipher", old, new, "--json")
    expect(f"exit code of a directory: {ended.stderr}", ended.returncode, 0)
    told = json.loads(ended.stdout)
    names = [os.path.relpath(one["path"], os.path.realpath(new)) for one in told["imported"]]
    expect("databases of a directory", names, ["a.db", "below/b.db"])
    # A plain database, a text file and a link to a directory.
    expect("others of a directory", (told["others"], told["failed"]), (3, []))
    expect("old files of a directory", state_below(old), before)
    for name in names:
        ours = sqlite3.connect(os.path.join(new, name))
        expect(f"integrity of {name}", ours.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
        logged = ours.execute("SELECT count(*) FROM loose WHERE x = 'logged'").fetchone()[0]
        expect(f"what the log of {name} held", logged, int(name != "a.db"))
        ours.close()
    made = state_below(new)
    again = run("sqlcipher", old, new)
    expect(f"imported twice: {again.stderr}", again.returncode, 1)
    expect("what was imported before", state_below(new), made)
    make(Sqlcipher, path("first.db"), last="PRAGMA rekey = 'another';").close()
    ended = run("sqlcipher", old, new + "-2")
    expect(f"one that does not open: {ended.stderr}", ended.returncode, 3)
    expect("which failed", f"Not imported: {path('first.db')}: " in ended.stdout, True)
    expect("the others", sorted(state_below(new + "-2")), ["a.db", "below/b.db"])
    os.remove(path("first.db"))
    with open(path("a.db"), "rb") as file:
        cut = file.read()[:-1]
    with open(path("cut.db"), "wb") as file:
        file.write(cut)
    ended = run("sqlcipher", old, new + "-4")
    expect(f"one that is a byte short: {ended.stderr}", ended.returncode, 4)
    expect("which is short", f"Not imported: {path('cut.db')}: " in ended.stdout, True)
    expect("the others beside it", sorted(state_below(new + "-4")), ["a.db", "below/b.db"])
    for empty in (os.path.join(old, "empty"), os.path.join(old, "none")):
        if empty.endswith("empty"):
            os.mkdir(empty)
        ended = run("sqlcipher", empty, new + "-3")
        expect(f"{empty}: {ended.stderr}", ended.returncode, 1 if empty.endswith("empty") else 7)
        expect(f"made of {empty}", os.path.exists(new + "-3"), False)


def state_below(top):
    """Content of all files in and below a directory, by name."""
    found = {}
    for directory, _, names in os.walk(top):
        for name, content in state_of_files(directory, names).items():
            found[os.path.relpath(os.path.join(directory, name), top)] = content
    return found


def main():
    top = os.path.abspath(sys.argv[1])
    subprocess.run([COMMAND, "bench", "peers", "install", "sqlcipher"], check=True)
    import tdekit

    tdekit.load()
    imports(top)
    crashes(top)
    raw_keys(top)
    interruptions(top)
    refusals(top)
    directories(top)
    print(f"import: ok ({len(CASES) + 8} databases)")


if __name__ == "__main__":
    main()
