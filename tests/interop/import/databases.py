"""Databases that SQLCipher and SQLite3 Multiple Ciphers encrypt, and what they hold."""

import os
import shutil

import apsw
import sqlcipher3.dbapi2

KEY = "the 'old' key"
MARKER = os.environ["INTEROP_MARKER"]

CONTENT = f"""
CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT, b BLOB, c REAL);
WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 300)
  INSERT INTO t(a, b, c) SELECT '{MARKER} ' || x, randomblob(x), x / 3.0 FROM n;
DELETE FROM t WHERE id % 7 = 0;
INSERT INTO t(a, b) VALUES ('žluť 表 🔑', zeroblob(100000)), (NULL, x''), ('', zeroblob(1));
CREATE TABLE loose(rowid, x);
INSERT INTO loose(_rowid_, rowid, x) VALUES (5, 'five', 1), (900, 'more', 2.5), (7, NULL, x'00');
CREATE TABLE w(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
INSERT INTO w VALUES ('b', 1), ('a', zeroblob(9000));
CREATE TABLE g(a, b AS (a * 2) STORED, c AS (a + 1) VIRTUAL);
INSERT INTO g VALUES (4), (5);
CREATE INDEX i ON t(a DESC);
CREATE INDEX part ON t(c) WHERE c > 50;
CREATE UNIQUE INDEX expression ON w(lower(k));
CREATE VIEW seen AS SELECT id, length(b) AS n FROM t;
CREATE TRIGGER after_w AFTER INSERT ON w BEGIN INSERT INTO loose(x) VALUES (new.k); END;
CREATE VIRTUAL TABLE words USING fts5(body);
INSERT INTO words VALUES ('some words to find'), ('{MARKER}');
PRAGMA user_version = 77;
PRAGMA application_id = 1234567;
ANALYZE;
"""


class Sqlcipher:
    """SQLCipher by the package sqlcipher3-wheels."""

    name = "sqlcipher"

    @staticmethod
    def open(path, settings=(), key=KEY):
        db = sqlcipher3.dbapi2.connect(path, isolation_level=None)
        db.execute("PRAGMA key = '%s'" % key.replace("'", "''"))
        for name, value in settings:
            db.execute(f"PRAGMA {name} = {value}")
        return db

    @staticmethod
    def script(db, sql):
        db.executescript(sql)


class Sqlite3mc:
    """SQLite3 Multiple Ciphers by the package apsw-sqlite3mc."""

    name = "sqlite3mc"

    @staticmethod
    def open(path, settings=(), key=KEY):
        db = apsw.Connection(path)
        for name, value in settings:
            db.execute(f"PRAGMA {name} = {value}").fetchall()
        db.execute("PRAGMA key = '%s'" % key.replace("'", "''")).fetchall()
        return db

    @staticmethod
    def script(db, sql):
        db.execute(sql).fetchall()


def make(origin, path, settings=(), first="", last=""):
    """Makes a database; ``first`` runs before the content, ``last`` behind it."""
    db = origin.open(path, settings)
    origin.script(db, first + CONTENT + last)
    return db


def without_closing(db, path, to):
    """Copies a database's files while a connection has them open, as a crash leaves them."""
    for suffix in ("", "-journal", "-wal"):
        if os.path.exists(path + suffix):
            shutil.copyfile(path + suffix, to + suffix)
    db.close()


def dump(db):
    """Settings, schema and every row with its row number, as text."""
    rows = lambda sql: [tuple(row) for row in db.execute(sql)]
    lines = []
    for name in ("encoding", "user_version", "application_id", "auto_vacuum"):
        lines.append((name, rows(f"PRAGMA {name}")))
    # A copy has virtual tables after the others.
    schema = sorted(rows("SELECT type, name, tbl_name, sql FROM sqlite_master"), key=repr)
    lines += schema
    queries = {
        "loose": "_rowid_, *",
        "w": "*",
        "words_config": "*",
        "words_idx": "*",
        "words": "rowid, *",
    }
    for kind, name, _, _ in schema:
        if kind == "table":
            columns = queries.get(name, "rowid, *")
            lines += [(name, row) for row in rows(f'SELECT {columns} FROM "{name}"')]
    lines += rows("SELECT * FROM seen")
    lines += rows("SELECT rowid FROM words WHERE words MATCH 'find'")
    return [repr(line) for line in lines]
