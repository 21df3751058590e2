"""SQLAlchemy over pymssql and over pyodbc, with its own types and its own transactions."""

import datetime
import decimal

import drivers

TEXT = "Grüße, Ω, 日本, \U0001f600"


def run(port, mode, certificate, _other_certificate, password, marker):
    """Does the same work through each."""
    pymssql = drivers.Pymssql(port, mode, certificate)
    pyodbc = drivers.Pyodbc(port, mode, certificate)
    for driver in (pymssql, pyodbc):
        if mode in driver.modes:
            work(driver, password, marker)


def engine(driver, password):
    """An engine whose connections the driver makes."""
    import sqlalchemy

    name = type(driver).__name__.lower()
    return sqlalchemy.create_engine(f"mssql+{name}://", creator=lambda: driver.connect(password))


def work(driver, password, marker):
    import sqlalchemy as sa
    from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

    class Base(DeclarativeBase):
        pass

    class Owner(Base):
        __tablename__ = f"owner_{driver.mode}"
        id: Mapped[int] = mapped_column(primary_key=True)
        name: Mapped[str] = mapped_column(sa.Unicode(100), unique=True)
        things: Mapped[list["Thing"]] = relationship(back_populates="owner")

    class Thing(Base):
        __tablename__ = f"thing_{driver.mode}"
        id: Mapped[int] = mapped_column(primary_key=True)
        owner_id: Mapped[int] = mapped_column(sa.ForeignKey(Owner.id))
        price: Mapped[decimal.Decimal] = mapped_column(sa.Numeric(19, 4))
        made: Mapped[datetime.date]
        note: Mapped[str | None] = mapped_column(sa.UnicodeText)
        data: Mapped[bytes] = mapped_column(sa.LargeBinary)
        owner: Mapped[Owner] = relationship(back_populates="things")

    made = datetime.date(2024, 2, 29)
    database = engine(driver, password)
    Base.metadata.create_all(database)
    Base.metadata.create_all(database)
    with Session(database) as session:
        for number in range(20):
            owner = Owner(name=f"{TEXT} {number}")
            for thing in range(5):
                price = decimal.Decimal(number * 5 + thing) + decimal.Decimal("0.0625")
                note = f"{TEXT} {marker}" if thing else None
                data = bytes([255, number, thing])
                owner.things.append(Thing(price=price, made=made, note=note, data=data))
            session.add(owner)
        session.commit()
    with Session(database) as session:
        third = session.scalars(sa.select(Owner).where(Owner.name == f"{TEXT} 3")).one()
        things = sorted(third.things, key=lambda thing: thing.price)
        found = [(thing.price, thing.made, thing.note, thing.data) for thing in things]
        wanted = [
            (
                decimal.Decimal(15 + thing) + decimal.Decimal("0.0625"),
                made,
                f"{TEXT} {marker}" if thing else None,
                bytes([255, 3, thing]),
            )
            for thing in range(5)
        ]
        assert found == wanted, found
        total = session.scalar(sa.select(sa.func.sum(Thing.price)))
        assert total == decimal.Decimal("4956.25"), total
        page = sa.select(Thing.id).join(Owner).order_by(Thing.price.desc()).offset(10).limit(5)
        assert len(session.scalars(page).all()) == 5
        third.name = "renamed"
        session.execute(sa.update(Thing).where(Thing.owner == third).values(note="changed"))
        session.commit()
        assert session.scalar(sa.select(sa.func.count()).where(Thing.note == "changed")) == 5
        session.execute(sa.delete(Thing))
        session.rollback()
        assert session.scalar(sa.select(sa.func.count()).select_from(Thing)) == 100
        session.add(Owner(name="renamed"))
        try:
            session.commit()
        except sa.exc.IntegrityError:
            session.rollback()
        else:
            raise AssertionError("a name was taken twice")
    names = sa.inspect(database).get_table_names()
    assert Thing.__tablename__ in names, names
    Base.metadata.drop_all(database)
    assert Thing.__tablename__ not in sa.inspect(database).get_table_names()
    database.dispose()
