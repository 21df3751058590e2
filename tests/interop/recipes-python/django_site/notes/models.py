from django.db import models


class Note(models.Model):
    id = models.IntegerField(primary_key=True)
    body = models.TextField()
