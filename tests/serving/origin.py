"""Servers behind a gateway, each of which answers with its name."""

import http.server
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.serving.server_process import PATIENCE_S

Answer = Callable[[http.server.BaseHTTPRequestHandler], tuple[int, str]]


def held_until(is_free: threading.Event) -> Answer:
    """Answers `held`, once the event is set or the test has failed."""

    def answer(_: object) -> tuple[int, str]:
        is_free.wait(PATIENCE_S)
        return 200, "held"

    return answer


class Origin:
    """An HTTP server on a port of this machine, from its start on.

    Attributes:
        requests: The paths that it was asked for, in order.
    """

    def __init__(self, name: str, answer: Answer | None = None, port: int = 0) -> None:
        """Answers with `answer`, else with its name and the path, and listens on `port`."""
        self.name = name
        self.answer = answer
        self.requests: list[str] = []
        self.connections: set[socket.socket] = set()
        self.lock = threading.Lock()
        origin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            body = b""

            def setup(self) -> None:
                with origin.lock:
                    origin.connections.add(self.request)
                super().setup()

            def finish(self) -> None:
                with origin.lock:
                    origin.connections.discard(self.request)
                super().finish()

            def respond(self) -> None:
                self.body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                origin.requests.append(self.path)
                status, text = origin.respond_to(self)
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_DELETE = respond  # noqa: N815 -- the names that http.server calls

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: object) -> None:
                """A connection that the gateway has closed is no error here."""

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=[0.01], daemon=True)

    def respond_to(self, request: http.server.BaseHTTPRequestHandler) -> tuple[int, str]:
        """Status and body."""
        return self.answer(request) if self.answer else (200, f"{self.name} {request.path}")

    @property
    def address(self) -> str:
        """As in a configuration file."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        """Starts it."""
        self.thread.start()
        return self

    def stop(self) -> None:
        """Accepts nothing more, and ends each connection once it has served its requests."""
        self.server.shutdown()
        self.server.server_close()
        with self.lock:
            for connection in self.connections:
                try:
                    connection.shutdown(socket.SHUT_RD)
                except OSError:
                    continue

    def kill(self) -> None:
        """Refuses connections and resets those that are there, as if its process were killed."""
        self.server.shutdown()
        self.server.server_close()
        with self.lock:
            for connection in self.connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        """Ends it."""
        self.kill()
        self.thread.join()
