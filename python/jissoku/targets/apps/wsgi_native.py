"""The application of the contract in a server that is started by a call.

wsgi_native.py SERVER LISTEN WORKERS, where LISTEN is HOST:PORT or unix:PATH. The module of the
application is in the environment's APP_MODULE, by default that of WSGI. Servers that take a
listening socket share one between all workers, as their documentation proposes. FastWSGI and
FastPySGI open one each, with SO_REUSEPORT. cheroot runs in one process.
"""

import importlib
import os
import socket
import sys
from typing import Any

app: Any = importlib.import_module(os.environ.get("APP_MODULE", "wsgi_app")).app  # beside this file

BACKLOG = 1024
KEEPALIVE_S = 75
CONNECTIONS_MAX = 8192


def tcp_address(where: str) -> tuple[str, int]:
    host, _, port = where.rpartition(":")
    return host, int(port)


def listener(where: str) -> socket.socket:
    if where.startswith("unix:"):
        found = socket.socket(socket.AF_UNIX)
        found.bind(where.removeprefix("unix:"))
    else:
        found = socket.socket()
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(tcp_address(where))
    found.settimeout(0)
    found.listen(BACKLOG)
    return found


def bjoern(listening: socket.socket) -> None:
    server: Any = importlib.import_module("bjoern")
    server.server_run(listening, app)


def meinheld(listening: socket.socket, package: str) -> None:
    server: Any = importlib.import_module(f"{package}.server")
    server.set_access_logger(None)
    server.set_keepalive(KEEPALIVE_S)  # neither keeps a connection by default
    server.set_listen_socket(listening.fileno())
    server.run(app)


def fastwsgi(where: str, package: str) -> None:
    server: Any = importlib.import_module(package).server
    server.backlog = BACKLOG
    server.add_header_date = False
    server.add_header_server = None
    server.init(app, *tcp_address(where))
    server.run()


def waitress(listening: socket.socket) -> None:
    server: Any = importlib.import_module("waitress")
    limits = {"connection_limit": CONNECTIONS_MAX, "channel_timeout": KEEPALIVE_S}
    server.serve(
        app, sockets=[listening], ident=None, asyncore_use_poll=True, _quiet=True, **limits
    )


def cheroot(where: str) -> None:
    address: Any = where.removeprefix("unix:") if where.startswith("unix:") else tcp_address(where)
    wsgi: Any = importlib.import_module("cheroot.wsgi")
    server = wsgi.Server(address, app, request_queue_size=BACKLOG, timeout=KEEPALIVE_S)
    server.keep_alive_conn_limit = CONNECTIONS_MAX
    server.safe_start()


def fork(workers: int) -> None:
    for _ in range(workers - 1):
        if os.fork() == 0:
            break


def main() -> None:
    name, where, workers = sys.argv[1:]
    if name == "cheroot":
        return cheroot(where)
    if name in {"fastwsgi", "fastpysgi"}:
        fork(int(workers))
        return fastwsgi(where, name)
    listening = listener(where)
    fork(int(workers))
    if name == "bjoern":
        return bjoern(listening)
    if name == "waitress":
        return waitress(listening)
    return meinheld(listening, name)


main()
