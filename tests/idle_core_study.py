"""What a core that is kept in use changes in a server's CPU time per request.

python -m tests.idle_core_study [--rate R] [--starts N] [TARGET...]

In some windows a loop of the scheduling class SCHED_IDLE keeps the server's core from sleeping; it
runs only while nothing else wants to. Prints, for each target, the quotient of the costs with and
without it, with its 95 % interval over starts.
"""

import argparse
import functools
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from jissoku.system.cores import core_assignment
from tests import alternating_windows

TARGETS = ("nginx-tuned", "jissoku", "go", "node", "uvicorn", "tornado", "granian")
LOOP = "import os\nos.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"

# For the loop to start; also what follows a stopped one is given this time.
SETTLING_S = 0.1


@contextmanager
def core_in_use(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Lets the loop run, and stops it again."""
    process.send_signal(signal.SIGCONT)
    time.sleep(SETTLING_S)
    try:
        yield
    finally:
        process.send_signal(signal.SIGSTOP)
        time.sleep(SETTLING_S)


@contextmanager
def idle_loop() -> Iterator[subprocess.Popen[bytes]]:
    """A loop on the server's core, stopped."""
    process = subprocess.Popen([sys.executable, "-c", LOOP])
    try:
        os.sched_setaffinity(process.pid, set(core_assignment(None, None).server))
        time.sleep(2 * SETTLING_S)
        process.send_signal(signal.SIGSTOP)
        yield process
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Measures one target after the other."""
    words = argparse.ArgumentParser(prog="python -m tests.idle_core_study")
    words.add_argument("targets", nargs="*", metavar="TARGET", default=list(TARGETS))
    words.add_argument("--rate", type=int, default=5_000, help="requests per second")
    words.add_argument("--starts", type=int, default=6)
    asked = words.parse_args()
    for name in asked.targets:
        arm = alternating_windows.prepared_arm(name)
        ratios = []
        for seed in range(asked.starts):
            with idle_loop() as process, alternating_windows.started(arm, seed) as running:
                condition = functools.partial(core_in_use, process)
                ratios.append(
                    alternating_windows.log_ratio(running, condition, rate=asked.rate, seed=seed)
                )
        mean, low, high = map(math.exp, alternating_windows.interval(ratios))
        line = f"{name} at {asked.rate:,} requests/s: {mean:.3f} [{low:.3f}, {high:.3f}]"
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
