"""Runs the load generator, and samples the machine at the start and the end of its window.

The load generator reads the targets' CPU time itself, at the instants at which it starts and ends
counting. Values that may be a millisecond late are read here, when it reports these instants:
memory, ticks and kernel counters.
"""

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

from jissoku.errors import JissokuError
from jissoku.measure import conditions
from jissoku.model import (
    ArmMeasurement,
    ConnectionMode,
    CoreAssignment,
    Latency,
    MachineConditions,
    Match,
    TimeSlice,
    Workload,
)
from jissoku.model.updated import updated
from jissoku.model.wording import plural
from jissoku.system import background, processes
from jissoku.system.listen_queue import ListenQueue, listen_queues
from jissoku.system.measurement_lock import load_window
from jissoku.targets.process import RunningTarget

# The schema of the output of `jissoku load --json`.
Report = dict[str, Any]

# Limit for the load generator beyond warm-up and window, enough to open ten thousand connections
# and to wait for the last answers.
GRACE_S = 20


@dataclass(frozen=True, slots=True)
class _Clocks:
    """Nanoseconds so far, of the kernel's own threads, of `jissoku ui`, and without a core.

    Attributes:
        targets_waited_ns: Time in which threads were ready and had no core; None if not counted.
    """

    at_ns: int
    kernel: dict[int, int]
    viewer_ns: int
    targets_waited_ns: int | None
    generator_waited_ns: int | None

    @classmethod
    def read(cls, targets: Sequence[int], generator: int, viewer: frozenset[int]) -> "_Clocks":
        kernel = processes.kernel_cpu_ns()
        return cls(
            at_ns=time.monotonic_ns(),
            kernel=kernel,
            targets_waited_ns=processes.waited_ns(targets),
            generator_waited_ns=processes.waited_ns([generator]),
            viewer_ns=background.cpu_ns(viewer),
        )


