"""Operations of scripts on a socket: sending in parts, and resetting."""

import itertools
import select
import socket as sockets
import struct
from contextlib import suppress

from jissoku.conformance.split_points import SplitMode, split_points

# Between two parts, so that they arrive as two.
GAP_S = 0.002

# Longer texts are bodies; dividing them shows nothing and takes long.
SPLIT_BYTES_MAX = 8192


def send_in_parts(connection: sockets.socket, data: bytes, splitting: SplitMode) -> None:
    """Sends bytes whole, in two parts, or byte by byte.

    A connection that the peer has closed is noticed at the next read.
    """
    cuts: tuple[int, ...] = ()
    if len(data) <= SPLIT_BYTES_MAX and splitting is not SplitMode.WHOLE:
        # The split within the first line end (CR, LF) is the one that parsers most often mishandle.
        ways = list(split_points(len(data), splitting, data.find(b"\r")))
        cuts = ways[-1] if splitting is SplitMode.BYTES else _first_line_end(data)
    for start, end in itertools.pairwise((0, *cuts, len(data))):
        if start:
            select.select([], [], [], GAP_S if splitting is SplitMode.SPLITS else 0)
        with suppress(OSError):
            connection.sendall(data[start:end])


def reset(connection: sockets.socket) -> None:
    """Closes a connection with RST; a Unix socket has none unless something was not read."""
    connection.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _first_line_end(data: bytes) -> tuple[int, ...]:
    place = data.find(b"\r") + 1
    return (place,) if 0 < place < len(data) else ()
