"""The listen queue of a port, as the kernel counts it."""

import socket
from contextlib import ExitStack

from jissoku.system.listen_queue import ListenQueue, listen_queues


def test_connections_that_do_not_fit_are_counted() -> None:
    with ExitStack() as stack:
        listening = stack.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(2)
        port = listening.getsockname()[1]
        assert listen_queues()[port] == ListenQueue(limit=2, drops=0)
        for _ in range(6):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)  # noqa: FBT003 - its own name
            one.connect_ex(("127.0.0.1", port))
        found = listen_queues().get(port)
        assert found is not None
        assert found.drops >= 3, "a queue of two holds three"


def test_a_port_without_a_listener_has_none() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert unused.getsockname()[1] not in listen_queues()
