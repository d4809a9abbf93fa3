"""Servers with one known limit each: `python odd_servers.py KIND PORT`.

All of them answer `Hello, World!`, keep connections open and have a thread for each, unless their
kind says otherwise.
"""

import os
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from typing import Any

BODY = b"Hello, World!"

# The server of kind `dies` ends with this code, after this many requests.
DEATH, REQUESTS = 3, 700


class Plain(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.wait()
        self.wfile.write(self.head() + BODY)
        self.close_connection = self.protocol_version == "HTTP/1.0"

    def wait(self) -> None:
        pass

    def head(self) -> bytes:
        size = f"Content-Length: {len(BODY)}"
        return (
            f"{self.protocol_version} 200 OK\r\nContent-Type: text/plain\r\n{size}\r\n\r\n".encode()
        )

    def log_message(self, *_: Any) -> None:
        pass


class Delayed(Plain):
    """Head and body are two sends: Nagle's algorithm holds the second one back."""

    def do_GET(self) -> None:
        self.wfile.write(self.head())
        self.wfile.write(BODY)


class Closing(Plain):
    protocol_version = "HTTP/1.0"


class Sleeping(Plain):
    def wait(self) -> None:
        time.sleep(0.05)


class SleepingClosing(Sleeping, Closing):
    pass


class Dying(Plain):
    asked = 0

    def wait(self) -> None:
        Dying.asked += 1
        if Dying.asked > REQUESTS:
            sys.stderr.write("fatal: out of widgets\n")
            os._exit(DEATH)


class Many(ThreadingHTTPServer):
    request_queue_size = 256


class One(HTTPServer):
    request_queue_size = 256


class ShortQueue(HTTPServer):
    request_queue_size = 5


KINDS = {
    "plain": (Many, Plain),
    "sleeping": (Many, Sleeping),
    "short-queue": (ShortQueue, Closing),
    "delayed": (Many, Delayed),
    "closing": (Many, Closing),
    "single": (One, SleepingClosing),
    "one-connection": (One, Plain),
    "dying": (Many, Dying),
}

if __name__ == "__main__":
    server, handler = KINDS[sys.argv[1]]
    server(("127.0.0.1", int(sys.argv[2])), handler).serve_forever()
