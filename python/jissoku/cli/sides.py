"""Which cores are the server's and which the stopwatch's, from what somebody typed."""

from jissoku.errors import InputError
from jissoku.model import Cores
from jissoku.observe import cores


def sides(server_list: str | None, stopwatch_list: str | None) -> Cores:
    """Reads both lists; a side that is not given gets what the other leaves.

    Raises:
        InputError: A list is none, or leaves nothing for the other side.
    """
    if server_list is None and stopwatch_list is None:
        return cores.split(cores.allowed())
    server = cores.parse(server_list) if server_list else None
    stopwatch = cores.parse(stopwatch_list) if stopwatch_list else None
    rest = set(cores.allowed()) - set(server or ()) - set(stopwatch or ())
    server = server or tuple(sorted(rest))
    stopwatch = stopwatch or tuple(sorted(rest))
    if not server or not stopwatch:
        raise InputError(
            "no core is left for the other side: give both --server-cores and --stopwatch-cores"
        )
    return Cores(server=server, stopwatch=stopwatch, shared=bool(set(server) & set(stopwatch)))
