"""What system calls cost on this machine, by loops of them."""

import os
import socket
import sys
from collections.abc import Callable
from time import monotonic_ns

# Rounds of which the cheapest counts, and calls in each.
PRICING_ROUNDS = 9
CALLS = 2_000

# Of the empty call, whose cost is the smallest, so that the clock's resolution does not matter.
EMPTY_CALLS = 50_000

# Fewer connections, because each leaves a port in TIME_WAIT.
PRICED_CONNECTIONS = 50


def empty_syscall_ns() -> float:
    """The cost of a system call that does nothing: entering the kernel and returning, in ns.

    Both functions are built into the interpreter, take nothing and return a number, so their
    difference is the call alone.
    """
    return max(1.0, _cost(os.getppid, EMPTY_CALLS) - _cost(sys.getrecursionlimit, EMPTY_CALLS))


def syscall_costs() -> dict[str, float]:
    """Nanoseconds per frequent system call by its name, and per connection (`connection`).

    A loop of calls minus the loop without them: an upper bound, with the interpreter's overhead.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    accepted, _ = listener.accept()
    null = os.open(os.devnull, os.O_WRONLY)
    accepted.settimeout(0)
    try:
        functions: dict[str, Callable[[], object]] = {
            "getpid": os.getppid,
            "getpeername": accepted.getpeername,
            "getsockname": accepted.getsockname,
            "fstat": lambda: os.fstat(null),
            "openat": lambda: os.close(os.open(sys.executable, os.O_RDONLY)),
            "newfstatat": lambda: os.stat(sys.executable),  # noqa: PTH116 - the call itself is measured
            "setsockopt": lambda: accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            "getsockopt": lambda: accepted.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR),
            "write": lambda: os.write(null, b"x"),
        }
        empty = _cost(lambda: None)
        costs = {name: max(0.0, _cost(call) - empty) for name, call in functions.items()}
        return costs | {"connection": _cost(lambda: _connect(listener), PRICED_CONNECTIONS)}
    finally:
        os.close(null)
        for each in (client, accepted, listener):
            each.close()


def _connect(listener: socket.socket) -> None:
    client = socket.socket()
    client.connect(listener.getsockname())
    accepted, _ = listener.accept()
    # The client closes first, so that TIME_WAIT holds its port and not the listener's.
    client.close()
    accepted.close()


def _cost(function: Callable[[], object], count: int = CALLS) -> float:
    """Nanoseconds per call in the cheapest round: other load on the machine only adds to it."""
    costs = []
    for _ in range(PRICING_ROUNDS):
        started = monotonic_ns()
        for _ in range(count):
            function()
        costs.append((monotonic_ns() - started) / count)
    return min(costs)
