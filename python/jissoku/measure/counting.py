"""Data for claims besides trials: counts per request, and results of benchmarks.

Each comes from separate starts, never during a timed trial, and nothing is timed while calls are
counted.
"""

import random
from collections.abc import Iterable, Mapping

from jissoku.errors import TargetError
from jissoku.inference.expression import BENCHMARK, Quantity, parse
from jissoku.measure import counters
from jissoku.measure.probes import syscalls
from jissoku.measure.probes.client import ProbeError, RequestTarget
from jissoku.measure.progress import ProgressListener
from jissoku.measure.trial_runner import PreparedArm
from jissoku.model import (
    CoreAssignment,
    CounterReadings,
    Recipe,
    UnavailableTarget,
    Workload,
)
from jissoku.model.experiment import BenchmarkOutput, Claim, Experiment, Microbenchmark
from jissoku.system.cores import pin_process
from jissoku.targets import response
from jissoku.targets.launch import Launcher
from jissoku.targets.placeholders import BuildPaths, fill
from jissoku.targets.prepare import PreparedTarget, prepare
from jissoku.targets.provenance import redact

# The benchmark without a program: the cost of a system call on this machine.
SYSCALL_BENCHMARK = Microbenchmark(name="here", command=(), rounds=9, seconds=0.1)

# Approximate seconds to start a target, to count and to stop it.
COUNT_S = 3.0


def quantities(experiment: Experiment) -> list[Quantity]:
    return [one for claim in experiment.claim for one in named(claim)]


def named(claim: Claim) -> list[Quantity]:
    return [one for text in claim.test for link in parse(text) for one in link.quantities]


def counted_arms(experiment: Experiment) -> dict[str, tuple[str, ...]]:
    """The arms whose system calls have to be counted, by workload."""
    found: dict[str, dict[str, None]] = {}
    for one in quantities(experiment):
        if one.is_count and one.metric != "errors":
            name = one.workload or experiment.workload[0].name
            found.setdefault(name, {})[one.arm] = None
    return {name: tuple(arms) for name, arms in found.items()}


def benchmarks(experiment: Experiment) -> tuple[Microbenchmark, ...]:
    """The benchmarks in claims; others need not be run."""
    wanted = {one.arm for one in quantities(experiment) if one.metric.startswith(f"{BENCHMARK}.")}
    return tuple(one for one in (*experiment.benchmark, SYSCALL_BENCHMARK) if one.name in wanted)


def seconds(experiment: Experiment) -> float:
    """Approximate duration of all counts and benchmarks, in seconds."""
    counting = sum(len(arms) for arms in counted_arms(experiment).values()) * COUNT_S
    return counting + sum(one.rounds * one.seconds for one in benchmarks(experiment))


def count_arm(
    prepared: PreparedTarget, workload: Workload, cores: CoreAssignment, seed: str
) -> CounterReadings:
    """Counts a target's system calls, connections and segments per request, on a separate start.

    Requests are sent one at a time, so that a wait which returns many events under load returns one
    here: the counts are upper bounds.

    Raises:
        TargetError: It does not start, does not answer, or its answer differs.
    """
    if workload.websocket:
        reason = "messages of a WebSocket are not counted one by one"
        return CounterReadings(requests=0, syscalls_reason=reason)
    if workload.pipeline > 1:
        reason = "requests in a pipeline cannot be counted one by one"
        return CounterReadings(requests=0, syscalls_reason=reason)
    launcher = Launcher(cores=cores.server, rng=random.Random(seed))
    try:
        with launcher.verified(prepared, workload) as running:
            assert running.pid is not None, "what is counted is started by us"
            target = RequestTarget(
                connect=running.address.connect,
                request=response.request(running.address, workload),
                method=workload.method,
            )
            return counters.count_requests(running.pid, target)
    except ProbeError as error:
        raise TargetError(str(error)) from error


def count_arms(
    arms: Iterable[PreparedArm], workload: Workload, cores: CoreAssignment, seed: str
) -> dict[str, CounterReadings]:
    """Counts for several arms; one that does not answer has the reason instead of counts."""
    found = {}
    for arm in arms:
        name = arm.arm.name
        try:
            found[name] = count_arm(arm.prepared, workload, cores, f"{seed}/{name}")
        except TargetError as error:
            found[name] = CounterReadings(requests=0, syscalls_reason=redact(str(error)))
    return found


def run_benchmarks(
    experiment: Experiment,
    recipes: Mapping[str, Recipe],
    place: BuildPaths,
    cores: CoreAssignment,
    listener: ProgressListener,
) -> dict[str, BenchmarkOutput]:
    """Runs every benchmark in the claims, round by round on the server's cores."""
    found = {}
    for benchmark in benchmarks(experiment):
        listener.note(f"Bench {benchmark.name}: {benchmark.rounds} rounds.")
        try:
            command = _command(benchmark, recipes, place)
            with pin_process(cores.server):
                rounds = tuple(_round(benchmark, command) for _ in range(benchmark.rounds))
            found[benchmark.name] = BenchmarkOutput(rounds=rounds)
        except TargetError as error:
            found[benchmark.name] = BenchmarkOutput(reason=redact(str(error)))
    return found


def _round(benchmark: Microbenchmark, command: tuple[str, ...]) -> dict[str, float]:
    return (
        {"syscall_ns": syscalls.empty_syscall_ns()}
        if benchmark is SYSCALL_BENCHMARK
        else counters.run_round(benchmark.name, command)
    )


def _command(
    benchmark: Microbenchmark, recipes: Mapping[str, Recipe], place: BuildPaths
) -> tuple[str, ...]:
    if not benchmark.recipe:
        return fill(benchmark.command, place.values(benchmark.name))
    made = prepare(recipes[benchmark.recipe], place)
    if isinstance(made, UnavailableTarget):
        raise TargetError(made.sentence)
    return fill(benchmark.command, made.values)
