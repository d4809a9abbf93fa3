"""A server that burns a known share of each request's CPU time in injected_burn.

    server.py PORT BURN_PERMILLE [ORDINARY_PERMILLE FILE]

As server.c, with a thread for each connection.
"""

import socketserver
import sys
import threading
import time
from pathlib import Path

PORT, BURN = int(sys.argv[1]), int(sys.argv[2])
ORDINARY = int(sys.argv[3]) if len(sys.argv) > 3 else 1000 - BURN
TRUTH_FILE = Path(sys.argv[4]) if len(sys.argv) > 4 else None
UNITS = 20_000
LOGGED = 32
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"


def injected_burn(rounds: int) -> int:
    x = 1
    for _ in range(rounds):
        x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
    return x


def ordinary_work(rounds: int) -> int:
    x = 2
    for _ in range(rounds):
        x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
    return x


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
    injected_burn(UNITS * BURN // 1000)
    burnt_ns = time.thread_time_ns() - start_ns
    ordinary_work(UNITS * ORDINARY // 1000)
    Truth.add(burnt_ns)


class Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while self.request.recv(4096):
            work()
            self.request.sendall(ANSWER)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    Server(("127.0.0.1", PORT), Handler).serve_forever()
