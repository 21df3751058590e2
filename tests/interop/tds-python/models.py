"""The tables of an application, as SQLAlchemy declares them."""

import datetime
import decimal
import uuid

import sqlalchemy as sa
from sqlalchemy.dialects import mssql
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    pass


marked = sa.Table(
    "thing_tag",
    Base.metadata,
    sa.Column("thing_id", sa.ForeignKey("thing.id"), primary_key=True),
    sa.Column("tag_id", sa.ForeignKey("tag.id"), primary_key=True),
)


class Owner(Base):
    """Its rows are guarded by a version, and refer to each other."""

    __tablename__ = "owner"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.Unicode(100), unique=True)
    boss_id: Mapped[int | None] = mapped_column(sa.ForeignKey("owner.id"))
    made: Mapped[datetime.datetime] = mapped_column(server_default=sa.func.now())
    version: Mapped[int] = mapped_column()
    boss: Mapped["Owner | None"] = relationship(remote_side=[id])
    things: Mapped[list["Thing"]] = relationship(
        back_populates="owner", cascade="all, delete-orphan", order_by="Thing.id"
    )
    __mapper_args__ = {"version_id_col": version}


class Thing(Base):
    """A column of each type; each may be NULL."""

    __tablename__ = "thing"
    id: Mapped[int] = mapped_column(primary_key=True)
    owner_id: Mapped[int] = mapped_column(sa.ForeignKey(Owner.id), index=True)
    price: Mapped[decimal.Decimal | None] = mapped_column(sa.Numeric(19, 4))
    day: Mapped[datetime.date | None]
    at: Mapped[datetime.datetime | None] = mapped_column(mssql.DATETIME2(6))
    old: Mapped[datetime.datetime | None]
    clock: Mapped[datetime.time | None] = mapped_column(mssql.TIME(0))
    note: Mapped[str | None] = mapped_column(sa.UnicodeText)
    code: Mapped[str | None] = mapped_column(sa.String(20))
    data: Mapped[bytes | None]
    flag: Mapped[bool | None]
    ratio: Mapped[float | None]
    large: Mapped[int | None] = mapped_column(sa.BigInteger)
    key: Mapped[uuid.UUID | None]
    extra: Mapped[dict | None] = mapped_column(sa.JSON(none_as_null=True))
    size: Mapped[str | None] = mapped_column(sa.Enum("small", "large", name="sizes"))
    owner: Mapped[Owner] = relationship(back_populates="things")
    tags: Mapped[list["Tag"]] = relationship(secondary=marked, order_by="Tag.label")
    __table_args__ = (
        sa.CheckConstraint("price >= 0", name="price_sign"),
        sa.Index("thing_day_code", "day", sa.desc("code")),
    )


class Tag(Base):
    """Its key is given by the application."""

    __tablename__ = "tag"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    label: Mapped[str] = mapped_column(sa.String(30))


COLUMNS = [
    "price",
    "day",
    "at",
    "old",
    "clock",
    "note",
    "code",
    "data",
    "flag",
    "ratio",
    "large",
    "key",
    "extra",
    "size",
]
"""Those of `Thing` that may be NULL."""
