"""A target under load: the load generator's counts and each thread's CPU time."""

import subprocess
from collections.abc import Callable

from jissoku.measure import loadgen
from jissoku.measure.loadgen import LoadgenError, LoadSpec
from jissoku.measure.probes.client import ProbeError
from jissoku.model import CoreAssignment
from jissoku.model.observed import LoadObservation
from jissoku.system import processes
from jissoku.system.processes import process_tree

Started = Callable[[subprocess.Popen[str]], object]


def observe_load(spec: LoadSpec, cores: CoreAssignment, *, started: Started) -> LoadObservation:
    """Loads one arm, and reads the target's threads before and after.

    Raises:
        ProbeError: No answer was counted.
    """
    root = spec.roots[0]
    pids = process_tree(root)
    before = processes.thread_usage(pids)
    try:
        measurements, conditions = loadgen.run_load(spec, cores, started=started)
    except LoadgenError as error:
        raise ProbeError(f"the load generator measured nothing: {error}") from error
    pids = process_tree(root)
    measurement = measurements[0]
    return LoadObservation(
        connections=spec.workload.connections,
        cores=len(cores.server),
        requests=measurement.requests,
        duration_ns=measurement.duration_ns,
        cpu_ns=measurement.cpu_ns,
        cpu_user_fraction=measurement.cpu_user_fraction,
        latency_ns_p50=measurement.latency_ns.p50,
        latency_ns_p99=measurement.latency_ns.p99,
        rate_rps_offered=measurement.rate_rps_offered,
        generator_busy_fraction=conditions.generator_busy_fraction,
        tcp_retransmits=conditions.tcp_retransmits,
        listen_overflows=conditions.listen_overflows,
        threads=processes.usage_between(before, processes.thread_usage(pids)),
        # Not between the two readings: the load generator starts after the first one, which takes
        # seconds when other processes use its core.
        threads_ns=spec.warmup_ns + measurement.duration_ns,
        processes=processes.process_infos(pids),
        generator_cpu_cores=conditions.generator_cpu_cores,
        kernel_cpu_ns=conditions.kernel_cpu_ns,
    )


def observe_costs(spec: LoadSpec, cores: CoreAssignment, *, started: Started) -> tuple[float, ...]:
    """Runs one load and returns each arm's CPU time per request in nanoseconds.

    Raises:
        ProbeError: No answer was counted, or an arm's CPU time cannot be read.
    """
    try:
        measurements, _ = loadgen.run_load(spec, cores, started=started)
    except LoadgenError as error:
        raise ProbeError(f"the load generator measured nothing: {error}") from error
    found = [
        measurement.cpu_ns / measurement.requests
        for measurement in measurements
        if measurement.cpu_ns is not None
    ]
    if len(found) < len(measurements):
        raise ProbeError("its CPU time cannot be read", result="run it here")
    return tuple(found)
