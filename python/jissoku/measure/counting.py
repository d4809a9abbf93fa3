"""Data for claims besides trials: counts per request, and results of benchmarks.

Each comes from separate starts, never during a timed trial, and nothing is timed while calls are
counted.
"""

import http.client
import random
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext

from jissoku.errors import TargetError
from jissoku.inference.expression import BENCHMARK, Quantity, parse
from jissoku.measure.client import Client, ProbeError, RequestTarget
from jissoku.measure.progress import ProgressListener
from jissoku.measure.syscall_costs import empty_syscall_ns
from jissoku.measure.trial import PreparedArm
from jissoku.model import CoreAssignment, CounterReadings, Recipe, UnavailableTarget, Workload
from jissoku.model.experiment import BenchmarkOutput, Claim, Experiment, Microbenchmark
from jissoku.system import strace
from jissoku.system.cores import pin_process
from jissoku.system.processes import process_tree
from jissoku.system.redaction import redact
from jissoku.system.strace import StraceError, counts_by_name
from jissoku.targets.launch import Launcher
from jissoku.targets.placeholders import BuildPaths, fill
from jissoku.targets.prepare import PreparedTarget, prepare

REQUESTS = 400
CONNECTIONS = 4

# Limit of one round: an experiment should end within minutes.
ROUND_LIMIT_S = 120.0

LINE = re.compile(r"^([a-z][a-z0-9_]*)[ \t:=]+((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)$")

# The benchmark without a program: the cost of a system call on this machine.
SYSCALL_BENCHMARK = Microbenchmark(name="here", command=(), rounds=9, seconds=0.1)

# Approximate seconds to start a target, to count and to stop it.
COUNT_S = 3.0


def count_requests(root: int, target: RequestTarget, requests: int = REQUESTS) -> CounterReadings:
    """Sends requests to a server with this first process, and counts its system calls meanwhile."""
    # Work that is done once, such as opening a file for a cache, is not counted.
    _send_requests(target, CONNECTIONS)
    syscalls: dict[str, int] = {}
    reason = strace.missing_reason()
    pids = process_tree(root)
    if not reason and not pids:
        raise ProbeError("it ended before it was traced")
    try:
        with nullcontext() if reason else strace.traced(pids, strace.COUNTS) as found:
            received = _send_requests(target, requests)
        if found is not None:
            syscalls = counts_by_name(found.text)
            reason = "" if syscalls else "strace counted no call: it was not permitted to trace"
    except StraceError as error:
        received, reason = _send_requests(target, requests), str(error)
    # No answer has zero segments: this is a Unix socket, or the kernel provides no counters.
    names = ("connections", "segments", "bytes") if received["segments"] else ("connections",)
    per_request = {name: number / requests for name, number in sorted(syscalls.items())}
    per_request |= {name: received[name] / requests for name in names}
    return CounterReadings(requests=requests, per_request=per_request, syscalls_reason=reason)


def _send_requests(target: RequestTarget, requests: int) -> Counter[str]:
    """Sends requests over a few connections; returns their number, and counters of the answers."""
    seen: Counter[str] = Counter()
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(target)) for _ in range(CONNECTIONS)]
        for index in range(requests):
            try:
                segments, size = clients[index % CONNECTIONS].request_counted()
            except (OSError, http.client.HTTPException) as error:
                raise ProbeError(f"a request was not answered: {error}") from error
            seen.update(segments=segments, bytes=size)
        seen["connections"] = sum(client.opened for client in clients)
    return seen


def run_round(name: str, command: Sequence[str]) -> dict[str, float]:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ROUND_LIMIT_S,
            check=False,
        )
    except OSError as error:
        raise TargetError(f"{name}: {command[0]} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise TargetError(f"{name}: a round took longer than {ROUND_LIMIT_S:g} s") from error
    if done.returncode:
        raise TargetError(f"{name}: exited with code {done.returncode}", stderr=done.stderr)
    return parse_output(name, done.stdout)


def parse_output(name: str, text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        read = LINE.match(line.strip())
        value = float(read[2]) if read else 0.0
        if read is None or value <= 0:
            raise TargetError(
                f"{name}: {line.strip()[:60]!r} is not a result: print a name and a number above 0"
            )
        found[read[1]] = value
    if not found:
        raise TargetError(f"{name}: printed nothing; a line is a name and a number above 0")
    return found


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
    wanted = {one.arm for one in quantities(experiment) if one.metric.startswith(f"{BENCHMARK}.")}
    return tuple(one for one in (*experiment.benchmark, SYSCALL_BENCHMARK) if one.name in wanted)


def seconds(experiment: Experiment) -> float:
    """Approximate duration of all counts and benchmarks, in seconds."""
    counting = sum(len(arms) for arms in counted_arms(experiment).values()) * COUNT_S
    return counting + sum(one.rounds * one.seconds for one in benchmarks(experiment))


def count_arm(
    prepared: PreparedTarget,
    workload: Workload,
    cores: CoreAssignment,
    seed: str,
    requests: int = REQUESTS,
    give_up: Callable[[], bool] = lambda: False,
) -> CounterReadings:
    """Counts a target's system calls, connections and segments per request, on a separate start.

    Requests are sent one at a time, so that a wait which returns many events under load returns one
    here: the counts are upper bounds.
    """
    reason = "requests in a pipeline cannot be counted one by one" if workload.pipeline > 1 else ""
    if workload.websocket:
        reason = "messages of a WebSocket are not counted one by one"
    if reason:
        return CounterReadings(requests=0, syscalls_reason=reason)
    launcher = Launcher(cores=cores.server, rng=random.Random(seed), give_up=give_up)
    try:
        with launcher.verified(prepared, workload) as running:
            assert running.pid is not None, "what is counted is started by us"
            target = RequestTarget.of(running.address, workload)
            return count_requests(running.pid, target, requests)
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
    found = {}
    for benchmark in benchmarks(experiment):
        listener.note(f"Bench {benchmark.name}: {benchmark.rounds} rounds.")
        try:
            command = _command(benchmark, recipes, place)
            with pin_process(cores.server):
                rounds = tuple(
                    {"syscall_ns": empty_syscall_ns()}
                    if benchmark is SYSCALL_BENCHMARK
                    else run_round(benchmark.name, command)
                    for _ in range(benchmark.rounds)
                )
            found[benchmark.name] = BenchmarkOutput(rounds=rounds)
        except TargetError as error:
            found[benchmark.name] = BenchmarkOutput(reason=redact(str(error)))
    return found


def _command(
    benchmark: Microbenchmark, recipes: Mapping[str, Recipe], place: BuildPaths
) -> tuple[str, ...]:
    if not benchmark.recipe:
        return fill(benchmark.command, place.values(benchmark.name))
    made = prepare(recipes[benchmark.recipe], place)
    if isinstance(made, UnavailableTarget):
        raise TargetError(made.sentence)
    return fill(benchmark.command, made.values)
