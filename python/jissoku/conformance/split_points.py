"""Where the bytes of a case are split for sending; a split must not change the result."""

from collections.abc import Iterator
from enum import StrEnum

# Pieces of a case that is sent byte by byte, at most: a long one is sent in larger steps.
PIECES_MAX = 400


class SplitMode(StrEnum):
    """How a case is sent."""

    WHOLE = "whole"
    SPLITS = "splits"
    BYTES = "bytes"


def split_points(size: int, sending: SplitMode, line_end: int = -1) -> Iterator[tuple[int, ...]]:
    """Yields the places to cut at, once for each time that a case is to be sent.

    `line_end` is the offset of the first CR: a split between it and its LF is the one that parsers
    most often mishandle.
    """
    yield ()
    if sending is SplitMode.SPLITS:
        places = {1, size // 4, line_end + 1, size // 2, size * 3 // 4, size - 2, size - 1}
        yield from ((place,) for place in sorted(places) if 0 < place < size)
    elif sending is SplitMode.BYTES:
        stride = size // PIECES_MAX + 1
        yield tuple(range(stride, size, stride))
