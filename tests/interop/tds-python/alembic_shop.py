"""Alembic: two revisions, and what `autogenerate` finds after each."""

import datetime
import decimal
import pathlib

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext

import drivers
from checks import same

TEXT = "Grüße, Ω, 日本, \U0001f600"
DAY = datetime.date(2024, 2, 29)


def run(port, certificate, password, marker):
    for driver in (drivers.Pymssql, drivers.Pyodbc):
        name = driver.__name__.lower()
        connect = driver(port, "on", certificate).connect
        engine = sa.create_engine(f"mssql+{name}://", creator=lambda: connect(password))
        config = Config(attributes={"engine": engine})
        place = pathlib.Path(__file__).parent / "revisions"
        config.set_main_option("script_location", str(place))
        config.set_main_option("path_separator", "os")
        migrate(engine, config, marker)
        engine.dispose()


def migrate(engine, config, marker):
    command.upgrade(config, "first")
    differences(engine, first_tables(), [])
    fill(engine, marker)
    command.upgrade(config, "head")
    differences(engine, second_tables(), [])
    command.upgrade(config, "head")
    compare(engine, marker)
    command.downgrade(config, "first")
    differences(engine, first_tables(), [])
    kept(engine, "al_product", "name", marker)
    command.upgrade(config, "head")
    differences(engine, second_tables(), [])
    kept(engine, "al_item", "title", marker)
    command.downgrade(config, "base")
    same([name for name in sa.inspect(engine).get_table_names() if name.startswith("al_")], [])


def first_tables():
    metadata = sa.MetaData()
    sa.Table(
        "al_owner",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.Unicode(50), nullable=False),
    )
    sa.Table(
        "al_product",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.Unicode(50), nullable=False),
        sa.Column("code", sa.String(10), nullable=False),
        sa.Column("price", sa.Numeric(9, 2)),
        sa.Column("stock", sa.Integer, nullable=False, server_default="0"),
        sa.Column("day", sa.Date),
        sa.Column("owner_id", sa.Integer, sa.ForeignKey("al_owner.id", name="al_product_owner")),
        sa.UniqueConstraint("code", name="al_product_code"),
        sa.Index("al_product_day", "day", "price"),
    )
    return metadata


def second_tables():
    metadata = sa.MetaData()
    sa.Table(
        "al_owner",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.Unicode(200), nullable=False),
        sa.Column("mail", sa.String(100)),
        sa.Index("al_owner_mail", "mail", unique=True, mssql_where=sa.text("mail IS NOT NULL")),
    )
    sa.Table(
        "al_item",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("title", sa.Unicode(200)),
        sa.Column("code", sa.String(20), nullable=False),
        sa.Column("price", sa.Numeric(19, 4), nullable=False, server_default="1"),
        sa.Column("stock", sa.BigInteger, nullable=False, server_default="5"),
        sa.Column("day", sa.Date),
        sa.Column("owner_id", sa.Integer),
        sa.ForeignKeyConstraint(
            ["owner_id"], ["al_owner.id"], name="al_item_owner", ondelete="CASCADE"
        ),
        sa.UniqueConstraint("code", "owner_id", name="al_item_code"),
        sa.CheckConstraint("price >= 0", name="al_item_price"),
        sa.Index("al_product_day", "day", "price"),
    )
    return metadata


def differences(engine, metadata, wanted):
    """What `autogenerate` would write."""
    with engine.connect() as connection:
        options = {
            "compare_type": True,
            "compare_server_default": True,
            "include_name": lambda name, kind, _: kind != "table" or name.startswith("al_"),
        }
        context = MigrationContext.configure(connection, opts=options)
        same(compare_metadata(context, metadata), wanted, "differences")


def fill(engine, marker):
    tables = first_tables().tables
    with engine.begin() as connection:
        connection.execute(tables["al_owner"].insert(), [{"id": 1, "name": TEXT}])
        rows = [
            {
                "name": f"{TEXT} {number} {marker}"[:50],
                "code": f"c{number}",
                "price": None if number % 9 == 0 else decimal.Decimal(number) / 4,
                "stock": number,
                "day": DAY + datetime.timedelta(days=number),
                "owner_id": 1 if number % 2 else None,
            }
            for number in range(50)
        ]
        connection.execute(tables["al_product"].insert(), rows)


def kept(engine, table, column, marker):
    with engine.connect() as connection:
        rows = connection.execute(sa.text(f"SELECT code, {column} FROM {table}")).all()
    wanted = {(f"c{number}", f"{TEXT} {number} {marker}"[:50]) for number in range(50)}
    same({tuple(row) for row in rows}, wanted, "rows kept")


def compare(engine, marker):
    kept(engine, "al_item", "title", marker)
    item = second_tables().tables["al_item"]
    with engine.connect() as connection:
        rows = connection.execute(sa.select(item).order_by(item.c.stock)).all()
        prices = [0 if n % 9 == 0 else decimal.Decimal(n) / 4 for n in range(50)]
        same([row.price for row in rows], prices, "prices")
        same([row.stock for row in rows], list(range(50)), "stocks")
        same([row.day for row in rows], [DAY + datetime.timedelta(days=n) for n in range(50)])
        same([row.owner_id for row in rows], [None, 1] * 25, "owners")
        connection.execute(item.insert(), {"title": "new", "code": "new"})
        new = connection.execute(sa.select(item).where(item.c.code == "new")).one()
        same((new.price, new.stock), (1, 5), "defaults")
        for change in ({"price": -1}, {"owner_id": 2}, {"code": None}):
            try:
                with connection.begin_nested():
                    connection.execute(item.update().values(change).where(item.c.code == "new"))
            except (sa.exc.IntegrityError, sa.exc.ProgrammingError):
                continue
            raise AssertionError(f"{change} was not refused")
