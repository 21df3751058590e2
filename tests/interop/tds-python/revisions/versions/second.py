import sqlalchemy as sa
from alembic import op

revision = "second"
down_revision = "first"


def upgrade():
    op.alter_column(
        "al_owner", "name", existing_type=sa.Unicode(50), type_=sa.Unicode(200), nullable=False
    )
    op.add_column("al_owner", sa.Column("mail", sa.String(100), nullable=True))
    op.create_index(
        "al_owner_mail", "al_owner", ["mail"], unique=True, mssql_where=sa.text("mail IS NOT NULL")
    )
    op.drop_constraint("al_product_owner", "al_product", type_="foreignkey")
    op.drop_constraint("al_product_code", "al_product", type_="unique")
    op.drop_index("al_product_day", table_name="al_product")
    op.rename_table("al_product", "al_item")
    op.alter_column(
        "al_item",
        "name",
        existing_type=sa.Unicode(50),
        type_=sa.Unicode(200),
        nullable=True,
        new_column_name="title",
    )
    op.alter_column(
        "al_item", "code", existing_type=sa.String(10), type_=sa.String(20), nullable=False
    )
    op.execute("UPDATE al_item SET price = 0 WHERE price IS NULL")
    op.alter_column(
        "al_item",
        "price",
        existing_type=sa.Numeric(9, 2),
        type_=sa.Numeric(19, 4),
        nullable=False,
        server_default="1",
    )
    op.alter_column(
        "al_item",
        "stock",
        existing_type=sa.Integer(),
        existing_server_default="0",
        type_=sa.BigInteger(),
        nullable=False,
        server_default="5",
    )
    op.create_foreign_key(
        "al_item_owner", "al_item", "al_owner", ["owner_id"], ["id"], ondelete="CASCADE"
    )
    op.create_unique_constraint("al_item_code", "al_item", ["code", "owner_id"])
    op.create_check_constraint("al_item_price", "al_item", "price >= 0")
    op.create_index("al_product_day", "al_item", ["day", "price"])


def downgrade():
    op.drop_index("al_product_day", table_name="al_item")
    op.drop_constraint("al_item_price", "al_item", type_="check")
    op.drop_constraint("al_item_code", "al_item", type_="unique")
    op.drop_constraint("al_item_owner", "al_item", type_="foreignkey")
    op.alter_column(
        "al_item",
        "stock",
        existing_type=sa.BigInteger(),
        existing_server_default="5",
        type_=sa.Integer(),
        nullable=False,
        server_default="0",
    )
    op.alter_column(
        "al_item",
        "price",
        existing_type=sa.Numeric(19, 4),
        existing_server_default="1",
        type_=sa.Numeric(9, 2),
        nullable=True,
        server_default=None,
    )
    op.alter_column(
        "al_item", "code", existing_type=sa.String(20), type_=sa.String(10), nullable=False
    )
    op.alter_column(
        "al_item",
        "title",
        existing_type=sa.Unicode(200),
        type_=sa.Unicode(50),
        nullable=False,
        new_column_name="name",
    )
    op.rename_table("al_item", "al_product")
    op.create_index("al_product_day", "al_product", ["day", "price"])
    op.create_unique_constraint("al_product_code", "al_product", ["code"])
    op.create_foreign_key("al_product_owner", "al_product", "al_owner", ["owner_id"], ["id"])
    op.drop_index("al_owner_mail", table_name="al_owner")
    op.drop_column("al_owner", "mail")
    op.alter_column(
        "al_owner", "name", existing_type=sa.Unicode(200), type_=sa.Unicode(50), nullable=False
    )
