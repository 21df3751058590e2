"""Python's drivers of SQL Server against `tdekit serve`: the same work through each.

usage: client.py DRIVER|sqlalchemy PORT off|login|on|strict CERTIFICATE OTHER_CERTIFICATE
"""

import datetime
import decimal
import os
import sys
import time

import columns
from checks import same
from drivers import DRIVERS

PASSWORD = os.environ["INTEROP_PASSWORD"]
MARKER = os.environ["INTEROP_MARKER"]
LONG = 1_000_000


def one(cursor, text, *parameters):
    cursor.execute(text, parameters) if parameters else cursor.execute(text)
    return cursor.fetchone()[0]


class Work:
    """What is done through one driver, on tables of its own."""

    def __init__(self, name, port, mode, certificate, other_certificate):
        self.driver = DRIVERS[name](port, mode, certificate)
        self.other_certificate = other_certificate
        self.suffix = f"{name.replace('-', '_')}_{mode}"

    def run(self):
        self.log_in()
        self.types()
        self.rows()
        self.change()
        self.long_values()
        self.bulk()
        self.tables()
        self.refusals()
        self.results()
        self.cancel()
        self.permissions()
        if self.driver.log_backups:
            self.log_backups()
        self.connection.close()

    def alone(self, text):
        """Runs what a transaction, which drivers begin by themselves, may not have in it."""
        cursor = self.connection.cursor()
        cursor.execute(f"IF @@TRANCOUNT > 0 COMMIT; {text}")
        while cursor.nextset():
            pass

    def tables(self):
        """Table-valued parameters of a text and of a procedure, and a function over their rows."""
        name = f"dbo.pairs_{self.suffix}"
        if self.driver.table(name, []) is None:
            return
        self.alone(
            f"CREATE TYPE {name} AS TABLE (id int NOT NULL PRIMARY KEY, name nvarchar(20) NULL,"
            " amount decimal(9, 2) NULL)"
        )
        self.alone(f"EXEC('CREATE PROCEDURE {name}_p @k int, @t {name} READONLY AS SELECT"
                   " SUM(id) * @k, MAX(name), MAX(amount) FROM @t')")
        self.alone(f"EXEC('CREATE FUNCTION {name}_f (@t {name} READONLY, @least int) RETURNS TABLE"
                   " AS RETURN SELECT id, name FROM @t WHERE id >= @least')")
        rows = [(at, f"n\u00e4me {at}", decimal.Decimal(at) / 4) for at in range(1, 3001)]
        cursor = self.connection.cursor()
        given = self.driver.table(name, rows)
        cursor.execute("SELECT COUNT(*), MIN(name), SUM(amount) FROM %s", (given,))
        wanted = (3000, "n\u00e4me 1", sum(row[2] for row in rows))
        same(tuple(cursor.fetchone()), wanted, "a table in a text")
        cursor.callproc(f"{name}_p", (2, self.driver.table(name, rows[:10])))
        wanted = (110, "n\u00e4me 9", decimal.Decimal("2.50"))
        same(tuple(cursor.fetchone()), wanted, "a table in a procedure")
        cursor.execute(
            f"SELECT x.name, y.n FROM {name}_f(%s, %s) AS x CROSS APPLY (SELECT x.id * 2 AS n)"
            " AS y ORDER BY x.id", (self.driver.table(name, rows[:5]), 4))
        found = [tuple(row) for row in cursor.fetchall()]
        same(found, [("n\u00e4me 4", 8), ("n\u00e4me 5", 10)], "a function")
        twice = self.driver.table(name, [rows[0], rows[0]])
        try:
            cursor.execute("SELECT COUNT(*) FROM %s", (twice,))
        except Exception as error:  # each driver has its own
            assert self.driver.is_error(error, 2627), error
        else:
            raise AssertionError("a key twice")

    def permissions(self):
        """A reader who cannot write, and an owner of one database who cannot see another."""
        shelf = f"shelf_{self.suffix}"
        reader, owner = f"reader_{self.suffix}", f"owner_{self.suffix}"
        private = f"private_{self.suffix}"
        self.alone(f"CREATE DATABASE {shelf}")
        self.alone(f"USE {shelf}; CREATE TABLE book (id int); INSERT book VALUES (1); USE app")
        self.alone(f"CREATE TABLE {private} (id int)")
        for name in (reader, owner):
            self.alone(f"CREATE LOGIN {name} WITH PASSWORD = '{PASSWORD}'")
            self.alone(f"USE {shelf}; CREATE USER {name}; USE app")
        self.alone(
            f"USE {shelf}; ALTER ROLE db_datareader ADD MEMBER {reader};"
            f" ALTER ROLE db_owner ADD MEMBER {owner}; USE app"
        )
        sa, driver = self.connection, self.driver
        self.driver = driver.of(reader, shelf)
        self.connection = self.driver.connect(PASSWORD)
        same(one(self.connection.cursor(), "SELECT MAX(id) FROM book"), 1, "rows of the reader")
        mark = self.driver.mark
        for statement in (f"INSERT book VALUES ({mark})", f"UPDATE book SET id = {mark}"):
            self.refused(229, statement, 2)
        self.refused(229, "DELETE book")
        self.refused(229, "EXEC ('DELETE book')")
        self.refused(262, "CREATE TABLE mine (id int)")
        self.refused(15151, f"ALTER ROLE db_owner ADD MEMBER {reader}")
        self.refused(916, f"SELECT id FROM app.dbo.{private}")
        self.connection.close()
        self.driver = driver.of(owner, shelf)
        self.connection = self.driver.connect(PASSWORD)
        self.alone("CREATE TABLE mine (id int); INSERT mine VALUES (5); INSERT book VALUES (2)")
        self.alone(f"GRANT INSERT ON book TO {reader}")
        same(one(self.connection.cursor(), "SELECT COUNT(*) FROM book"), 2, "rows of the owner")
        self.refused(916, f"SELECT id FROM app.dbo.{private}")
        self.refused(916, "USE app")
        self.refused(262, "RESTORE HEADERONLY FROM DISK = 'x.bak'")
        self.refused(15247, "CREATE LOGIN another WITH PASSWORD = 'a password'")
        self.connection.close()
        try:
            driver.of(owner, "app").connect(PASSWORD)
        except Exception as error:
            # Drivers give one of the two errors, with its number or its text alone.
            known = ("4060", "18456", "Cannot open database", "Login failed")
            assert any(part in repr(error) for part in known), repr(error)
        else:
            raise AssertionError("the owner of another database came in")
        self.driver, self.connection = driver, sa
        self.alone(f"DROP DATABASE {shelf}; DROP TABLE {private}")
        for name in (reader, owner):
            self.alone(f"DROP LOGIN {name}")

    def log_backups(self):
        """A full backup and log backups, restored to a state between two of them."""
        name = f"log_{self.suffix}"
        run = self.alone
        run(f"CREATE DATABASE {name}")
        run(f"ALTER DATABASE {name} SET RECOVERY FULL")
        run(f"CREATE TABLE {name}.dbo.t (n int)")
        for number, what in enumerate(["DATABASE", "LOG", "LOG"]):
            run(f"INSERT {name}.dbo.t VALUES ({number})")
            run(f"BACKUP {what} {name} TO DISK = '{name}.bak'")
        run(f"DROP DATABASE {name}")
        media = f"FROM DISK = '{name}.bak' WITH FILE ="
        run(f"RESTORE DATABASE {name} {media} 1, NORECOVERY")
        self.refused(927, f"SELECT n FROM {name}.dbo.t")
        run(f"RESTORE LOG {name} {media} 2, NORECOVERY")
        run(f"RESTORE DATABASE {name} WITH RECOVERY")
        rows = one(self.connection.cursor(), f"SELECT COUNT(*) FROM {name}.dbo.t")
        same(rows, 2, "rows of the log backup")
        run(f"DROP DATABASE {name}")

    def marks(self, count):
        return ", ".join([self.driver.mark] * count)

    def refused(self, number, text, *parameters):
        cursor = self.connection.cursor()
        try:
            cursor.execute(text, parameters) if parameters else cursor.execute(text)
            cursor.fetchall()  # an error may come behind the columns
        except Exception as error:  # each driver has its own class
            assert self.driver.is_error(error, number), f"not {number}: {error!r}"
        else:
            raise AssertionError(f"it did not fail: {text}")
        self.connection.rollback()

    def log_in(self):
        try:
            self.driver.connect("not the password")
        except Exception as error:
            assert self.driver.is_error(error, 18456), repr(error)
        else:
            raise AssertionError("a wrong password was taken")
        if self.driver.mode != "off":
            try:
                self.driver.connect(PASSWORD, self.other_certificate)
            except Exception as error:
                assert not self.driver.is_error(error, 18456), repr(error)
            else:
                raise AssertionError("a wrong certificate was taken")
        self.connection = self.driver.connect(PASSWORD)
        option = one(
            self.connection.cursor(),
            "SELECT encrypt_option FROM sys.dm_exec_connections WHERE session_id = @@SPID",
        )
        sealed = "TRUE" if self.driver.mode in ("on", "strict") else "FALSE"
        same(option, sealed, "encrypt_option")

    def types(self):
        """A row by literals, one by parameters, one of NULLs; all read alike."""
        table = f"dbo.types_{self.suffix}"
        cursor = self.connection.cursor()
        definition = f"id int NOT NULL PRIMARY KEY, {columns.definition()}"
        cursor.execute(f"CREATE TABLE {table} ({definition})")
        cursor.execute(f"INSERT INTO {table} VALUES (1, {columns.literals()})")
        values = columns.values()
        sent = [self.sent(value) for value in values.values()]
        cursor.execute(f"INSERT INTO {table} VALUES ({self.marks(len(sent) + 1)})", (2, *sent))
        typed = self.driver.typed_nulls
        nulled = [name for name, value in values.items() if typed or not isinstance(value, bytes)]
        insert = f"INSERT INTO {table} (id, {', '.join(nulled)})"
        nulls = [None] * len(nulled)
        cursor.execute(f"{insert} VALUES ({self.marks(len(nulls) + 1)})", (3, *nulls))
        self.connection.commit()
        for name in self.driver.text_only:
            values[name] = columns.COLUMNS[name][2].strftime("%Y-%m-%d %H:%M:%S.%f0 +05:30")
        names = ", ".join(
            f"CONVERT(varchar(40), {name}, 121)" if name in self.driver.text_only else name
            for name in values
        )
        for row in (1, 2, 3):
            cursor.execute(f"SELECT {names} FROM {table} WHERE id = {self.driver.mark}", (row,))
            found = cursor.fetchone()
            for (name, wanted), value in zip(values.items(), found, strict=True):
                same(value, None if row == 3 else wanted, f"{name} in row {row}")

    def sent(self, value):
        if isinstance(value, bytes):
            return self.driver.binary(value)
        if isinstance(value, datetime.datetime) and value.tzinfo:
            return self.driver.offset(value)
        if isinstance(value, datetime.time):
            return self.driver.time(value)
        return value

    def row(self, number):
        if number % 10 == 9:
            return number, None, None, None, None
        at = datetime.datetime(2024, 2, 29, 13, 14, 15) + datetime.timedelta(microseconds=number)
        amount = decimal.Decimal(number) + decimal.Decimal("0.0625")
        name = f"{columns.TEXT} {number} {MARKER}"
        return number, name, amount, at, b"\xff" + number.to_bytes(4, "big")

    def make_table(self, table):
        self.connection.cursor().execute(
            f"CREATE TABLE {table} (id int NOT NULL PRIMARY KEY, name nvarchar(100),"
            " amount decimal(19, 4), at datetime2(6), data varbinary(100))"
        )
        self.connection.commit()

    def compare(self, table, wanted):
        cursor = self.connection.cursor()
        cursor.execute(f"SELECT id, name, amount, at, data FROM {table} ORDER BY id")
        found = [tuple(row) for row in cursor.fetchall()]
        same(len(found), 1000, f"rows of {table}")
        for number, row in enumerate(found):
            same(row, wanted[number], table)

    def rows(self):
        self.table = f"dbo.rows_{self.suffix}"
        self.make_table(self.table)
        cursor = self.connection.cursor()
        insert = f"INSERT INTO {self.table} VALUES ({self.marks(5)})"
        bare = f"INSERT INTO {self.table} (id) VALUES ({self.driver.mark})"
        for number in range(1000):
            values = self.row(number)
            if values[4] is None:
                cursor.execute(bare, values[:1])
            else:
                cursor.execute(insert, (*values[:4], self.driver.binary(values[4])))
        self.connection.commit()
        self.compare(self.table, [self.row(number) for number in range(1000)])

    def change(self):
        cursor, mark = self.connection.cursor(), self.driver.mark
        count = f"SELECT COUNT(*) FROM {self.table}"
        cursor.execute(f"UPDATE {self.table} SET name = {mark} WHERE id < {mark}", ("new", 100))
        same(cursor.rowcount, 100, "updated")
        cursor.execute(f"DELETE FROM {self.table} WHERE id >= {mark}", (900,))
        same(cursor.rowcount, 100, "deleted")
        self.connection.commit()
        cursor.execute(f"DELETE FROM {self.table}")
        same(one(cursor, count), 0, "within the transaction")
        self.connection.rollback()
        same(one(cursor, count), 900, "after the rollback")
        same(one(cursor, f"SELECT COUNT(*) FROM {self.table} WHERE name = {mark}", "new"), 100)

    def long_values(self):
        table = f"dbo.long_{self.suffix}"
        cursor = self.connection.cursor()
        cursor.execute(
            f"CREATE TABLE {table} (id int NOT NULL PRIMARY KEY, a varchar(max), b nvarchar(max),"
            " c varbinary(max))"
        )
        text, data = "Ω日" * (LONG // 2), bytes(range(256)) * (LONG // 256)
        values = ("abcé" * (LONG // 4), text, self.driver.binary(data))
        cursor.execute(f"INSERT INTO {table} VALUES ({self.marks(4)})", (1, *values))
        self.connection.commit()
        cursor.execute(f"SELECT a, b, c FROM {table} WHERE id = 1")
        found = cursor.fetchone()
        same(tuple(found), (values[0], text, data), "long values")
        same(one(cursor, f"SELECT LEN(b) FROM {table}"), len(text), "length")

    def bulk(self):
        table = f"dbo.bulk_{self.suffix}"
        self.make_table(table)
        coarse = self.driver.coarse
        rows = [self.row(number) for number in range(1000)]
        rows = [row if row[3] is None else (*row[:3], coarse(row[3]), row[4]) for row in rows]
        self.driver.load(self.connection, table, rows)
        self.connection.commit()
        self.compare(table, rows)

    def refusals(self):
        table = f"dbo.strict_{self.suffix}"
        cursor = self.connection.cursor()
        cursor.execute(f"CREATE TABLE {table} (id int NOT NULL PRIMARY KEY, n int CHECK (n > 0))")
        cursor.execute(f"INSERT INTO {table} VALUES (1, 1)")
        self.connection.commit()
        insert = f"INSERT INTO {table} VALUES ({self.marks(2)})"
        self.refused(2627, insert, 1, 2)
        self.refused(547, insert, 2, -1)
        self.refused(8134, "SELECT 1 / 0")
        self.refused(102, "SELECT 1 + * FROM")
        self.refused(208, "SELECT * FROM dbo.not_there")
        same(one(self.connection.cursor(), f"SELECT COUNT(*) FROM {table}"), 1)

    def results(self):
        cursor = self.connection.cursor()
        cursor.execute("SELECT 1 AS a; SELECT 2 AS b, N'ä' AS c UNION ALL SELECT 3, N'ö'")
        same([tuple(row) for row in cursor.fetchall()], [(1,)], "the first result")
        assert cursor.nextset(), "there is a second result"
        same([tuple(row) for row in cursor.fetchall()], [(2, "ä"), (3, "ö")], "the second result")
        assert not cursor.nextset(), "there is no third result"
        procedure = f"dbo.double_{self.suffix}"
        cursor.execute(
            f"CREATE PROCEDURE {procedure} @n int, @twice int OUTPUT AS"
            " BEGIN SET @twice = @n * 2; RETURN 7; END"
        )
        self.connection.commit()
        same(self.driver.call(self.connection, procedure, 21), (7, 42), "status and output")
        self.connection.commit()
        statement = "PRINT N'printed é'; RAISERROR('warned %d', 10, 1, 5)"
        found = "\n".join(self.driver.messages(self.connection, statement))
        assert "printed é" in found and "warned 5" in found, f"messages: {found}"

    def cancel(self):
        for statement in self.driver.endless:
            begun = time.monotonic()
            self.driver.cancel(self.connection, self.connection.cursor(), statement)
            assert time.monotonic() - begun < 30, "the cancelling took too long"
            self.connection.rollback()
            same(one(self.connection.cursor(), "SELECT 5"), 5, "after a cancelled statement")


if __name__ == "__main__":
    if sys.argv[1] == "sqlalchemy":
        import orm

        orm.run(*sys.argv[2:], PASSWORD, MARKER)
    else:
        Work(*sys.argv[1:]).run()
    print(f"{sys.argv[1]} {sys.argv[3]}: ok")
