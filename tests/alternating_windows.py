"""What a condition adds to a server's CPU time per request: short windows with and without it.

The load is one and constant, and the condition is switched on and off under it, in an order in
which steady drift cancels. So neither the difference between two starts, nor pauses of the load,
nor the machine's slow changes are part of the result.
"""

import functools
import math
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from scipy import stats as distributions  # type: ignore[import-untyped]

from jissoku.cli.progress import ProgressDisplay
from jissoku.measure.selection import prepare_targets
from jissoku.measure.trial import PreparedArm
from jissoku.model import Workload
from jissoku.request import ComparisonRequest
from jissoku.system import processes
from jissoku.system.cores import core_assignment
from jissoku.targets.launch import Launcher
from jissoku.targets.process import RunningTarget

# Before the first window, for caches and compilers.
WARMUP_S = 3.0

# Which windows have the condition: drift that is a polynomial of second degree cancels.
ORDER = (True, False, False, True, False, True, True, False)

# Of the load beyond the planned time: conditions take a while to be switched.
SPARE_S = 60.0


@dataclass(frozen=True, slots=True)
class Windows:
    """How a condition alternates.

    Attributes:
        length_s: Of a window.
        settling_s: After switching, before the window.
        rounds: How often ORDER is repeated.
    """

    length_s: float
    settling_s: float
    rounds: int

    @property
    def order(self) -> tuple[bool, ...]:
        """Which windows have the condition."""
        return ORDER * self.rounds

    @property
    def seconds(self) -> float:
        """All of them together."""
        return len(self.order) * (self.length_s + self.settling_s)


# Conditions that take a while to be switched, and those that a signal switches: the shorter the
# windows are, the more of the machine's drift is in both kinds.
LONG = Windows(length_s=1.0, settling_s=0.3, rounds=2)
SHORT = Windows(length_s=0.2, settling_s=0.02, rounds=18)


@functools.cache
def prepared_arm(name: str, command: str = "") -> PreparedArm:
    """The target of a recipe's name, or of a command."""
    chosen = (
        ComparisonRequest(cmd=(f"{name}={command}",))
        if command
        else ComparisonRequest(arms=(name,))
    )
    return prepare_targets(chosen, ProgressDisplay(quiet=True)).arms[0]


@contextmanager
def started(arm: PreparedArm, seed: int) -> Iterator[RunningTarget]:
    """A start of the target on the server's cores."""
    launcher = Launcher(cores=core_assignment(None, None).server, rng=random.Random(seed))
    with launcher.ready(arm.prepared, Workload()) as running:
        yield running


def log_ratio(
    running: RunningTarget,
    condition: Callable[[], AbstractContextManager[object]],
    rate: int,
    windows: Windows = LONG,
) -> float:
    """The mean logarithm of the CPU time in windows with the condition, less that without it."""
    total = 0.0
    with _loading(running, rate, windows.seconds):
        time.sleep(WARMUP_S)
        for has_condition in windows.order:
            if has_condition:
                with condition():
                    total += math.log(_busy(running, windows))
            else:
                total -= math.log(_busy(running, windows))
    return total / windows.order.count(True)


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean, and Student's 95 % interval; infinite for a single value."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, -math.inf, math.inf
    error = statistics.stdev(values) / math.sqrt(len(values))
    half = float(distributions.t.ppf(0.975, len(values) - 1)) * error
    return mean, mean - half, mean + half


@contextmanager
def _loading(running: RunningTarget, rate: int, seconds: float) -> Iterator[None]:
    """A constant rate on the load generator's core, until it is no longer needed."""
    core = core_assignment(None, None).generator[0]
    limit_s = WARMUP_S + seconds + SPARE_S
    words = [
        *(sys.executable, "-m", "jissoku", "load", "-R", str(rate), "-t", "1", "--warmup", "0s"),
        *("--cores", str(core), "-d", f"{limit_s:.0f}s", "--json", running.address.url("/")),
    ]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        yield
        assert process.poll() is None, "the load ended before the last window"
    finally:
        process.kill()
        process.wait()


def _busy(running: RunningTarget, windows: Windows) -> float:
    """CPU time of the target in a window as a fraction of the time; the rate is constant."""
    time.sleep(windows.settling_s)
    pids = processes.process_tree(running.pid)
    start_ns, used_ns = time.monotonic_ns(), sum(map(processes.cpu_ns, pids))
    time.sleep(windows.length_s)
    # Reading takes microseconds, so it belongs to the window at both ends alike.
    end_ns, spent_ns = time.monotonic_ns(), sum(map(processes.cpu_ns, pids))
    return (spent_ns - used_ns) / (end_ns - start_ns)
