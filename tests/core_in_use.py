"""Keeps a core from sleeping, with a loop of the scheduling class SCHED_IDLE.

It runs only while nothing else wants to. On a virtual machine a core that sleeps leaves the guest,
and what runs next pays for it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

LOOP = "import os\nos.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"

# For the interpreter of the loop to start.
STARTING_S = 0.2


@contextmanager
def idle_loop(core: int) -> Iterator[subprocess.Popen[bytes]]:
    """A loop on the core, stopped at first."""
    process = subprocess.Popen([sys.executable, "-c", LOOP])
    try:
        os.sched_setaffinity(process.pid, {core})
        time.sleep(STARTING_S)
        process.send_signal(signal.SIGSTOP)
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def running(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Lets the loop run, and stops it again."""
    process.send_signal(signal.SIGCONT)
    try:
        yield
    finally:
        process.send_signal(signal.SIGSTOP)
