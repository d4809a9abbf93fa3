"""Servers of Python's frameworks that burn a known share of a request's CPU time in injected_burn.

    frameworks.py KIND PORT BURN_PERMILLE [ORDINARY_PERMILLE FILE]

As server.py. Both functions call themselves, so that stacks change within a tenth of a microsecond.
Each imports its framework only, which may be the only one that is installed.
"""

# ruff: noqa: PLC0415

import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

KIND, PORT, BURN = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ORDINARY = int(sys.argv[4]) if len(sys.argv) > 4 else 1000 - BURN
TRUTH_FILE = Path(sys.argv[5]) if len(sys.argv) > 5 else None
LOGGED = 32

# Calls of a function with this argument, which makes 465.
CALLS, ARGUMENT = 100, 12
ANSWER = b"ok"


def injected_burn(n: int) -> int:
    return n if n < 2 else injected_burn(n - 1) + injected_burn(n - 2)


def ordinary_work(n: int) -> int:
    return n if n < 2 else ordinary_work(n - 1) + ordinary_work(n - 2)


class Truth:
    """Requests, and CPU time of all calls of injected_burn."""

    lock = threading.Lock()
    requests = 0
    burnt_ns = 0

    @classmethod
    def add(cls, burnt_ns: int) -> None:
        with cls.lock:
            cls.requests += 1
            cls.burnt_ns += burnt_ns
            if TRUTH_FILE is not None and cls.requests % LOGGED == 0:
                with TRUTH_FILE.open("a") as file:
                    print(time.monotonic_ns(), cls.requests, cls.burnt_ns, file=file)


def work() -> None:
    start_ns = time.thread_time_ns()
    for _ in range(CALLS * BURN // 1000):
        injected_burn(ARGUMENT)
    burnt_ns = time.thread_time_ns() - start_ns
    for _ in range(CALLS * ORDINARY // 1000):
        ordinary_work(ARGUMENT)
    Truth.add(burnt_ns)


def threaded() -> None:
    """The http.server of the library, with a thread for each connection."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            work()
            self.send_response(200)
            self.send_header("Content-Length", str(len(ANSWER)))
            self.end_headers()
            self.wfile.write(ANSWER)

        def log_message(self, *_: object) -> None:
            pass

    ThreadingHTTPServer.request_queue_size = 128
    ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()


def asyncio_streams() -> None:
    import asyncio

    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(ANSWER)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            while await reader.readline() not in (b"\r\n", b""):
                pass
            work()
            writer.write(head + ANSWER)
            await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", PORT)
        await server.serve_forever()

    asyncio.run(main())


def wsgi(_: object, start_response: Callable[..., object]) -> Iterable[bytes]:
    work()
    start_response("200 OK", [("Content-Length", str(len(ANSWER)))])
    return [ANSWER]


def gunicorn() -> None:
    """One process with threads, forked by another."""
    from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]

    class Application(BaseApplication):  # type: ignore[misc]
        def load_config(self) -> None:
            for name, value in {
                "bind": f"127.0.0.1:{PORT}",
                "worker_class": "gthread",
                "threads": 4,
                "keepalive": 60,
            }.items():
                self.cfg.set(name, value)

        def load(self) -> Callable[..., Iterable[bytes]]:
            return wsgi

    Application().run()


async def asgi(scope: Any, _: object, send: Any) -> None:
    if scope["type"] == "http":
        work()
        length = (b"content-length", str(len(ANSWER)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": ANSWER})


def uvicorn() -> None:
    import uvicorn

    uvicorn.run(asgi, port=PORT, lifespan="off", log_level="warning", access_log=False)


def flask() -> None:
    import logging

    import flask

    app = flask.Flask(__name__)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)

    @app.get("/")
    def index() -> str:
        work()
        return ANSWER.decode()

    app.run("127.0.0.1", PORT, threaded=True)


def django() -> None:
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse
    from django.urls import path

    def index(_: object) -> HttpResponse:
        work()
        return HttpResponse(ANSWER)

    class Threaded(ThreadingMixIn, WSGIServer):
        daemon_threads = True
        request_queue_size = 128

    class Quiet(WSGIRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    settings.configure(ROOT_URLCONF=(path("", index),), ALLOWED_HOSTS=["*"], SECRET_KEY="none")  # noqa: S106
    application = get_wsgi_application()
    make_server("127.0.0.1", PORT, application, Threaded, Quiet).serve_forever()


def tornado() -> None:
    import asyncio

    import tornado.web

    class Handler(tornado.web.RequestHandler):
        def get(self) -> None:  # type: ignore[mutable-override]
            work()
            self.write(ANSWER)

    async def main() -> None:
        application = tornado.web.Application([("/", Handler)], log_function=lambda _: None)
        application.listen(PORT, "127.0.0.1")
        await asyncio.Event().wait()

    asyncio.run(main())


KINDS = {
    "http.server": threaded,
    "asyncio": asyncio_streams,
    "gunicorn": gunicorn,
    "uvicorn": uvicorn,
    "flask": flask,
    "django": django,
    "tornado": tornado,
}

if __name__ == "__main__":
    # gunicorn reads them, too.
    del sys.argv[1:]
    KINDS[KIND]()
