"""A Django application in one file, with a fault behind each path."""

import os
from pathlib import Path

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import models
from django.http import HttpRequest, JsonResponse
from django.urls import path

settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": Path(os.environ["SITE"]) / "shop.db",
            "CONN_MAX_AGE": None,
        }
    },
    ROOT_URLCONF=__name__,
    SECRET_KEY="none",  # noqa: S106 - nothing is signed with it
)
django.setup()

ITEMS = 25


class Item(models.Model):  # type: ignore[misc]
    """A row of the table that the study writes."""

    name = models.TextField()

    class Meta:
        app_label = "shop"
        db_table = "item"


def clean(_: HttpRequest) -> JsonResponse:
    return JsonResponse({"answer": 42})


def many_queries(_: HttpRequest) -> JsonResponse:
    """The items of an order, and then each item's name."""
    items = Item.objects.values_list("id", flat=True)[:ITEMS]
    names = [Item.objects.get(id=item).name for item in items]
    return JsonResponse(names, safe=False)


urlpatterns = [path("clean", clean), path("n-plus-one", many_queries)]
app = get_wsgi_application()
