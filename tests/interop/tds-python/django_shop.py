"""Django: the migrations of its own applications and of `shop`, and its admin pages."""

import datetime
import decimal
import io
import os

import django
from django.conf import settings

import drivers
from checks import same

TEXT = "Grüße, Ω, 日本, \U0001f600"
APPLICATIONS = ["admin", "auth", "contenttypes", "sessions", "messages"]
ADDED = datetime.datetime(2024, 2, 29, 13, 14, 15, 123456, tzinfo=datetime.timezone.utc)


def run(port, certificate, password, marker):
    configure(port, certificate, password)
    first(marker)
    second(marker)
    work(marker)
    back_and_forth()


def configure(port, certificate, password):
    drivers.register_odbc_driver()
    os.environ["SSL_CERT_FILE"] = certificate  # of OpenSSL, which the driver uses
    database = {
        "ENGINE": "mssql",
        "NAME": drivers.DATABASE,
        "HOST": drivers.HOST,
        "PORT": port,
        "USER": "sa",
        "PASSWORD": password,
        "OPTIONS": {"extra_params": "Encrypt=yes"},
    }
    middleware = [
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ]
    processors = ["django.template.context_processors.request"]
    for name in ("auth", "messages"):
        processors.append(f"django.contrib.{name}.context_processors.{name}")
    settings.configure(
        ALLOWED_HOSTS=["*"],
        DATABASES={"default": database},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        INSTALLED_APPS=[f"django.contrib.{name}" for name in APPLICATIONS] + ["shop"],
        MIDDLEWARE=middleware,
        ROOT_URLCONF="shop.urls",
        SECRET_KEY="only for the interop tests",
        STATIC_URL="static/",
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {"context_processors": processors},
            }
        ],
        USE_TZ=True,
    )
    django.setup()


def manage(*arguments, **options):
    """What `manage.py` prints."""
    from django.core.management import call_command

    out = io.StringIO()
    call_command(*arguments, stdout=out, verbosity=1, interactive=False, **options)
    return out.getvalue()


def state_at(migration):
    """The models of `shop` as they are after this migration."""
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    return MigrationExecutor(connection).loader.project_state(("shop", migration)).apps


def first(marker):
    from django.contrib.auth.models import User

    manage("migrate")
    manage("migrate", "shop", "0001")
    user = User.objects.create_superuser("ann", "ann@example.org", "a password of ann's")
    apps = state_at("0001_initial")
    Product, Label = apps.get_model("shop", "Product"), apps.get_model("shop", "Label")
    label = Label.objects.create(text=f"{TEXT} label")
    for number in range(50):
        product = Product.objects.create(
            name=f"{TEXT} {number} {marker}"[:50],
            code=f"c{number}",
            price=None if number == 7 else decimal.Decimal(number) / 4,
            stock=number,
            note=None if number % 5 == 0 else f"{marker} {number}",
            added=ADDED + datetime.timedelta(hours=number),
            owner_id=user.id if number % 2 else None,
            extra={"number": number, "text": TEXT},
        )
        product.labels.add(label)


def second(marker):
    from django.db import connection

    assert "Applying shop.0002_second" in manage("migrate", "shop")
    assert "No migrations to apply" in manage("migrate"), "the second run is empty"
    same(manage("makemigrations", dry_run=True), "No changes detected\n", "changes")
    with connection.cursor() as cursor:
        table = "shop_item"
        columns = connection.introspection.get_table_description(cursor, table)
        nullable = {column.name for column in columns if column.null_ok}
        same(nullable, {"code", "supplier_id", "owner_id", "extra"}, "nullable columns")
        constraints = connection.introspection.get_constraints(cursor, table)
        names = connection.introspection.table_names(cursor)
    assert "shop_product" not in names and "shop_item_labels" in names, names
    keys = [each for each in constraints.values() if each["foreign_key"]]
    keys = {tuple(each["columns"]): each["foreign_key"] for each in keys}
    same(keys[("owner_id",)], ("auth_user", "id"), "the key to users")
    same(keys[("supplier_id",)], ("shop_supplier", "id"), "the key to suppliers")
    assert constraints["item_price"]["check"], constraints
    assert constraints["item_in_stock"]["unique"], constraints
    assert constraints["item_added"]["index"], constraints


def work(marker):
    """What the new definitions refuse and keep."""
    from django.db import IntegrityError, transaction

    from shop.models import Item, Supplier

    same(Item.objects.count(), 50, "rows kept")
    item = Item.objects.get(code="c8")
    same(item.title, f"{TEXT} 8 {marker}"[:50], "title")
    same((item.price, item.stock, item.note), (2, 8, f"{marker} 8"), "values")
    same(item.added, ADDED + datetime.timedelta(hours=8), "date")
    same(item.extra, {"number": 8, "text": TEXT}, "JSON")
    same(item.labels.get().text, f"{TEXT} label", "label")
    same(Item.objects.get(code="c7").price, 0, "a NULL took the default")
    same(Item.objects.filter(note="").count(), 10, "NULLs took the default")
    Item.objects.filter(code__in=["c1", "c2"]).update(code=None)
    same(Item.objects.filter(code=None).count(), 2, "two NULLs in a unique column")
    for change in ({"code": "c9"}, {"price": -1}, {"title": Item.objects.get(code="c9").title}):
        try:
            with transaction.atomic():
                Item.objects.filter(code="c8").update(**change)
        except IntegrityError:
            continue
        raise AssertionError(f"{change} was not refused")
    supplier = Supplier.objects.create(name="s")
    Item.objects.filter(stock__lt=10).update(supplier=supplier)
    same(supplier.items.count(), 10, "items of the supplier")
    same(Item.objects.filter(owner__username="ann").count(), 25, "items of the owner")
    admin_pages(item)


def admin_pages(item):
    from django.test import Client

    from shop.models import Item

    client = Client()
    assert client.login(username="ann", password="a password of ann's")
    for page in ("", "shop/item/", "shop/item/?o=-1&p=1", f"shop/item/{item.pk}/change/"):
        same(client.get(f"/admin/{page}").status_code, 200, page)
    form = {"name": "of the form"}
    same(client.post("/admin/shop/supplier/add/", form).status_code, 302, "added")
    chosen = {"action": "delete_selected", "_selected_action": item.pk, "post": "yes"}
    same(client.post("/admin/shop/item/", chosen).status_code, 302, "deleted")
    same(Item.objects.filter(pk=item.pk).count(), 0, "deleted")


def back_and_forth():
    from shop.models import Item

    Item.objects.filter(code=None).delete()
    before = Item.objects.order_by("pk").values_list("pk", "title")
    wanted = list(before)
    manage("migrate", "shop", "0001")
    manage("migrate", "shop")
    same(list(before.all()), wanted, "rows after going back and forth")
    manage("migrate", "shop", "zero")
