# mypy: disable-error-code="import-not-found,misc"
# ruff: noqa: N802 - the names are Twisted's
"""The common contract on twisted.web, as its documentation shows how to write a server.

twisted_server.py LISTEN FILES WORKERS, where LISTEN is HOST:PORT or unix:PATH.
"""

import importlib
import os
import re
import socket
import sys
from typing import Any

from twisted.internet.task import deferLater
from twisted.web.pages import notFound
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site
from twisted.web.static import File

HELLO = b"Hello, World!"
BACKLOG = 1024


def reactor() -> Any:
    """The event loop; it opens its epoll when it is first imported, so not before the fork."""
    return importlib.import_module("twisted.internet.reactor")


def text(request: Request, body: bytes) -> bytes:
    request.setHeader(b"Content-Type", b"text/plain")
    return body


class Hello(Resource):
    def getChild(self, path: bytes, request: Request) -> Resource:
        return self if path == b"" else notFound()

    def render_GET(self, request: Request) -> bytes:
        return text(request, HELLO)


class FortyTwo(Resource):
    def render_GET(self, request: Request) -> bytes:
        # The contract of /42 names every field, and a date is not among them.
        request.responseHeaders.removeHeader(b"Date")
        request.setHeader(b"Server", b"bench")
        request.setHeader(b"Connection", b"keep-alive")
        return text(request, b"42")


class Delay(Resource):
    def render_GET(self, request: Request) -> Any:
        query = request.uri.partition(b"?")[2]
        ms = re.fullmatch(rb"ms=(\d{1,5})", query)
        if ms is None:
            return notFound().render(request)
        waiting = deferLater(reactor(), int(ms[1]) / 1000, self.late, request)
        request.notifyFinish().addErrback(lambda _: waiting.cancel())
        waiting.addErrback(lambda _: None)
        return NOT_DONE_YET

    @staticmethod
    def late(request: Request) -> None:
        request.setHeader(b"Content-Length", str(len(HELLO)).encode())
        request.write(text(request, HELLO))
        request.finish()


class Files(File):
    """The folder without its lists, which the contract does not know."""

    def directoryListing(self) -> Resource:
        return notFound()


def site(files: str) -> Site:
    root = Hello()
    root.putChild(b"42", FortyTwo())
    root.putChild(b"delay", Delay())
    root.putChild(b"files", Files(files, defaultType="application/octet-stream"))
    found = Site(root, timeout=75)
    found.noisy = False
    found.log = lambda request: None
    return found


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


def main() -> None:
    where, files, workers = sys.argv[1:]
    listening = listener(where)
    for _ in range(int(workers) - 1):
        if os.fork() == 0:
            break
    loop = reactor()
    loop.adoptStreamPort(listening.fileno(), listening.family, site(files))
    loop.run()


main()
