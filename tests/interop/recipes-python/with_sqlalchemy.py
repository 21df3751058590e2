"""SQLAlchemy: loaded before the engine makes its first connection."""

# recipe
import tdekit
from sqlalchemy import create_engine

tdekit.load()


def make_engine(path):
    return create_engine(f"sqlite:///{path}")
# end


from sqlalchemy import insert, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    pass


class Note(Base):
    __tablename__ = "note"
    id: Mapped[int] = mapped_column(primary_key=True)
    body: Mapped[str]


def write(path, rows):
    engine = make_engine(path)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.execute(insert(Note), [{"id": key, "body": body} for key, body in rows])
        session.commit()


def read(path):
    with Session(make_engine(path)) as session:
        return session.execute(select(Note.id, Note.body)).all()
