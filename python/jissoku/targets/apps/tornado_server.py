# mypy: disable-error-code="mutable-override"
"""The common contract on tornado, as its documentation shows how to write a server.

tornado_server.py LISTEN FILES WORKERS, where LISTEN is HOST:PORT or unix:PATH.
"""

import asyncio
import sys
from socket import socket

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets, bind_unix_socket
from tornado.process import fork_processes
from tornado.web import Application, HTTPError, RequestHandler, StaticFileHandler

HELLO = b"Hello, World!"


class Text(RequestHandler):
    def set_default_headers(self) -> None:
        self.set_header("Content-Type", "text/plain")


class Hello(Text):
    def get(self) -> None:
        self.write(HELLO)


class FortyTwo(Text):
    def set_default_headers(self) -> None:
        super().set_default_headers()
        # The contract of /42 names every field, and a date is not among them.
        self.clear_header("Date")
        self.set_header("Server", "bench")
        self.set_header("Connection", "keep-alive")

    def compute_etag(self) -> None:
        return None

    def get(self) -> None:
        self.write(b"42")


class Delay(Text):
    async def get(self) -> None:
        ms = self.get_query_argument("ms", "")
        if not (ms.isascii() and ms.isdecimal() and len(ms) <= 5):
            raise HTTPError(404)
        await asyncio.sleep(int(ms) / 1000)
        self.write(HELLO)


def application(files: str) -> Application:
    return Application(
        [
            ("/", Hello),
            ("/42", FortyTwo),
            ("/delay", Delay),
            ("/files/(.*)", StaticFileHandler, {"path": files}),
        ],
        log_function=lambda handler: None,
    )


def listen(where: str) -> list[socket]:
    if where.startswith("unix:"):
        return [bind_unix_socket(where.removeprefix("unix:"), backlog=1024)]
    host, _, port = where.rpartition(":")
    return bind_sockets(int(port), host, backlog=1024)


async def serve(sockets: list[socket], files: str) -> None:
    HTTPServer(application(files)).add_sockets(sockets)
    await asyncio.Event().wait()


def main() -> None:
    where, files, workers = sys.argv[1:]
    sockets = listen(where)
    if int(workers) > 1:
        fork_processes(int(workers))
    asyncio.run(serve(sockets, files))


main()
