import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade():
    op.create_table(
        "note",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
    )
    # SQLite changes a column by copying the table.
    with op.batch_alter_table("note") as table:
        table.create_index("note_body", ["body"])
