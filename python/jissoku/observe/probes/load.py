"""What a target does when it has much to do: the stopwatch's counts, and each thread's own."""

import subprocess
from collections.abc import Callable
from time import monotonic_ns

from jissoku.model import Cores
from jissoku.model.observed import Load
from jissoku.observe import memory, stopwatch
from jissoku.observe.probes import threads
from jissoku.observe.probes.client import ProbeError
from jissoku.observe.stopwatch import Lap, StopwatchError

Started = Callable[[subprocess.Popen[str]], object]


def look(lap: Lap, cores: Cores, *, started: Started) -> Load:
    """Runs one lap of one arm, and looks at the target's threads before and after it.

    Raises:
        ProbeError: No answer could be counted.
    """
    root = lap.roots[0]
    pids = memory.members(root, memory.everyone()) if root is not None else set()
    before, began = threads.look(pids), monotonic_ns()
    try:
        lanes, conditions = stopwatch.run(lap, cores, started=started)
    except StopwatchError as error:
        raise ProbeError(f"the stopwatch counted nothing: {error}") from error
    span_ns = monotonic_ns() - began
    pids = memory.members(root, memory.everyone()) if root is not None else set()
    lane = lanes[0]
    return Load(
        connections=lap.workload.connections,
        cores=len(cores.server),
        requests=lane.requests,
        duration_ns=lane.duration_ns,
        cpu_ns=lane.cpu_ns,
        cpu_user_fraction=lane.cpu_user_fraction,
        latency_ns_p50=lane.latency_ns.p50,
        latency_ns_p99=lane.latency_ns.p99,
        rate_rps_offered=lane.rate_rps_offered,
        generator_busy_fraction=conditions.generator_busy_fraction,
        tcp_retransmits=conditions.tcp_retransmits,
        listen_overflows=conditions.listen_overflows,
        threads=threads.between(before, threads.look(pids)),
        threads_ns=span_ns,
        programs=threads.programs(pids),
        generator_cores=conditions.generator_cores,
        kernel_cpu_ns=conditions.kernel_cpu_ns,
    )


def costs(lap: Lap, cores: Cores, *, started: Started) -> tuple[float, ...]:
    """Runs one lap, and returns each arm's CPU time per request in nanoseconds.

    Raises:
        ProbeError: No answer could be counted, or an arm's CPU time cannot be read.
    """
    try:
        lanes, _ = stopwatch.run(lap, cores, started=started)
    except StopwatchError as error:
        raise ProbeError(f"the stopwatch counted nothing: {error}") from error
    found = [lane.cpu_ns / lane.requests for lane in lanes if lane.cpu_ns is not None]
    if len(found) < len(lanes):
        raise ProbeError("its CPU time cannot be read", remedy="run it here")
    return tuple(found)
