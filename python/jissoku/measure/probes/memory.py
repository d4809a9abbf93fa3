"""The memory of an idle connection: the target's memory without connections, and with many."""

from collections.abc import Callable

from jissoku.measure.probes.client import ProbeError, RequestTarget, close_clients, open_clients
from jissoku.model.observed import MemoryObservation
from jissoku.model.wording import plural
from jissoku.system import processes

CONNECTIONS = 400

# With fewer connections the memory of each is too uncertain, because memory is counted in pages.
CONNECTIONS_MIN = 50


def observe_memory(asking: RequestTarget, pids: Callable[[], set[int]]) -> MemoryObservation:
    """Opens many connections, sends one request on each, and leaves them idle.

    Raises:
        ProbeError: Its processes cannot be found, or it holds only a few connections.
    """
    # The first answers of a process allocate pages that are independent of connections.
    close_clients(open_clients(asking, 1))
    before = processes.rss_bytes(pids())
    if not before:
        raise ProbeError(
            "its processes cannot be found", result="run it here, as a recipe or with --cmd"
        )
    clients = open_clients(asking, CONNECTIONS)
    try:
        held = sum(client.socket is not None for client in clients)
        after = processes.rss_bytes(pids())
    finally:
        close_clients(clients)
    if held < CONNECTIONS_MIN:
        raise ProbeError(
            f"it keeps no more than {held} {plural(held, 'connection')}",
            result="see what closes them",
        )
    return MemoryObservation(connections=held, rss_bytes_before=before, rss_bytes_after=after)
