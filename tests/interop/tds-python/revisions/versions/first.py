import sqlalchemy as sa
from alembic import op

revision = "first"
down_revision = None


def upgrade():
    op.create_table(
        "al_owner",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Unicode(length=50), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "al_product",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Unicode(length=50), nullable=False),
        sa.Column("code", sa.String(length=10), nullable=False),
        sa.Column("price", sa.Numeric(precision=9, scale=2), nullable=True),
        sa.Column("stock", sa.Integer(), server_default="0", nullable=False),
        sa.Column("day", sa.Date(), nullable=True),
        sa.Column("owner_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["owner_id"], ["al_owner.id"], name="al_product_owner"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("code", name="al_product_code"),
    )
    op.create_index("al_product_day", "al_product", ["day", "price"])


def downgrade():
    op.drop_index("al_product_day", table_name="al_product")
    op.drop_table("al_product")
    op.drop_table("al_owner")
