"""The WSGI application of the contract in a server that is a C extension of Python.

wsgi_native.py SERVER LISTEN WORKERS, where SERVER is bjoern, meinheld or minefield, and LISTEN is
HOST:PORT or unix:PATH. These servers do not fork, so that is done here, with one listening socket
for all, as their documentation proposes.
"""

import importlib
import os
import socket
import sys
from typing import Any

app: Any = importlib.import_module("wsgi_app").app  # beside this file

BACKLOG = 1024
KEEPALIVE_S = 75


def listener(where: str) -> socket.socket:
    if where.startswith("unix:"):
        found = socket.socket(socket.AF_UNIX)
        found.bind(where.removeprefix("unix:"))
    else:
        host, _, port = where.rpartition(":")
        found = socket.socket()
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, int(port)))
    found.settimeout(0)
    found.listen(BACKLOG)
    return found


def bjoern(listening: socket.socket) -> None:
    server: Any = importlib.import_module("bjoern")
    server.server_run(listening, app)


def meinheld(listening: socket.socket, package: str = "meinheld") -> None:
    server: Any = importlib.import_module(f"{package}.server")
    server.set_access_logger(None)
    server.set_keepalive(KEEPALIVE_S)  # neither keeps a connection unless it is told to
    server.set_listen_socket(listening.fileno())
    server.run(app)


def main() -> None:
    name, where, workers = sys.argv[1:]
    listening = listener(where)
    for _ in range(int(workers) - 1):
        if os.fork() == 0:
            break
    if name == "bjoern":
        bjoern(listening)
    else:
        meinheld(listening, name)


main()
