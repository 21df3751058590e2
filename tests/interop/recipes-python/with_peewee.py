"""Peewee: loaded before the database is connected to."""

# recipe
import peewee
import tdekit

tdekit.load()
database = peewee.SqliteDatabase(None, pragmas={"journal_mode": "wal"})
# end


class Note(peewee.Model):
    body = peewee.TextField()

    class Meta:
        database = database


def write(path, rows):
    database.init(path)
    database.create_tables([Note])
    with database.atomic():
        for key, body in rows:
            Note.create(id=key, body=body)
    database.close()


def read(path):
    database.init(path)
    return list(Note.select(Note.id, Note.body).tuples())
