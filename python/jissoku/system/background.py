"""Work that a measurement on the same machine must not feel: idle class, off the server's cores.

The idle class (SCHED_IDLE, sched(7)) runs where nothing else wants to run. It cannot be left again
without a privilege, and is inherited: what starts measurements stays in the normal class.
"""

import os
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

from jissoku.system.cores import available_cores, partition_cores

Found = TypeVar("Found")


def background_cores() -> frozenset[int]:
    """The cores of the load generator, as a measurement without options assigns them.

    It waits for the network there. On a server's core even an idle thread would change how often
    the core sleeps, and with it the cost of a request.
    """
    return frozenset(partition_cores(available_cores()).generator)


def enter_idle_class() -> None:
    """Puts this thread into the idle class for ever, and what it starts; nothing if refused."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def call_in_idle_class(work: Callable[[], Found]) -> Found:
    """Calls `work` in a thread of the idle class, and waits; threads that it starts inherit that.

    Raises:
        BaseException: What `work` raises.
    """
    with ThreadPoolExecutor(1, initializer=enter_idle_class) as pool:
        return pool.submit(work).result()


@contextmanager
def on_cores(cores: Collection[int]) -> Iterator[None]:
    """Lets this thread, and what it starts meanwhile, run on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
