"""Python's drivers of SQL Server: what each calls the same thing."""

import copy
import glob
import os
import threading

HOST = "localhost"
DATABASE = "app"
SECONDS = 60  # no answer takes so long


class Driver:
    """What all have in common."""

    mark = "?"
    """Stands in a statement for a parameter."""
    text_only = ()
    """Columns that are read as text, as the driver lacks their type."""
    typed_nulls = True
    """Whether None goes into a column of bytes; ODBC sends it as varchar, which does not."""
    modes = ("off", "login", "on")
    log_backups = False
    """Whether log backups are made and restored through it, too."""
    endless = ("DECLARE @i bigint = 0; WHILE 1 = 1 SET @i += 1", "WAITFOR DELAY '00:01:00'")
    """Statements to cancel."""

    user, database = "sa", DATABASE

    def __init__(self, port, mode, certificate):
        self.port, self.mode, self.certificate = int(port), mode, certificate

    def of(self, user, database):
        """The same driver for another login and its database."""
        other = copy.copy(self)
        other.user, other.database = user, database
        return other

    def connect(self, password, certificate=None):
        """A connection; with another certificate than the one to trust, if one is given."""
        raise NotImplementedError

    def is_error(self, error, number):
        """Whether it is the server's error of this number."""
        raise NotImplementedError

    def binary(self, value):
        """Bytes as a parameter."""
        return value

    def offset(self, value):
        """A date with its offset as a parameter."""
        return value

    def time(self, value):
        """A time of day as a parameter."""
        return value

    def table(self, type_name, rows):
        """Rows as a table-valued parameter; none if the driver has no such parameters."""
        return None

    def cancel(self, connection, cursor, statement):
        """Starts a statement that has no end, and cancels it."""
        raise NotImplementedError

    def messages(self, connection, statement):
        """The texts of the messages that a statement sends."""
        raise NotImplementedError

    def call(self, connection, procedure, number):
        """Calls a procedure; gives its status and what its OUTPUT parameter holds."""
        cursor = connection.cursor()
        cursor.execute(
            "SET NOCOUNT ON; DECLARE @status int, @out int;"
            f" EXEC @status = {procedure} {self.mark}, @out OUTPUT; SELECT @status, @out",
            (number,),
        )
        rows = cursor.fetchall()
        while cursor.nextset():
            rows = cursor.fetchall()
        return tuple(rows[0])

    def coarse(self, at):
        """What a bulk load keeps of a date with a time."""
        return at

    def load(self, connection, table, rows):
        """Loads rows in bulk."""
        raise NotImplementedError


class Pytds(Driver):
    log_backups = True
    mark = "%s"

    def connect(self, password, certificate=None):
        import pytds

        tls = {}
        if self.mode != "off":
            tls = {
                "cafile": certificate or self.certificate,
                "enc_login_only": self.mode == "login",
            }
        # Its first attempt gets a twelfth of the limit, and each further one counts as a wrong
        # password: on a busy machine the name would be locked.
        return pytds.connect(
            HOST,
            self.database,
            self.user,
            password,
            port=self.port,
            timeout=SECONDS,
            login_timeout=5 * SECONDS,
            **tls,
        )

    def is_error(self, error, number):
        return getattr(error, "number", None) == number or (
            number == 18456 and "Login failed" in str(error)
        )

    def binary(self, value):
        import pytds

        return pytds.Binary(value)

    def offset(self, value):
        return value.isoformat(" ")

    def cancel(self, connection, cursor, statement):
        cursor.execute("SELECT 1 AS begun; " + statement)
        cursor.cancel()

    def messages(self, connection, statement):
        cursor = connection.cursor()
        cursor.execute(statement)
        while cursor.nextset():
            pass
        return [str(error) for _, error in cursor.messages]

    def call(self, connection, procedure, number):
        import pytds

        cursor = connection.cursor()
        cursor.callproc(procedure, (number, pytds.output(param_type=int)))
        while cursor.nextset():
            pass
        # `get_proc_outputs` assumes that the first parameters are the output parameters.
        return cursor.get_proc_return_status(), cursor._session.output_params[1].value

    def table(self, type_name, rows):
        import pytds

        return pytds.TableValuedParam(type_name=type_name, rows=rows)

    def load(self, connection, table, rows):
        from pytds import tds_types as types
        from pytds.tds_base import Column

        columns = [
            Column("id", types.IntType(), flags=0),
            Column("name", types.NVarCharType(size=100)),
            Column("amount", types.DecimalType(precision=19, scale=4)),
            Column("at", types.DateTime2Type(precision=6)),
            Column("data", types.VarBinaryType(size=100)),
        ]
        cursor = connection.cursor()
        schema, name = table.split(".")
        cursor.copy_to(data=rows, table_or_view=name, schema=schema, columns=columns)


