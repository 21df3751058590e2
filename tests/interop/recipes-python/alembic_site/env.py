import os

# recipe
import tdekit
from alembic import context
from sqlalchemy import create_engine, pool

tdekit.load()
engine = create_engine(f"sqlite:///{os.environ['NOTES_DATABASE']}", poolclass=pool.NullPool)

with engine.connect() as connection:
    context.configure(connection=connection, render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()
# end
