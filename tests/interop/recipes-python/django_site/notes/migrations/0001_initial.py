from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel(
            name="Note",
            fields=[
                ("id", models.IntegerField(primary_key=True, serialize=False)),
                ("body", models.TextField()),
            ],
        ),
    ]
