import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]
    operations = [
        migrations.CreateModel(
            name="Supplier",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=80, unique=True)),
            ],
        ),
        migrations.RenameModel("Product", "Item"),
        migrations.RenameField("Item", "name", "title"),
        migrations.AlterModelOptions("item", options={"ordering": ["title"]}),
        migrations.AlterField("item", "title", models.CharField(db_index=True, max_length=200)),
        migrations.AlterField(
            "item", "code", models.CharField(max_length=20, null=True, unique=True)
        ),
        migrations.AlterField(
            "item", "price", models.DecimalField(decimal_places=4, default=0, max_digits=19)
        ),
        migrations.AlterField("item", "stock", models.BigIntegerField(default=0)),
        migrations.AlterField("item", "note", models.TextField(blank=True, default="")),
        migrations.AddField(
            "item",
            "supplier",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="items",
                to="shop.supplier",
            ),
        ),
        migrations.AddConstraint(
            "item",
            models.CheckConstraint(condition=models.Q(price__gte=0), name="item_price"),
        ),
        migrations.AddConstraint(
            "item",
            models.UniqueConstraint(
                condition=models.Q(stock__gt=0), fields=["title"], name="item_in_stock"
            ),
        ),
    ]
