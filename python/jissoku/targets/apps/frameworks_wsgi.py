"""Pages of WSGI frameworks: Django with a template and SQLite, Flask with blocking I/O, a stream.

The folder of the environment's RUN gets the database. Other paths than those of PAGES are the
contract's.
"""

import importlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.template import Context, Engine
from django.urls import path
from flask import Flask

Environ = dict[str, Any]
Application = Callable[[Environ, Any], Iterable[bytes]]

contract: Application = importlib.import_module("wsgi_app").app  # beside this file

DATABASE = Path(os.environ["RUN"]) / "items.sqlite3"
ITEMS = 20
BLOCKED_S = 0.020
CHUNK = b"x" * 16_384
CHUNKS = 64

TEMPLATE = """<!DOCTYPE html>
<title>{{ title }}</title>
<table>
{% for item in items %}
<tr class="{% cycle 'odd' 'even' %}">
<td>{{ item.name|title }}<td>{{ item.price|floatformat:2 }}
{% endfor %}
</table>
"""


def create_database() -> None:
    """Creates the table under a name of this process, so that workers do not see half of it."""
    mine = DATABASE.with_suffix(f".{os.getpid()}")
    with sqlite3.connect(mine) as database:
        database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, price REAL)")
        rows = [(f"item {number}", number * 1.5) for number in range(ITEMS)]
        database.executemany("INSERT INTO items (name, price) VALUES (?, ?)", rows)
    database.close()
    mine.replace(DATABASE)


def page(_request: HttpRequest) -> HttpResponse:
    from django.db import connection  # noqa: PLC0415 - needs the settings

    with connection.cursor() as cursor:
        cursor.execute("SELECT name, price FROM items ORDER BY id")
        items = [{"name": name, "price": price} for name, price in cursor.fetchall()]
    return HttpResponse(template.render(Context({"title": "Items", "items": items})))


create_database()
settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(DATABASE),
            "CONN_MAX_AGE": None,
        }
    },
    MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="none",  # noqa: S106 - nothing is signed
)
django.setup()
urlpatterns = [path("page", page)]
template = Engine().from_string(TEMPLATE)
django_app = get_wsgi_application()

flask_app = Flask(__name__)


@flask_app.get("/blocking")
def blocking() -> dict[str, object]:
    """Blocks its thread for 20 ms, as a query to another machine does."""
    time.sleep(BLOCKED_S)
    return {"items": [{"id": number, "name": f"item {number}"} for number in range(ITEMS)]}


def stream(_environ: Environ, start_response: Any) -> Iterator[bytes]:
    # Not in a generator, although PEP 3333 permits that: Granian would send no header fields.
    start_response("200 OK", [("Content-Type", "application/octet-stream")])
    return iter([CHUNK] * CHUNKS)


PAGES: dict[str, Application] = {"/page": django_app, "/blocking": flask_app, "/stream": stream}


def app(environ: Environ, start_response: Any) -> Iterable[bytes]:
    chosen: Application = PAGES.get(environ["PATH_INFO"], contract)
    return chosen(environ, start_response)
