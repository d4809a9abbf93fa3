"""The cost of a system call here: a program that does nothing else, minus the cost of its loop.

It includes what the interpreter takes to get there, so it is no less than the call itself.
"""

import os
import socket
import sys
from collections.abc import Callable
from time import monotonic_ns

ROUNDS = 9
CALLS = 2_000

# Each leaves a port waiting behind it.
CONNECTIONS = 50


def syscall_costs() -> dict[str, float]:
    """Nanoseconds for a call of each name."""
    left, right = socket.socketpair()
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    taken, _ = listener.accept()
    nothing = os.open(os.devnull, os.O_WRONLY)
    taken.settimeout(0)
    try:
        deeds: dict[str, Callable[[], object]] = {
            "getpid": os.getppid,
            "getpeername": taken.getpeername,
            "getsockname": taken.getsockname,
            "fstat": lambda: os.fstat(nothing),
            "openat": lambda: os.close(os.open(sys.executable, os.O_RDONLY)),
            "newfstatat": lambda: os.stat(sys.executable),  # noqa: PTH116 - its cost is asked for
            "setsockopt": lambda: taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            "getsockopt": lambda: taken.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR),
            "write": lambda: os.write(nothing, b"x"),
        }
        empty = _cost(lambda: None)
        prices = {name: max(0.0, _cost(deed) - empty) for name, deed in deeds.items()}
        return prices | {"connection": _cost(lambda: _connect(listener), CONNECTIONS)}
    finally:
        os.close(nothing)
        for each in (left, right, client, taken, listener):
            each.close()


def _connect(listener: socket.socket) -> None:
    """A connection from its first segment to its last, both ends of it."""
    client = socket.socket()
    client.connect(listener.getsockname())
    taken, _ = listener.accept()
    # The taken end closes last, so that it is not the listener's address that has to wait.
    client.close()
    taken.close()


def _cost(deed: Callable[[], object], count: int = CALLS) -> float:
    """The cheapest round: whatever else runs on the machine only adds."""
    costs = []
    for _ in range(ROUNDS):
        started = monotonic_ns()
        for _ in range(count):
            deed()
        costs.append((monotonic_ns() - started) / count)
    return min(costs)
