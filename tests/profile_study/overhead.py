"""What sampling costs a server, and how much memory the sampler takes.

Two copies of a server are under load in turns, a time slice each. In the windows of one start the
first copy is sampled, then the second, the second, the first: what the copies differ by and what
drifts cancels, and half of what remains is what sampling adds to the CPU time per request.
"""

import functools
import math
import random
import re
import shlex
import statistics
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from scipy import stats as distributions  # type: ignore[import-untyped]

from jissoku.cli.progress_display import ProgressDisplay
from jissoku.model import Workload
from jissoku.observe import loadgen
from jissoku.observe.loadgen import LoadSpec
from jissoku.observe.profiler import Profiler
from jissoku.pipeline.selection import Selection, prepare_targets
from jissoku.pipeline.trial_runner import PreparedArm
from jissoku.system.cores import core_assignment
from jissoku.targets.launch import Launcher
from jissoku.targets.process import RunningTarget
from tests.profile_study.checks import Check, Found
from tests.profile_study.injected import server

# Of the CPU time per request.
OVERHEAD_MAX = 0.01
MEMORY_MAX_MIB = 64.0

WINDOW_NS = 3_000_000_000
WARMUP_NS = 300_000_000
SLICE_NS = 100_000_000

# The first copy is sampled in the first and the last window.
ORDER = (0, 1, 1, 0)

RUNS = 12
SECONDS = 22.0

# A server whose time is all in user space, and others as they are; requests per second of each.
RATES = {"c": 1_200, "nginx-tuned": 20_000, "jissoku": 20_000, "go": 10_000, "node": 5_000}

PEAK = re.compile(r"VmHWM:\s+(\d+) kB")


@functools.cache
def _arms(name: str, folder: Path) -> tuple[PreparedArm, ...]:
    if name == "c":
        command = shlex.join([*server(name, folder), "{port}", "500"])
        chosen = Selection(commands=(f"a={command}", f"b={command}"), floor=False)
    else:
        chosen = Selection(named=(f"a={name}", f"b={name}"), floor=False)
    return prepare_targets(chosen, ProgressDisplay(quiet=True)).arms


@contextmanager
def _running(arms: Sequence[PreparedArm], seed: int) -> Iterator[list[RunningTarget]]:
    cores = core_assignment(None, None)
    launcher = Launcher(cores=cores.server, rng=random.Random(seed))
    workload = Workload()
    first, second = (arm.prepared for arm in arms)
    with launcher.ready(first, workload) as one, launcher.ready(second, workload) as other:
        yield [one, other]


def overhead(name: str, seed: int, folder: Path) -> Found:
    """Four windows on one start of two copies; the part that sampling adds."""
    arms = _arms(name, folder)
    memory = 0.0
    ratios = []
    with _running(arms, seed) as running:
        # Caches, and compilers of runtimes.
        _cost_ratio(running, RATES[name], seed)
        for sampled in ORDER:
            root = running[sampled].pid
            assert root is not None
            limit_s = (WARMUP_NS + WINDOW_NS) / 1e9
            with Profiler(root, core_assignment(None, None), limit_s=limit_s) as profiler:
                ratio = _cost_ratio(running, RATES[name], seed)
                memory = max(memory, _peak_mib(profiler))
            ratios.append(math.log(ratio))
    signs = [1 if sampled == 0 else -1 for sampled in ORDER]
    added = sum(sign * ratio for sign, ratio in zip(signs, ratios, strict=True)) / len(ORDER)
    return {"added": round(math.expm1(added), 5), "memory_mib": round(memory, 1)}


def _cost_ratio(running: Sequence[RunningTarget], rate: int, seed: int) -> float:
    """CPU time per request of the first copy over that of the second."""
    spec = LoadSpec(
        arms=("a", "b"),
        urls=tuple(one.address.url("/") for one in running),
        roots=tuple(one.pid for one in running),
        body=None,
        status=200,
        workload=Workload(rate_rps=rate),
        warmup_ns=WARMUP_NS,
        window_ns=WINDOW_NS,
        seed=seed,
        slice_ns=SLICE_NS,
    )
    measured, _ = loadgen.run_load(spec, core_assignment(None, None), started=lambda _: None)
    first, second = (sum(one.slice_cpu_ns) / one.requests for one in measured)
    return first / second


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
    values = [float(one["added"]) for one in found]
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, -math.inf, math.inf
    error = statistics.stdev(values) / math.sqrt(len(values))
    half = float(distributions.t.ppf(0.975, len(values) - 1)) * error
    return mean, mean - half, mean + half


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
