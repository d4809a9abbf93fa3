"""Starts a service as systemd does: sockets from descriptor 3 on, and their names."""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence

from tests.serving.server_process import Served

BECOME = """
import os, sys
count, names, sockets, *command = sys.argv[1:]
# Above all targets first: a socket may have the number that another one gets.
copies = [os.dup(int(number)) for number in sockets.split(",")]
moved = [os.dup2(copy, 100 + index) for index, copy in enumerate(copies)]
for index, number in enumerate(moved):
    os.dup2(number, 3 + index)
os.closerange(3 + len(moved), 200)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=count, LISTEN_FDNAMES=names)
os.execvp(command[0], command)
"""


@contextlib.contextmanager
def activated(listeners: Mapping[str, socket.socket], command: Sequence[str]) -> Iterator[Served]:
    """The service, which serves these named sockets; it is ended, and they stay open."""
    numbers = [str(listener.fileno()) for listener in listeners.values()]
    words = [str(len(numbers)), ":".join(listeners), ",".join(numbers), *command]
    process = subprocess.Popen(
        [sys.executable, "-c", BECOME, *words],
        pass_fds=[listener.fileno() for listener in listeners.values()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    served = Served(process)
    try:
        yield served
    finally:
        served.end()
