"""pandas: ``to_sql`` and ``read_sql`` over a connection of the standard library."""

# recipe
import sqlite3

import pandas
import tdekit

tdekit.load()


def save(frame, path):
    connection = sqlite3.connect(path)
    frame.to_sql("note", connection, index=False)
    connection.close()


def load(path):
    connection = sqlite3.connect(path)
    frame = pandas.read_sql("SELECT * FROM note", connection)
    connection.close()
    return frame
# end


def write(path, rows):
    save(pandas.DataFrame(rows, columns=["id", "body"]), path)


def read(path):
    return [(int(key), body) for key, body in load(path).itertuples(index=False)]
