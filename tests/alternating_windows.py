"""What a condition adds to a server's CPU time per request: short windows with and without it.

The windows of one start alternate in an order in which steady drift cancels, so that neither the
difference between two starts nor the machine's slow changes are part of the result.
"""

import functools
import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from scipy import stats as distributions  # type: ignore[import-untyped]

from jissoku.cli.progress_display import ProgressDisplay
from jissoku.model import Workload
from jissoku.observe import loadgen
from jissoku.observe.loadgen import LoadSpec
from jissoku.pipeline.selection import Selection, prepare_targets
from jissoku.pipeline.trial_runner import PreparedArm
from jissoku.system.cores import core_assignment
from jissoku.targets.launch import Launcher
from jissoku.targets.process import RunningTarget

WINDOW_NS = 1_000_000_000
WARMUP_NS = 300_000_000

# Which windows have the condition: drift that is a polynomial of second degree cancels.
ORDER = (True, False, False, True, False, True, True, False) * 2

# Without the condition, before the first window: for caches, and the compilers of runtimes.
WARMUP_WINDOWS = 2


@functools.cache
def prepared_arm(name: str, command: str = "") -> PreparedArm:
    """The target of a recipe's name, or of a command."""
    chosen = (
        Selection(commands=(f"{name}={command}",), floor=False)
        if command
        else Selection(named=(name,), floor=False)
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
    *,
    rate: int,
    seed: int,
) -> float:
    """The mean logarithm of the costs with the condition, less that without it."""
    for _ in range(WARMUP_WINDOWS):
        _cost_ns(running, rate, seed)
    total = 0.0
    for has_condition in ORDER:
        if has_condition:
            with condition():
                total += math.log(_cost_ns(running, rate, seed))
        else:
            total -= math.log(_cost_ns(running, rate, seed))
    return total / ORDER.count(True)


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean, and Student's 95 % interval; infinite for a single value."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, -math.inf, math.inf
    error = statistics.stdev(values) / math.sqrt(len(values))
    half = float(distributions.t.ppf(0.975, len(values) - 1)) * error
    return mean, mean - half, mean + half


def _cost_ns(running: RunningTarget, rate: int, seed: int) -> float:
    """CPU time per request in one window."""
    spec = LoadSpec(
        arms=("server",),
        urls=(running.address.url("/"),),
        roots=(running.pid,),
        body=None,
        status=200,
        workload=Workload(rate_rps=rate),
        warmup_ns=WARMUP_NS,
        window_ns=WINDOW_NS,
        seed=seed,
    )
    measured, _ = loadgen.run_load(spec, core_assignment(None, None), started=lambda _: None)
    assert measured[0].cpu_ns is not None, "its process is known"
    return measured[0].cpu_ns / measured[0].requests
