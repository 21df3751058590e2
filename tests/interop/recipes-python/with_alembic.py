"""Alembic: ``env.py`` loads the extension; ``alembic upgrade head`` makes the table."""

import os

import with_sqlalchemy
from alembic import command
from alembic.config import Config
from sqlalchemy import text
from sqlalchemy.orm import Session

SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "alembic_site")


def write(path, rows):
    config = Config()
    config.set_main_option("script_location", SITE)
    command.upgrade(config, "head")
    with Session(with_sqlalchemy.make_engine(path)) as session:
        session.add_all(with_sqlalchemy.Note(id=key, body=body) for key, body in rows)
        session.commit()


def read(path):
    with with_sqlalchemy.make_engine(path).connect() as connection:
        version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        if version != "0001":
            raise ValueError(f"the schema's version is {version}")
    return with_sqlalchemy.read(path)