class Pymssql(Driver):
    log_backups = True
    mark = "%s"

    def connect(self, password, certificate=None):
        import pymssql

        # FreeTDS, which it contains, reads the trusted certificates from a file.
        with open("freetds.conf", "w", encoding="utf-8") as conf:
            conf.write(f"[global]\nca file = {certificate or self.certificate}\n")
        os.environ["FREETDSCONF"] = os.path.abspath("freetds.conf")
        return pymssql.connect(
            server=HOST,
            port=str(self.port),
            user=self.user,
            password=password,
            database=self.database,
            timeout=SECONDS,
            login_timeout=SECONDS,
            encryption={"off": "off", "login": "request", "on": "require"}[self.mode],
            use_datetime2=True,
        )

    def is_error(self, error, number):
        found = error.args[0]
        if number == 18456:
            return "Login failed" in str(error)  # any other failure to connect has this number too
        return (found[0] if isinstance(found, tuple) else found) == number

    def binary(self, value):
        return bytearray(value)

    def offset(self, value):
        return value.isoformat(" ")

    def cancel(self, connection, cursor, statement):
        cursor.execute("SELECT 1 AS begun; " + statement)
        connection._conn.cancel()

    def messages(self, connection, statement):
        texts = []
        connection._conn.set_msghandler(lambda *message: texts.append(message[-1].decode()))
        connection.cursor().execute(statement)
        connection._conn.set_msghandler(None)
        return texts

    def call(self, connection, procedure, number):
        import pymssql

        cursor = connection.cursor()
        parameters = cursor.callproc(procedure, (number, pymssql.output(int)))
        return cursor.returnvalue, parameters[1]

    def load(self, connection, table, rows):
        connection.bulk_copy(table, rows, batch_size=400)

    def coarse(self, at):
        return at.replace(microsecond=0)  # it sends datetime, of 1/300 s


def odbc_string(driver, password, certificate):
    """What ODBC Driver 18 takes: it trusts exactly the certificate that it is given."""
    encrypt = {"off": "no", "on": "yes", "strict": "strict"}[driver.mode]
    # Only `strict` uses ServerCertificate; otherwise OpenSSL's own store is used.
    os.environ["SSL_CERT_FILE"] = str(certificate or driver.certificate)
    text = f"SERVER={HOST},{driver.port};DATABASE={driver.database};UID={driver.user};"
    text += f"PWD={{{password}}};"
    if driver.mode == "off":
        return text + f"Encrypt={encrypt};TrustServerCertificate=yes;"
    return text + f"Encrypt={encrypt};ServerCertificate={certificate or driver.certificate};"


class MssqlPython(Driver):
    typed_nulls = False
    # It can only time out, and a loop keeps answering.
    endless = ("WAITFOR DELAY '00:01:00'",)
    modes = ("off", "on", "strict")
    texts = {
        102: "Incorrect syntax near",
        208: "Invalid object name",
        229: "permission was denied on the object",
        262: "permission denied in database",
        547: "CHECK constraint",
        916: "is not able to access the database",
        2627: "Violation of PRIMARY KEY constraint",
        4060: "Cannot open database",
        8134: "Divide by zero",
        15151: "because it does not exist or you do not have permission",
        15247: "User does not have permission to perform this action",
        18456: "Login failed for user",
    }

    def connect(self, password, certificate=None):
        import mssql_python

        # Error numbers are not available, so texts are compared.
        return mssql_python.connect(odbc_string(self, password, certificate))

    def is_error(self, error, number):
        return self.texts[number] in str(error)

    def cancel(self, connection, cursor, statement):
        connection.timeout = 1
        try:
            connection.cursor().execute(statement)
        except Exception as error:
            assert "imeout" in str(error), error
        else:
            raise AssertionError("it was not cancelled")
        finally:
            connection.timeout = 0

    def messages(self, connection, statement):
        cursor = connection.cursor()
        cursor.execute(statement)
        found = list(cursor.messages)
        while cursor.nextset():
            found += cursor.messages
        return [text for _, text in found]

    def load(self, connection, table, rows):
        connection.cursor().bulkcopy(table, rows)


def odbc_driver():
    """Microsoft's ODBC Driver 18, which mssql-python brings with it."""
    import mssql_python_odbc

    top = os.path.dirname(mssql_python_odbc.__file__)
    machine = os.uname().machine.replace("aarch64", "arm64")
    found = glob.glob(f"{top}/libs/linux/debian_ubuntu/{machine}/lib/libmsodbcsql-18*")
    assert len(found) == 1, f"no ODBC Driver 18 for {machine}: {found}"
    return found[0]


def register_odbc_driver():
    """Makes the driver known by its usual name, by a configuration in the current directory."""
    name = "ODBC Driver 18 for SQL Server"
    with open("odbcinst.ini", "w") as file:
        file.write(f"[{name}]\nDriver={odbc_driver()}\n")
    os.environ["ODBCSYSINI"] = os.getcwd()


class Pyodbc(Driver):
    typed_nulls = False
    modes = ("off", "on", "strict")
    text_only = ("c_datetimeoffset",)

    def connect(self, password, certificate=None):
        import pyodbc

        pyodbc.pooling = False
        pyodbc.native_uuid = True
        text = odbc_string(self, password, certificate)
        return pyodbc.connect(f"DRIVER={odbc_driver()};{text}", timeout=SECONDS)

    def is_error(self, error, number):
        return f"({number})" in str(error)

    def offset(self, value):
        return value.isoformat(" ")

    def time(self, value):
        return value.isoformat()  # as a time it would lose its fraction

    def cancel(self, connection, cursor, statement):
        timer = threading.Timer(0.3, cursor.cancel)
        timer.start()
        try:
            cursor.execute(statement)
        except Exception as error:
            assert "HY008" in repr(error), error
        else:
            raise AssertionError("it was not cancelled")
        finally:
            timer.join()

    def messages(self, connection, statement):
        cursor = connection.cursor()
        cursor.execute(statement)
        found = list(cursor.messages)
        while cursor.nextset():
            found += cursor.messages
        return [text for _, text in found]

    def load(self, connection, table, rows):
        cursor = connection.cursor()
        cursor.fast_executemany = True
        cursor.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?)", rows)


DRIVERS = {
    "pytds": Pytds,
    "pymssql": Pymssql,
    "mssql-python": MssqlPython,
    "pyodbc": Pyodbc,
}
