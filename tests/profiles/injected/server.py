"""A server that burns a known share of each request's CPU time in injected_burn."""

import socketserver
import sys

PORT, BURNT = int(sys.argv[1]), int(sys.argv[2])
UNITS = 20_000
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


class Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while self.request.recv(4096):
            injected_burn(UNITS * BURNT // 1000)
            ordinary_work(UNITS * (1000 - BURNT) // 1000)
            self.request.sendall(ANSWER)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    Server(("127.0.0.1", PORT), Handler).serve_forever()
