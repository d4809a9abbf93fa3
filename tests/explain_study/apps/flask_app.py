"""A Flask application with a fault behind each path."""

import os
import sqlite3
from pathlib import Path

from flask import Flask, Response, jsonify

app = Flask(__name__)

DATABASE = Path(os.environ["SITE"]) / "shop.db"
ITEMS = 25


@app.get("/clean")
def clean() -> Response:
    return jsonify(answer=42)


@app.get("/n-plus-one")
def many_queries() -> Response:
    """The items of an order, and then each item's name."""
    with sqlite3.connect(DATABASE) as connection:
        items = [row[0] for row in connection.execute("select id from item limit ?", (ITEMS,))]
        query = "select name from item where id = ?"
        names = [connection.execute(query, (item,)).fetchone()[0] for item in items]
    return jsonify(names)
