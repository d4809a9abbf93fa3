"""The common contract on Python's own http.server: a thread for each connection.

http_server.py LISTEN FILES, where LISTEN is HOST:PORT.
"""

import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HELLO = b"Hello, World!"


class Server(ThreadingHTTPServer):
    request_queue_size = 1024


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # buffered, so that head and body leave in one send
    files = Path()

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path == "/":
            self.answer("text/plain", HELLO)
        elif path == "/42":
            self.forty_two()
        elif path == "/delay":
            self.delay(query)
        elif path.startswith("/files/"):
            self.file(path.removeprefix("/files/"))
        else:
            self.send_error(404)

    def answer(self, content_type: str, body: bytes) -> None:
        self.send_response(200)
        self.send_body(content_type, body)

    def send_body(self, content_type: str, body: bytes) -> None:
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def forty_two(self) -> None:
        self.send_response_only(200)
        self.send_header("Server", "bench")
        self.send_header("Connection", "keep-alive")
        self.send_body("text/plain", b"42")

    def delay(self, query: str) -> None:
        ms = re.fullmatch(r"ms=(\d{1,5})", query, re.ASCII)
        if ms is None:
            self.send_error(404)
            return
        time.sleep(int(ms[1]) / 1000)
        self.answer("text/plain", HELLO)

    def file(self, name: str) -> None:
        path = self.files / name
        if not re.fullmatch(r"[\w-][\w.-]*", name, re.ASCII) or not path.is_file():
            self.send_error(404)
            return
        self.answer("application/octet-stream", path.read_bytes())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        pass


def main() -> None:
    where, files = sys.argv[1:]
    Handler.files = Path(files)
    host, _, port = where.rpartition(":")
    Server((host, int(port)), Handler).serve_forever()


main()
