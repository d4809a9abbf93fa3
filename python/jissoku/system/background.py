"""Work that a measurement on the same machine must not feel: idle class, off the server's cores.

The idle class (SCHED_IDLE, sched(7)) runs where nothing else wants to run. It cannot be left again
without a privilege, and is inherited: what starts measurements stays in the normal class.
"""

import os
import re
import socket
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from jissoku.system import processes
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
    """Calls `work` in a thread of the idle class, which threads that it starts inherit."""
    with ThreadPoolExecutor(1, initializer=enter_idle_class) as pool:
        return pool.submit(work).result()


@contextmanager
def on_cores(cores: Collection[int]) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


SOCKETS = Path("/proc/net/unix")
NAME = "jissoku-viewer-"

# The last column of /proc/net/unix; @ stands for the zero byte of an abstract name.
LISTED = re.compile(rf" @{NAME}(\d+)$", re.MULTILINE)


# Processes that show measurements on this machine, so that a measurement can count their CPU time.
# A viewer binds an abstract Unix socket whose name contains its process id (unix(7)): the kernel
# removes it with the process, and every process of the network namespace can list it.


@contextmanager
def registered_viewer() -> Iterator[None]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        with suppress(OSError):  # It is listed already.
            own.bind(f"\0{NAME}{os.getpid()}")
        yield


def viewer_pids(sockets: Path = SOCKETS) -> frozenset[int]:
    try:
        return frozenset(map(int, LISTED.findall(sockets.read_text())))
    except OSError:
        return frozenset()


def cpu_ns(pids: frozenset[int]) -> int:
    return sum(used for _, used in processes.read_living(pids, processes.cpu_ns))
