"""The models as they are after the last migration."""

from django.conf import settings
from django.db import models


class Supplier(models.Model):
    name = models.CharField(max_length=80, unique=True)


class Item(models.Model):
    """Was `Product` in the first migration; each change is in the second."""

    title = models.CharField(max_length=200, db_index=True)
    code = models.CharField(max_length=20, null=True, unique=True)
    price = models.DecimalField(max_digits=19, decimal_places=4, default=0)
    stock = models.BigIntegerField(default=0)
    note = models.TextField(blank=True, default="")
    added = models.DateTimeField()
    supplier = models.ForeignKey(Supplier, models.CASCADE, null=True, related_name="items")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    labels = models.ManyToManyField("Label")
    extra = models.JSONField(null=True)

    class Meta:
        ordering = ["title"]
        constraints = [
            models.CheckConstraint(condition=models.Q(price__gte=0), name="item_price"),
            models.UniqueConstraint(
                fields=["title"], condition=models.Q(stock__gt=0), name="item_in_stock"
            ),
        ]
        indexes = [models.Index(fields=["added", "price"], name="item_added")]


class Label(models.Model):
    text = models.CharField(max_length=40)

    class Meta:
        unique_together = [("text",)]
