"""A server behind a gateway whose responses are bytes of the test."""

import contextlib
import socket
import socketserver
import threading
from collections.abc import Callable
from typing import Self

from tests.serving.server_process import PATIENCE_S


class ScriptedServer(socketserver.ThreadingTCPServer):
    """Calls `answer` with the connection for each request, which has no body.

    Attributes:
        connections: How many were opened.
        requests: How many were received.
        ended: Is released when the gateway has closed a connection.
    """

    daemon_threads = True

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        """Listens on a free port."""
        self.connections = self.requests = 0
        self.ended = threading.Semaphore(0)
        server = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                server.connections += 1
                connection: socket.socket = self.request
                connection.settimeout(PATIENCE_S)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with contextlib.suppress(ConnectionError):
                    while connection.recv(65536):
                        server.requests += 1
                        answer(connection)
                server.ended.release()

        super().__init__(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.serve_forever, args=[0.01], daemon=True)

    @property
    def address(self) -> str:
        """As in a configuration file."""
        return f"127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        """Starts it."""
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self.shutdown()
        self.server_close()
        self.thread.join()
