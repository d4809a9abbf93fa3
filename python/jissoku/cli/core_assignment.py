"""Which cores are the server's and which the load generator's, from the command line."""

from jissoku.errors import InputError
from jissoku.model import CoreAssignment
from jissoku.observe import cores


def core_assignment(server_list: str | None, stopwatch_list: str | None) -> CoreAssignment:
    """Reads both lists; a side that is not given gets what the other leaves.

    Raises:
        InputError: A list is none, or leaves nothing for the other side.
    """
    if server_list is None and stopwatch_list is None:
        return cores.partition_cores(cores.available_cores())
    server = cores.parse(server_list) if server_list else None
    generator = cores.parse(stopwatch_list) if stopwatch_list else None
    rest = set(cores.available_cores()) - set(server or ()) - set(generator or ())
    server = server or tuple(sorted(rest))
    generator = generator or tuple(sorted(rest))
    if not server or not generator:
        raise InputError(
            "no core is left for the other role: give both --server-cores and --generator-cores"
        )
    return CoreAssignment(
        server=server, generator=generator, shared=bool(set(server) & set(generator))
    )
