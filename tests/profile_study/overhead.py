"""What sampling costs a server, and how much memory the sampler takes.

One server is under a constant load while the sampler is paused and resumed every fifth of a second:
what the costs of the two kinds of windows differ by is what sampling adds to the CPU time per
request. A second copy on the same core could not be the control: timers run on cores and interrupt
whatever runs there.

The core is kept from sleeping in all windows. Otherwise the timer does that in those with the
sampler, and a server that often waits then uses up to 8 % less CPU time, even if what is sampled
is another process.
"""

import functools
import math
import re
import shlex
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from jissoku.measure.sampler import Profiler
from jissoku.system.cores import core_assignment
from tests import alternating_windows, core_in_use
from tests.alternating_windows import SHORT, WARMUP_S
from tests.profile_study.checks import Check, Found
from tests.profile_study.injected import server

# Of the CPU time per request.
OVERHEAD_MAX = 0.01
MEMORY_MAX_MIB = 64.0

RUNS = 12
SECONDS = WARMUP_S + SHORT.seconds + 5

# A server whose time is all in user space, and others as they are; requests per second of each.
RATES = {"c": 1_200, "nginx-tuned": 20_000, "jissoku": 20_000, "go": 10_000, "node": 5_000}

PEAK = re.compile(r"VmHWM:\s+(\d+) kB")


def overhead(name: str, seed: int, folder: Path) -> Found:
    """Windows on one start of a server; the part that sampling adds."""
    command = shlex.join([*server("c", folder), "{port}", "500"]) if name == "c" else ""
    arm = alternating_windows.prepared_arm(name, command)
    cores = core_assignment(None, None)
    with (
        core_in_use.idle_loop(cores.server[0]) as loop,
        core_in_use.running(loop),
        alternating_windows.started(arm, seed) as running,
    ):
        root = running.pid
        assert root is not None
        limit_s = WARMUP_S + SHORT.seconds
        with Profiler(root, cores, limit_s=limit_s) as profiler:
            pause_or_resume(profiler)
            added = alternating_windows.log_ratio(
                running, lambda: _resumed(profiler), RATES[name], SHORT
            )
            peak = _peak_mib(profiler)
    return {"added": round(math.expm1(added), 5), "memory_mib": round(peak, 1)}


def pause_or_resume(profiler: Profiler) -> None:
    profiler._process.send_signal(signal.SIGUSR2)


@contextmanager
def _resumed(profiler: Profiler) -> Iterator[None]:
    pause_or_resume(profiler)
    yield
    pause_or_resume(profiler)


def _peak_mib(profiler: Profiler) -> float:
    """Ends the sampler, and returns its memory's peak, which is where it looks names up."""
    peak = 0.0
    status = Path(f"/proc/{profiler._process.pid}/status")
    ending = threading.Thread(target=profiler.samples)
    ending.start()
    while ending.is_alive():
        # An ended process has no memory, or no file.
        with suppress(OSError):
            if found := PEAK.search(status.read_text()):
                peak = max(peak, int(found[1]) / 1024)
        ending.join(0.01)
    return peak


def interval(found: Sequence[Found]) -> tuple[float, float, float]:
    """The mean of what sampling adds, and Student's 95 % interval."""
    return alternating_windows.interval([float(one["added"]) for one in found])


def summary(found: Sequence[Found]) -> str:
    """What sampling adds, with its interval, and the sampler's memory."""
    mean, low, high = (100 * value for value in interval(found))
    memory = max(float(one["memory_mib"]) for one in found)
    return f"{mean:+.2f} % [{low:+.2f}, {high:+.2f}]; {memory:.0f} MiB"


def is_kept(found: Sequence[Found]) -> bool:
    """Whether it is proven to be less than the bound, and memory too."""
    memory = max(float(one["memory_mib"]) for one in found)
    return interval(found)[2] < OVERHEAD_MAX and memory < MEMORY_MAX_MIB


def _check(name: str) -> Check:
    return Check(
        group="overhead",
        name=f"{name} at {RATES[name]:,} requests/s",
        runs=RUNS,
        seconds=SECONDS,
        measure=functools.partial(overhead, name),
        together=is_kept,
        summary=summary,
        bound=f"below {100 * OVERHEAD_MAX:g} %, {MEMORY_MAX_MIB:g} MiB",
    )


CHECKS = tuple(map(_check, RATES))
