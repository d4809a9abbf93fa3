"""Processes that show measurements on this machine, so that a measurement can count their CPU time.

A viewer binds an abstract Unix socket whose name contains its process id (unix(7)): the kernel
removes it with the process, and every process of the network namespace can list it.
"""

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jissoku.system import processes

SOCKETS = Path("/proc/net/unix")
NAME = "jissoku-viewer-"

# The last column of /proc/net/unix; @ stands for the zero byte of an abstract name.
LISTED = re.compile(rf" @{NAME}(\d+)$", re.MULTILINE)


@contextmanager
def registered_viewer() -> Iterator[None]:
    """Lists this process as a viewer during the block."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        with suppress(OSError):  # It is listed already.
            own.bind(f"\0{NAME}{os.getpid()}")
        yield


def viewer_pids(sockets: Path = SOCKETS) -> frozenset[int]:
    """Every viewer of this network namespace."""
    try:
        return frozenset(map(int, LISTED.findall(sockets.read_text())))
    except OSError:
        return frozenset()


def cpu_ns(pids: frozenset[int]) -> int:
    """CPU time of viewers so far, in nanoseconds; without those that have ended."""
    used = 0
    for pid in pids:
        with suppress(OSError):
            used += processes.cpu_ns(pid)
    return used
