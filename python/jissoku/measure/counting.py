"""Data for claims besides trials: counts per request, and results of benchmarks.

Each comes from separate starts, never during a timed trial, and nothing is timed while calls are
counted.
"""

import http.client
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack

from jissoku.errors import TargetError
from jissoku.inference.expression import BENCHMARK, Quantity, parse
from jissoku.measure.client import Client, ProbeError, RequestTarget
from jissoku.measure.host import LocalHost, ServerHost, verified
from jissoku.measure.inspection import Counts, Inspector
from jissoku.measure.microbenchmark import SYSCALL_BENCHMARK, BenchmarkRound
from jissoku.measure.progress import ProgressListener
from jissoku.measure.trial import PreparedArm
from jissoku.model import CoreAssignment, CounterReadings, Recipe, UnavailableTarget, Workload
from jissoku.model.experiment import BenchmarkOutput, Claim, Experiment, Microbenchmark
from jissoku.system.redaction import redact
from jissoku.targets.prepare import PreparedTarget

REQUESTS = 400
CONNECTIONS = 4

# Approximate seconds to start a target, to count and to stop it.
COUNT_S = 3.0


def count_requests(
    inspector: Inspector, target: RequestTarget, requests: int = REQUESTS
) -> CounterReadings:
    """Sends requests to a server, and counts its system calls meanwhile, on its own host."""
    # Work that is done once, such as opening a file for a cache, is not counted.
    _send_requests(target, CONNECTIONS)
    counts, reason = Counts(), ""
    with ExitStack() as counting:
        try:
            counts = counting.enter_context(inspector.counted())
        except ProbeError as error:
            reason = _uncounted(error)
        received = _send_requests(target, requests)
        try:
            counting.close()
        except ProbeError as error:
            reason = _uncounted(error)
    if not reason and not counts.calls:
        reason = "strace counted no call: it was not permitted to trace"
    # No answer has zero segments: this is a Unix socket, or the kernel provides no counters.
    names = ("connections", "segments", "bytes") if received["segments"] else ("connections",)
    per_request = {name: number / requests for name, number in sorted(counts.calls.items())}
    per_request |= {name: received[name] / requests for name in names}
    return CounterReadings(requests=requests, per_request=per_request, syscalls_reason=reason)


def _uncounted(error: ProbeError) -> str:
    remedy = f": {error.remedy}" if error.remedy else ""
    return f"{error}, so no system call was counted{remedy}"


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
    host: ServerHost | None = None,
) -> CounterReadings:
    """Counts a target's system calls, connections and segments per request, on a separate start.

    Requests are sent one at a time, so that a wait which returns many events under load returns one
    here: the counts are upper bounds. `host` None: it runs on this machine.
    """
    reason = "requests in a pipeline cannot be counted one by one" if workload.pipeline > 1 else ""
    if workload.websocket:
        reason = "messages of a WebSocket are not counted one by one"
    if reason:
        return CounterReadings(requests=0, syscalls_reason=reason)
    host = host or LocalHost()
    launcher = host.launcher(seed, cores.server, None)
    try:
        with verified(host, launcher, prepared, workload, give_up) as running:
            target = RequestTarget.of(running.address, workload)
            return count_requests(host.inspector(running, cores), target, requests)
    except ProbeError as error:
        raise TargetError(str(error)) from error


def count_arms(
    arms: Iterable[PreparedArm],
    workload: Workload,
    cores: CoreAssignment,
    seed: str,
    host: ServerHost,
) -> Iterator[tuple[str, CounterReadings]]:
    """Counts one arm after the other; one that does not answer has the reason instead of counts.

    HostLost: their host is gone; the counts before are good.
    """
    for arm in arms:
        name = arm.arm.name
        try:
            yield name, count_arm(arm.prepared, workload, cores, f"{seed}/{name}", host=host)
        except TargetError as error:
            yield name, CounterReadings(requests=0, syscalls_reason=redact(str(error)))


def prepare_benchmarks(
    experiment: Experiment, recipes: Mapping[str, Recipe], host: ServerHost
) -> dict[str, BenchmarkRound | str]:
    """What runs a round of each benchmark on the host of the targets, or why it cannot be run.

    InputError: the host refuses it.
    """
    found: dict[str, BenchmarkRound | str] = {}
    for benchmark in benchmarks(experiment):
        recipe = recipes[benchmark.recipe] if benchmark.recipe else None
        try:
            made = host.prepare(recipe, "") if recipe else None
        except TargetError as error:
            found[benchmark.name] = redact(str(error))
            continue
        if isinstance(made, UnavailableTarget):
            found[benchmark.name] = redact(made.sentence)
        else:
            found[benchmark.name] = host.prepare_benchmark(benchmark, made)
    return found


def run_benchmarks(
    experiment: Experiment,
    rounds: Mapping[str, BenchmarkRound | str],
    cores: CoreAssignment,
    listener: ProgressListener,
) -> Iterator[tuple[str, BenchmarkOutput]]:
    """Runs what `prepare_benchmarks` has prepared, on the cores of the targets.

    HostLost: that host is gone; the benchmarks before are good.
    """
    for benchmark in benchmarks(experiment):
        run = rounds[benchmark.name]
        if isinstance(run, str):
            yield benchmark.name, BenchmarkOutput(reason=run)
            continue
        listener.note(f"Bench {benchmark.name}: {benchmark.rounds} rounds.")
        try:
            figures = tuple(run(cores.server) for _ in range(benchmark.rounds))
        except TargetError as error:
            yield benchmark.name, BenchmarkOutput(reason=redact(str(error)))
        else:
            yield benchmark.name, BenchmarkOutput(rounds=figures)
