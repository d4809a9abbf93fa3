"""Assigns the responses in an oracle's log to the two generators that shared the oracle."""

from dataclasses import dataclass

import numpy as np

from jissoku.stats.oracle_stats import Entries


@dataclass(frozen=True, slots=True)
class Window:
    """When it began and ended, and when the second generator was started; CLOCK_MONOTONIC."""

    second_ns: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Share:
    """What the oracle knows of one generator.

    Attributes:
        answers: That were sent within the window.
        connections: On which they were sent.
        outlasted: Whether it was answered after the window, too.
    """

    answers: int
    connections: int
    outlasted: bool


def share(entries: Entries, window: Window) -> tuple[Share, Share]:
    """Divides what the oracle saw between the first generator and the second one.

    A connection that asked before the second was started is the first one's: each opens all of its
    connections at once and keeps them, and the number of connections shows whether it did.
    """
    # Entries stand in the order of arrival, so the first of a connection is its earliest.
    numbers, index = np.unique(entries["connection"], return_index=True)
    is_second = entries["arrival"][index] >= window.second_ns
    mine = np.isin(entries["connection"], numbers[is_second])
    return _of(entries[~mine], window), _of(entries[mine], window)


def _of(entries: Entries, window: Window) -> Share:
    # What was never written has a zero here.
    written = entries["written"]
    inside = (written > window.start_ns) & (written <= window.end_ns)
    return Share(
        answers=int(inside.sum()),
        connections=len(np.unique(entries["connection"][inside])),
        outlasted=bool((written > window.end_ns).any()),
    )
