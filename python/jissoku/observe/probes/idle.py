"""What a connection costs that says nothing: the target's memory with none, and with many."""

from collections.abc import Callable

from jissoku.model.observed import Memory
from jissoku.observe import memory
from jissoku.observe.probes.client import Asking, ProbeError, crowd, disperse

CONNECTIONS = 400

# With fewer than this, what pages hold would be guesswork.
CONNECTIONS_MIN = 50


def look(asking: Asking, pids: Callable[[], set[int]]) -> Memory:
    """Opens many connections, asks once on each, and leaves them alone.

    Raises:
        ProbeError: Its processes cannot be found, or it holds only a few connections.
    """
    # The first answers of a process bring pages that have nothing to do with connections.
    disperse(crowd(asking, 1))
    before = memory.rss_bytes(pids())
    if not before:
        raise ProbeError(
            "its processes cannot be found", remedy="run it here, as a recipe or with --cmd"
        )
    clients = crowd(asking, CONNECTIONS)
    try:
        held = sum(client.socket is not None for client in clients)
        after = memory.rss_bytes(pids())
    finally:
        disperse(clients)
    if held < CONNECTIONS_MIN:
        raise ProbeError(f"it keeps no more than {held} connections", remedy="see what closes them")
    return Memory(connections=held, rss_bytes_before=before, rss_bytes_after=after)
