"""SQLAlchemy over pyodbc and over pymssql: what an application does with it."""

import datetime
import decimal
import logging
import threading
import uuid

import sqlalchemy as sa
from sqlalchemy.orm import Session, joinedload, selectinload
from sqlalchemy.orm.exc import StaleDataError

import drivers
from checks import same
from models import COLUMNS, Base, Owner, Tag, Thing

TEXT = "Grüße, Ω, 日本, \U0001f600"
OWNERS, THINGS = 10, 8


def run(port, mode, certificate, _other_certificate, password, marker):
    """Does the same work through each driver that knows the mode."""
    for driver in (drivers.Pymssql, drivers.Pyodbc):
        if mode in driver.modes:
            Application(driver(port, mode, certificate), password, marker).run()


class Application:
    def __init__(self, driver, password, marker):
        self.driver, self.password, self.marker = driver, password, marker
        self.engine = self.make_engine()

    def connect(self):
        connection = self.driver.connect(self.password)
        if isinstance(self.driver, drivers.Pyodbc):
            import pyodbc

            pyodbc.native_uuid = False  # SQLAlchemy makes them itself
        return connection

    def make_engine(self, **options):
        """An engine whose connections the driver makes; each is tried before it is used again."""
        name = type(self.driver).__name__.lower()
        return sa.create_engine(
            f"mssql+{name}://", creator=self.connect, pool_pre_ping=True, **options
        )

    def run(self):
        self.create()
        self.reflect()
        self.fill()
        self.read()
        self.query()
        self.change()
        self.versions()
        self.refusals()
        self.transactions()
        self.many()
        self.pool()
        self.drop()
        self.engine.dispose()

    def create(self):
        Base.metadata.create_all(self.engine)
        Base.metadata.create_all(self.engine)  # looks, and finds all there
        inspector = sa.inspect(self.engine)
        assert inspector.has_table("thing") and not inspector.has_table("nothing")

    def reflect(self):
        inspector = sa.inspect(self.engine)
        names = {"owner", "thing", "tag", "thing_tag"}
        assert names <= set(inspector.get_table_names()), inspector.get_table_names()
        columns = {column["name"]: column for column in inspector.get_columns("thing")}
        same(list(columns), ["id", "owner_id", *COLUMNS], "columns")
        assert columns["id"]["identity"] and not columns["id"]["nullable"], columns["id"]
        price = columns["price"]["type"]
        same((price.precision, price.scale, columns["price"]["nullable"]), (19, 4, True), "price")
        same(columns["code"]["type"].length, 20, "code")
        key = inspector.get_pk_constraint("thing_tag")["constrained_columns"]
        same(key, ["thing_id", "tag_id"], "primary key")
        keys = inspector.get_foreign_keys("thing_tag")
        found = {key["referred_table"]: key["constrained_columns"] for key in keys}
        same(found, {"tag": ["tag_id"], "thing": ["thing_id"]}, "foreign keys")
        indexes = {index["name"]: index["column_names"] for index in inspector.get_indexes("thing")}
        same(indexes["thing_day_code"], ["day", "code"], "index")
        again = sa.MetaData()
        again.reflect(self.engine, only=["owner", "thing"])
        same(set(again.tables["thing"].columns.keys()), {"id", "owner_id", *COLUMNS}, "reflected")

    def values(self, number):
        """What stands in a thing: nothing in the first and the last, one NULL in each other."""
        at = datetime.datetime(2024, 2, 29, 13, 14, 15)
        if number % THINGS in (0, THINGS - 1):
            return dict.fromkeys(COLUMNS)
        values = {
            "price": decimal.Decimal(number) + decimal.Decimal("0.0625"),
            "day": at.date() + datetime.timedelta(days=number),
            "at": at + datetime.timedelta(microseconds=number),
            "old": at + datetime.timedelta(seconds=number),
            "clock": (at + datetime.timedelta(seconds=number)).time(),
            "note": f"{TEXT} {self.marker} {number}" * (300 if number == 1 else 1),
            "code": f"{number:04}",
            "data": b"\xff\0" + number.to_bytes(2, "big"),
            "flag": number % 2 == 0,
            "ratio": number / 4,
            "large": 2**40 + number,
            "key": uuid.UUID(int=number),
            "extra": {"number": number, "text": TEXT},
            "size": "small" if number % 3 else "large",
        }
        return values | {COLUMNS[number % len(COLUMNS)]: None}

    def fill(self):
        with Session(self.engine) as session:
            boss = Owner(name=f"{TEXT} boss")
            for number in range(OWNERS):
                owner = Owner(name=f"{TEXT} {number}", boss=boss if number % 2 else None)
                for thing in range(number * THINGS, (number + 1) * THINGS):
                    owner.things.append(Thing(**self.values(thing)))
                session.add(owner)
            session.commit()
            assert abs(datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - boss.made) < (
                datetime.timedelta(hours=1)
            ), boss.made
        if isinstance(self.driver, drivers.Pyodbc):
            self.fill_with_nothing()

    def fill_with_nothing(self):
        """Rows of NULLs alone. pymssql writes NULL without a type, which is int in a list of rows,
        and no int goes into a date."""
        with Session(self.engine) as session:
            owner = Owner(name="nothing", things=[Thing(**self.values(0)) for _ in range(3)])
            session.add(owner)
            session.commit()
            for thing in owner.things:
                same({getattr(thing, name) for name in COLUMNS}, {None}, "nothing")
            session.delete(owner)
            session.commit()

    def read(self):
        with Session(self.engine) as session:
            load = selectinload(Owner.things)
            owners = session.scalars(sa.select(Owner).options(load)).all()
            owners = [owner for owner in owners if "boss" not in owner.name]
            owners.sort(key=lambda owner: int(owner.name.rsplit(" ", 1)[1]))
            same(len(owners), OWNERS, "owners")
            for number, owner in enumerate(owners):
                same(owner.name, f"{TEXT} {number}", "a name")
                same(owner.boss is not None, number % 2 == 1, "a boss")
                for at, thing in enumerate(owner.things):
                    wanted = self.values(number * THINGS + at)
                    same({name: getattr(thing, name) for name in COLUMNS}, wanted, "a thing")

    def query(self):
        with Session(self.engine) as session:
            select, count = sa.select, sa.func.count
            total = OWNERS * THINGS
            same(session.scalar(select(count()).select_from(Thing)), total, "things")
            page = (
                select(Owner.name, Thing.code)
                .join(Thing.owner)
                .where(Thing.code.is_not(None), Thing.flag == sa.true())
                .order_by(Thing.code.desc())
            )
            every = session.execute(page).all()
            same(session.execute(page.limit(5).offset(10)).all(), every[10:15], "a page")
            same(session.execute(page.limit(7)).all(), every[:7], "the first page")
            wanted = [decimal.Decimal(sum(self.prices(n))) for n in (3, 4)]
            sums = (
                select(sa.func.sum(Thing.price))
                .join(Owner)
                .where(Owner.name.in_([f"{TEXT} 3", f"{TEXT} 4"]))
                .group_by(Owner.name)
                .having(count(Thing.id) > 1)
                .order_by(Owner.name)
            )
            same(session.scalars(sums).all(), wanted, "sums")
            found = select(Owner.id).where(Owner.things.any(Thing.code == "0035"))
            same(len(session.scalars(found).all()), 1, "exists")
            found = select(Thing.id).where(Thing.note.like("%日本% 35"), Thing.code.in_(["0035"]))
            same(len(session.scalars(found).all()), 1, "like")
            kind = sa.case((Thing.price.is_(None), "none"), (Thing.price < 80, "low"), else_="high")
            kinds = select(kind.label("kind")).subquery()
            kinds = select(kinds.c.kind, count()).group_by(kinds.c.kind)
            kinds = dict(session.execute(kinds).all())
            none = sum(self.values(number)["price"] is None for number in range(total))
            same((kinds["none"], sum(kinds.values())), (none, total), "kinds")
            rank = sa.func.row_number().over(partition_by=Thing.owner_id, order_by=Thing.id)
            ranked = select(Thing.owner_id, rank.label("n")).cte("ranked")
            third = select(count()).select_from(ranked).where(ranked.c.n == 3)
            same(session.scalar(third), OWNERS, "third things")
            both = sa.union_all(select(Owner.name), select(sa.null()), select(Thing.code))
            same(len(session.execute(both).all()), OWNERS + 1 + 1 + total, "a union")
            either = select(sa.func.coalesce(Thing.code, "none")).distinct()
            assert "none" in session.scalars(either).all()
            load = joinedload(Thing.owner).joinedload(Owner.boss)
            thing = session.scalars(select(Thing).options(load).where(Thing.code == "0009")).one()
            same(thing.owner.boss.name, f"{TEXT} boss", "the boss of the owner")

    def prices(self, number):
        values = [self.values(number * THINGS + at)["price"] for at in range(THINGS)]
        return [price for price in values if price is not None]

    def change(self):
        with Session(self.engine) as session:
            owner = session.scalars(sa.select(Owner).where(Owner.name == f"{TEXT} 3")).one()
            owner.name, owner.things[1].note = "renamed", None
            owner.things[2].tags = [Tag(id=2, label="b"), Tag(id=1, label="a")]
            session.commit()
            same([tag.label for tag in owner.things[2].tags], ["a", "b"], "tags")
            same(owner.version, 2, "version")
            update = sa.update(Thing).where(Thing.owner == owner).values(price=Thing.price + 1)
            found = session.scalars(update.returning(Thing.price)).all()
            wanted = {None, *(price + 1 for price in self.prices(3))}
            same(set(found), wanted, "what an update gives back")
            ids = [thing.id for thing in owner.things]
            session.execute(
                sa.update(Thing),
                [{"id": at, "code": None if at % 2 else f"new {at}"} for at in ids],
            )
            session.commit()
            codes = {None if at % 2 else f"new {at}" for at in ids}
            same({thing.code for thing in owner.things}, codes, "codes")
            owner.things[2].tags.clear()
            gone = sa.delete(Thing).where(Thing.id == ids[-1]).returning(Thing.id)
            same(session.scalars(gone).all(), [ids[-1]], "what a deletion gives back")
            session.commit()
            session.delete(owner)
            session.commit()
            left = sa.select(sa.func.count()).select_from(Thing)
            same(session.scalar(left), (OWNERS - 1) * THINGS, "things left")

    def versions(self):
        """Of two who change the same row, the second is told."""
        with Session(self.engine) as one, Session(self.engine) as other:
            select = sa.select(Owner).where(Owner.name == f"{TEXT} 5")
            mine, theirs = one.scalars(select).one(), other.scalars(select).one()
            mine.boss_id, theirs.boss_id = None, mine.id
            one.commit()
            try:
                other.commit()
            except StaleDataError:
                other.rollback()
            else:
                raise AssertionError("a change was lost")

    def refusals(self):
        with Session(self.engine) as session:
            known = session.scalars(sa.select(Owner.name).limit(1).order_by(Owner.id)).one()
            rows = [
                Owner(name=known),
                Owner(name=None),
                Thing(owner_id=-1),
                Thing(owner=Owner(name="new"), price=decimal.Decimal(-1)),
            ]
            for row in rows:
                session.add(row)
                try:
                    session.commit()
                except sa.exc.IntegrityError:
                    session.rollback()
                else:
                    raise AssertionError(f"it was taken: {row}")
            assert session.scalar(sa.select(Owner.id).where(Owner.name == "new")) is None
            try:
                session.execute(sa.text("SELECT * FROM not_there"))
            except sa.exc.DBAPIError:
                session.rollback()
            else:
                raise AssertionError("there was a table")

    def transactions(self):
        count = sa.select(sa.func.count()).select_from(Tag)
        with Session(self.engine) as session:
            session.execute(sa.delete(Tag))
            session.rollback()
            same(session.scalar(count), 2, "after a rollback")
            with session.begin_nested():
                session.add(Tag(id=3, label="kept"))
            inner = session.begin_nested()
            session.add(Tag(id=4, label="not kept"))
            session.flush()
            inner.rollback()
            session.commit()
            same(session.scalar(count), 3, "after a savepoint")
        strict = self.engine.execution_options(isolation_level="SERIALIZABLE")
        with strict.connect() as connection:
            same(connection.get_isolation_level(), "SERIALIZABLE")
            same(connection.scalar(count), 3)
        own = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        with own.connect() as connection:
            connection.execute(sa.insert(Tag), {"id": 5, "label": "at once"})
        with self.engine.connect() as connection:
            same(connection.scalar(count), 4, "without a transaction")

    def many(self):
        """More rows than a statement takes, with their keys in order; then without keys."""
        with self.engine.begin() as connection:
            owner = connection.scalar(sa.select(Owner.id).where(Owner.name == f"{TEXT} boss"))
            rows = [self.values(number) | {"owner_id": owner} for number in range(200)]
            insert = sa.insert(Thing).returning(Thing.id, Thing.code, sort_by_parameter_order=True)
            found = connection.execute(insert, rows).all()
            same([row.code for row in found], [row["code"] for row in rows], "codes in order")
            connection.execute(sa.insert(Thing), rows)
            delete = sa.delete(Thing).where(Thing.owner_id == owner)
            same(connection.execute(delete).rowcount, 400, "rows of many")
        if isinstance(self.driver, drivers.Pyodbc):
            engine = self.make_engine(fast_executemany=True)
            with engine.begin() as connection:
                connection.execute(sa.insert(Thing), rows)
                select = sa.select(Thing.code).where(Thing.owner_id == owner).order_by(Thing.id)
                found = connection.scalars(select).all()
                same(found, [row["code"] for row in rows], "codes at once")
            engine.dispose()

    def pool(self):
        """Connections that are shared by threads, and one that is gone when it is wanted."""
        failed = []

        def work(number):
            try:
                for turn in range(5):
                    with Session(self.engine) as session:
                        session.add(Tag(id=100 * number + turn, label=f"{number} {turn}"))
                        session.commit()
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not failed, failed[0]
        count = sa.select(sa.func.count()).select_from(Tag)
        with self.engine.connect() as connection:
            same(connection.scalar(count), 24, "tags of the threads")
            lost = connection.connection.dbapi_connection
            logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)  # it would tell
            connection.rollback()
        lost.close()
        for _ in range(self.engine.pool.checkedin() + 1):
            with self.engine.connect() as connection:
                same(connection.scalar(count), 24, "on a new connection")

    def drop(self):
        Base.metadata.drop_all(self.engine)
        Base.metadata.drop_all(self.engine)
        assert not sa.inspect(self.engine).has_table("thing")
