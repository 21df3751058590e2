"""pandas: frames written to tables and read back."""

import datetime

import pandas as pd
import sqlalchemy as sa

import drivers
from checks import same

TEXT = "Grüße, Ω, 日本, \U0001f600"
# By default text goes into `varchar`, as everywhere in pandas.
UNICODE = {"name": sa.UnicodeText()}
MANY = {"dtype": UNICODE, "method": "multi", "chunksize": 200}


def run(port, certificate, password, marker):
    for driver in (drivers.Pymssql, drivers.Pyodbc):
        name = driver.__name__.lower()
        connect = driver(port, "on", certificate).connect
        engine = sa.create_engine(f"mssql+{name}://", creator=lambda: connect(password))
        write(engine, marker)
        engine.dispose()


def frame(first, marker):
    count = 400
    numbers = range(first, first + count)
    return pd.DataFrame(
        {
            "number": list(numbers),
            "ratio": [None if n % 7 == 0 else n / 4 for n in numbers],
            "name": [None if n % 5 == 0 else f"{TEXT} {n} {marker}" for n in numbers],
            "at": [pd.NaT if n % 3 == 0 else pd.Timestamp(2024, 2, 29, n % 24) for n in numbers],
            "day": [datetime.date(2024, 2, 1 + n % 29) for n in numbers],
            "flag": [n % 2 == 0 for n in numbers],
        }
    )


def write(engine, marker):
    first, second = frame(0, marker), frame(400, marker)
    for _ in range(2):
        first.to_sql("pd_rows", engine, if_exists="replace", index_label="row", dtype=UNICODE)
    second.to_sql("pd_rows", engine, if_exists="append", index_label="row", **MANY)
    wanted = pd.concat([first, second])
    for source in ("pd_rows", "SELECT * FROM pd_rows ORDER BY number"):
        found = pd.read_sql(source, engine, index_col="row", parse_dates=["at"])
        compare(found.sort_values("number"), wanted)
    chunks = pd.read_sql_table("pd_rows", engine, index_col="row", chunksize=100)
    compare(pd.concat(chunks).sort_values("number"), wanted)
    query = sa.text("SELECT COUNT(*) AS n, SUM(ratio) AS s FROM pd_rows WHERE number < :below")
    found = pd.read_sql(query, engine, params={"below": 100})
    part = wanted[wanted.number < 100]
    same((int(found.n[0]), float(found.s[0])), (len(part), part.ratio.sum()), "sums")
    small = first.drop(columns=["name"])
    small.to_sql("pd_rows", engine, if_exists="replace", index=False, dtype={"day": sa.Date()})
    names = [column["name"] for column in sa.inspect(engine).get_columns("pd_rows")]
    same(names, list(small.columns), "columns")
    small.head(3).to_sql("pd_rows", engine, if_exists="delete_rows", index=False)
    same(len(pd.read_sql("pd_rows", engine)), 3, "rows after the others were deleted")
    sa.Table("pd_rows", sa.MetaData()).drop(engine)


def compare(found, wanted):
    same(list(found.columns), list(wanted.columns), "columns")
    for column in wanted.columns:
        left, right = found[column].to_list(), wanted[column].to_list()
        if column == "day":  # a date of a table is read as a timestamp, that of a query is not
            left, right = pd.to_datetime(left).to_list(), pd.to_datetime(right).to_list()
        pairs = [(a, b) for a, b in zip(left, right) if a != b and not (pd.isna(a) and pd.isna(b))]
        same(pairs, [], f"{column}, {len(left)} rows")
        same(len(left), len(right), "rows")