@dataclass(slots=True)
class _GeneratorResult:
    """What the load generator wrote, and the values read at its window's start and end.

    Attributes:
        report: Its JSON output; empty if it measured nothing.
        memory: Resident bytes and those in swap when the window closed, by the target's root.
    """

    report: str = ""
    stderr: str = ""
    opened: _Clocks | None = None
    closed: _Clocks | None = None
    memory: dict[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSpec:
    """Parameters of one run of the load generator.

    Attributes:
        urls: One per arm, with the path: `http://host:port/path` or `unix:/socket:/path`.
        roots: The targets' first processes, in the same order; None for one that is
            unknown.
        body: The expected body; None if the arms' bodies differ, and each is compared with its own
            first one.
        seed: Determines the order of sends.
        slice_ns: The arms are under load one at a time, in time slices of about this length; None:
            all at once.
        idle_watch_ns: Time without load before the first request.
        own_processes: First processes of targets that are running without load.
        warmup_requests: Requests that each arm has had since its start; recorded, not sent.
        warmup_rps: How fast each arm answered these in a closed loop.
        requests: The window ends after this many requests to each arm; None: by time alone.
        grace_s: How much longer than its windows it may take before it is ended.
    """

    arms: tuple[str, ...]
    urls: tuple[str, ...]
    roots: tuple[int | None, ...]
    body: bytes | None
    status: int
    workload: Workload
    warmup_ns: int
    window_ns: int
    seed: int
    slice_ns: int | None = None
    idle_watch_ns: int = 0
    own_processes: tuple[int, ...] = ()
    warmup_requests: Mapping[str, int] = field(default_factory=dict)
    warmup_rps: Mapping[str, float] = field(default_factory=dict)
    requests: int | None = None
    grace_s: int = GRACE_S

    @classmethod
    def of(
        cls,
        targets: Mapping[str, RunningTarget],
        workload: Workload,
        warmup_ns: int,
        window_ns: int,
        seed: int,
    ) -> Self:
        """The load on running targets, by the names of their arms; they answer with 200."""
        return cls(
            arms=tuple(targets),
            urls=tuple(running.address.url(workload.path) for running in targets.values()),
            roots=tuple(running.root for running in targets.values()),
            body=None,
            status=200,
            workload=workload,
            warmup_ns=warmup_ns,
            window_ns=window_ns,
            seed=seed,
        )


class LoadgenError(JissokuError):
    """The load generator measured nothing; the message is its own.

    Attributes:
        arm: The arm that did not respond; empty if unknown.
    """

    def __init__(self, message: str, *, arm: str = "") -> None:
        super().__init__(message)
        self.arm = arm


def run_load(
    spec: LoadSpec,
    cores: CoreAssignment,
    *,
    started: Callable[[subprocess.Popen[str]], object],
    on_window: Callable[[str], object] = str,
) -> tuple[tuple[ArmMeasurement, ...], MachineConditions]:
    """Runs one load and returns the counts per arm and the machine's conditions.

    Args:
        started: Called with the load generator's process, so that an interruption can end it.
        on_window: Called with `open` and `close` at the start and end of the window.

    Raises:
        LoadgenError: No answer was counted, or the load generator failed.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        files = Path(folder)
        (files / "body").write_bytes(spec.body or b"")
        (files / "request-body").write_bytes(_sent_body(spec.workload))
        for shape in spec.workload.raw_requests:
            (files / f"{shape.name}.http").write_bytes(shape.text)
        before, queues = conditions.snapshot(_roots(spec), spec.own_processes), _queues(spec)
        watching = background.viewer_pids()
        with (
            load_window(spec.warmup_ns + spec.idle_watch_ns + spec.window_ns),
            subprocess.Popen(
                command(spec, files, cores),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ) as process,
        ):
            watchdog = threading.Timer(seconds_at_most(spec), process.kill)
            watchdog.start()
            started(process)
            try:
                said = _monitor(process, before, watching, on_window)
            finally:
                watchdog.cancel()
                process.kill()  # Normally it has ended already.
    if not said.report:
        words = said.stderr or f"the load generator ended with code {process.returncode}"
        raise LoadgenError(words, arm=_named_in(words, spec))
    report = msgspec.json.decode(said.report)
    _require_responses(spec, report)
    after = conditions.snapshot(_roots(spec), spec.own_processes)
    seen = conditions.interval_change(before, after, cores.server)
    found = _conditions(spec, report, seen, cores)
    measurements = _measurements(spec, report, seen, said.memory)
    return _with_queues(measurements, queues, _queues(spec)), _with_clocks(found, said)


def _queues(spec: LoadSpec) -> list[ListenQueue | None]:
    """The listen queue of each arm's port; None over a Unix socket, and of another machine."""
    found = listen_queues()
    ports = (urlsplit(url).port for url in spec.urls)
    return [None if port is None else found.get(port) for port in ports]


def _with_queues(
    measurements: Sequence[ArmMeasurement],
    before: Sequence[ListenQueue | None],
    after: Sequence[ListenQueue | None],
) -> tuple[ArmMeasurement, ...]:
    return tuple(
        one
        if first is None or last is None
        else updated(one, listen_limit=last.limit, listen_drops=max(0, last.drops - first.drops))
        for one, first, last in zip(measurements, before, after, strict=True)
    )


def _monitor(
    process: subprocess.Popen[str],
    before: conditions.Snapshot,
    watching: frozenset[int],
    on_window: Callable[[str], object],
) -> _GeneratorResult:
    """Reads both pipes to their end, and samples at the start and end of the window.

    The report is read in a thread of its own: a pipe holds 64 KiB (pipe(7)), and a load generator
    that waits for room in one does not end the other.
    """
    assert process.stderr is not None
    assert process.stdout is not None
    found, complaints = _GeneratorResult(), []
    targets = [pid for pids in before.targets.values() for pid in pids]
    with ThreadPoolExecutor(1) as reader:
        report = reader.submit(process.stdout.read)
        for line in process.stderr:
            if line.startswith("window open"):
                on_window("open")
                found.opened = _Clocks.read(targets, process.pid, watching)
            elif line.startswith("window close"):
                on_window("close")
                found.closed = _Clocks.read(targets, process.pid, watching)
                for root, pids in before.targets.items():
                    found.memory[root] = processes.rss_bytes(pids), processes.swap_bytes(pids)
            elif not line.startswith("window "):
                complaints.append(line.strip())
        found.report = report.result()
    process.wait()
    found.stderr = " ".join(complaints)
    return found


def _with_clocks(conditions: MachineConditions, found: _GeneratorResult) -> MachineConditions:
    before, after = found.opened, found.closed
    if before is None or after is None:
        return conditions
    span_ns = after.at_ns - before.at_ns
    return updated(
        conditions,
        kernel_cpu_ns=processes.kernel_spent_ns(before.kernel, after.kernel),
        viewer_cpu_ns=max(0, after.viewer_ns - before.viewer_ns),
        target_wait_fraction=_waited(before.targets_waited_ns, after.targets_waited_ns, span_ns),
        generator_wait_fraction=_waited(
            before.generator_waited_ns, after.generator_waited_ns, span_ns
        ),
    )


def _waited(before_ns: int | None, after_ns: int | None, span_ns: int) -> float | None:
    """As a part of the window, without the time of threads that ended meanwhile."""
    if before_ns is None or after_ns is None or not span_ns:
        return None
    return max(0, after_ns - before_ns) / span_ns


def _roots(spec: LoadSpec) -> list[int]:
    return [root for root in spec.roots if root is not None]


def _require_responses(spec: LoadSpec, report: Report) -> None:
    for arm, measurement in zip(spec.arms, report["targets"], strict=True):
        if not measurement["requests"]:
            kinds = [f"{count} {kind}" for kind, count in measurement["errors"].items() if count]
            asked = spec.workload.connections
            # All of them wait at once, so a slow server may not get to the first in time.
            hint = f"{asked} {plural(asked, 'connection')} may be too many for it (-c)"
            why = f"errors: {', '.join(kinds)}" if kinds else hint
            window = f"window of {spec.window_ns / 1e9:g} s"
            raise LoadgenError(f"{arm} gave no answer in the {window}; {why}", arm=arm)


def _named_in(words: str, spec: LoadSpec) -> str:
    """The arm whose URL an error of the load generator names; empty if it names none."""
    named = (arm for arm, url in zip(spec.arms, spec.urls, strict=True) if f" {url}: " in words)
    return next(named, "")


def seconds_at_most(spec: LoadSpec) -> float:
    """How long the load generator may take, after which it hangs.

    In time slices the window is whole cycles after a half one or a warm-up. A slice waits for its
    responses, so a slow target may take longer than its share.
    """
    running_ns = spec.warmup_ns + spec.window_ns
    if spec.slice_ns is not None:
        cycle_ns = 2 * len(spec.urls) * spec.slice_ns
        cycles = -(-spec.window_ns // cycle_ns)
        before_ns = spec.warmup_ns + cycle_ns // 2
        running_ns = max(running_ns, before_ns + cycles * cycle_ns)
    return (spec.idle_watch_ns + running_ns) / 1e9 * 2 + spec.grace_s


# How the load generator verifies bodies.
VERIFY = {Match.BYTES: "all", Match.LENGTH: "length"}


def command(spec: LoadSpec, files: Path, cores: CoreAssignment) -> list[str]:
    """The words that start the load generator; `files` is the folder of bodies and requests."""
    work = spec.workload
    threads = min(len(cores.generator), work.connections)
    paced = work.rate_rps is not None
    options: dict[str, object] = {
        "-c": work.connections,
        "-t": 1 if paced else threads,
        "-d": f"{spec.window_ns}ns",
        "--warmup": f"{0 if spec.slice_ns else spec.warmup_ns}ns",
        "--pipeline": work.pipeline,
        "--seed": spec.seed,
        "--cores": ",".join(map(str, cores.generator)),
        "--verify": VERIFY.get(work.match, "none"),
        "--idle": "spin" if paced else "block",
    }
    words = [sys.executable, "-m", "jissoku", "load", "--json", "--events"]
    words += [word for name, value in options.items() for word in (name, str(value))]
    if spec.requests is not None:
        words += ["-n", str(spec.requests)]
    if spec.slice_ns is not None:
        # To each arm its share of the rate, while all of them have their turns.
        requests = round(spec.warmup_ns / 1e9 * (work.rate_rps or 0) / len(spec.urls))
        words += ["--slice", f"{spec.slice_ns}ns", "--warmup-requests", str(requests)]
    if spec.idle_watch_ns:
        words += ["--idle-watch", f"{spec.idle_watch_ns}ns"]
    if not work.websocket:
        words += ["--expect-status", str(spec.status)]
    if spec.body is not None and work.match is Match.BYTES:
        words += ["--expect-body", f"@{files / 'body'}"]
    if paced:
        words += ["-R", str(work.rate_rps)]
    if work.connection_mode is ConnectionMode.CLOSE:
        words.append("--no-keepalive")
    if any(url.startswith("https:") for url in spec.urls):
        words.append("--insecure")
    words += _request(work, files)
    for root in spec.roots:
        words += ["--watch", str(root or 0)]
    return [*words, *spec.urls]


def _request(work: Workload, files: Path) -> list[str]:
    if work.raw_requests:
        return ["--raw", ",".join(str(files / f"{shape.name}.http") for shape in work.raw_requests)]
    if work.websocket:
        words = [f"--websocket={'text' if work.is_text else 'binary'}"]
    else:
        words = ["-m", work.method]
    for name, value in work.headers:
        words += ["-H", f"{name}: {value}"]
    if _sent_body(work):
        # Not as an argument, because arguments are limited to 128 KiB (execve(2)).
        words += ["--body", f"@{files / 'request-body'}"]
    return words


def _sent_body(work: Workload) -> bytes:
    return work.message if work.websocket else work.body


def _measurements(
    spec: LoadSpec,
    report: Report,
    seen: conditions.IntervalChange,
    memory: dict[int, tuple[int, int]],
) -> tuple[ArmMeasurement, ...]:
    unknown = (None, None)
    return tuple(
        ArmMeasurement(
            arm=arm,
            requests=measurement["requests"],
            errors=measurement["errors"],
            duration_ns=measurement["duration_ns"],
            cpu_ns=measurement["watched_cpu_ns"] if root else None,
            cpu_user_fraction=seen.user_fractions.get(root) if root else None,
            rate_rps_offered=measurement["rate_rps_offered"],
            lag_ns_p99=measurement["lag_ns_p99"],
            latency_ns=Latency(
                **{key: int(value) for key, value in measurement["latency_ns"].items()}
            ),
            histogram=measurement["histogram"],
            per_second=tuple(measurement["per_second"]),
            rss_bytes_peak=memory.get(root or 0, unknown)[0],
            connections_opened=measurement["connections_opened"],
            bytes_received=measurement["bytes_received"],
            migrations_per_second=seen.migrations_per_second.get(root) if root else None,
            swap_bytes=memory.get(root or 0, unknown)[1],
            major_faults=seen.major_faults.get(root) if root else None,
            active_duration_ns=measurement["slice_duration_ns"],
            slice_cpu_ns=tuple(measurement["slice_cpu_ns"] or ()) if root else (),
            slices=msgspec.convert(measurement["slices"] or (), tuple[TimeSlice, ...])
            if root
            else (),
            idle_cpu_ns_per_s=measurement["idle_cpu_ns_per_s"] if root else None,
            warmup_requests=spec.warmup_requests.get(arm),
            warmup_rps=spec.warmup_rps.get(arm),
        )
        for arm, root, measurement in zip(spec.arms, spec.roots, report["targets"], strict=True)
    )


def _conditions(
    spec: LoadSpec, report: Report, seen: conditions.IntervalChange, cores: CoreAssignment
) -> MachineConditions:
    measurements = report["targets"]
    known = [
        measurement["watched_cpu_ns"]
        for measurement in measurements
        if measurement["watched_cpu_ns"] is not None
    ]
    span_ns = max(measurement["duration_ns"] for measurement in measurements) * len(cores.server)
    return MachineConditions(
        generator_busy_fraction=max(thread["busy_fraction"] for thread in report["threads"]),
        generator_cpu_cores=sum(thread["busy_fraction"] for thread in report["threads"]),
        generator_busy_polls=spec.workload.rate_rps is not None,
        server_cores_busy_fraction=sum(known) / span_ns
        if len(known) == len(measurements)
        else None,
        steal_fraction=seen.steal_fraction,
        foreign_fraction=seen.foreign_fraction,
        tcp_segments=seen.tcp_segments,
        tcp_retransmits=seen.tcp_retransmits,
        tcp_timeouts=seen.tcp_timeouts,
        listen_overflows=seen.listen_overflows,
        longest_gap_ns=report["longest_gap_ns"],
        longest_stall_ns=report["longest_stall_ns"],
        major_faults=sum(seen.major_faults.values()),
    )
