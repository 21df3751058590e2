from django.contrib import admin

from shop.models import Item, Label, Supplier

admin.site.register([Item, Label, Supplier])
