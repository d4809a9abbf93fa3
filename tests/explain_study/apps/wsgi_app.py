"""A plain WSGI application that asks a database, which takes a while."""

import os
import socket
import threading
from collections.abc import Callable, Iterable

PLACE = threading.local()


def connection() -> socket.socket:
    if not hasattr(PLACE, "socket"):
        PLACE.socket = socket.create_connection(("127.0.0.1", int(os.environ["DATABASE_PORT"])))
    kept: socket.socket = PLACE.socket
    return kept


def app(environ: dict[str, object], start_response: Callable[..., object]) -> Iterable[bytes]:
    if environ["PATH_INFO"] == "/slow":
        connection().sendall(b"wait 20\n")
        connection().recv(100)
    body = b'{"answer": 42}'
    fields = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    start_response("200 OK", fields)
    return [body]
