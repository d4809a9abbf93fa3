"""Runs the load generator, and has its targets observed meanwhile.

The load generator reads the CPU time of targets on its own machine, at the instants at which it
starts and ends counting. Everything else that is observed of them is in `observation`.
"""

import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

import msgspec

from jissoku import model
from jissoku.errors import JissokuError
from jissoku.measure.observation import (
    LocalObserver,
    Observation,
    ObservedTargets,
    Observer,
    Report,
    WindowTimes,
    waited_fraction,
)
from jissoku.model import plural, updated
from jissoku.system import processes
from jissoku.system.interruption import Endable
from jissoku.system.measurement_lock import load_window
from jissoku.system.program import PROGRAM
from jissoku.targets.process import RunningTarget
from jissoku.targets.supervisor import supervisor

# Is given the load generator's process, so that an interruption can end it.
Started = Callable[[Endable], object]

# Is called with `open` and `close` at the start and end of the window.
OnWindow = Callable[[str], object]

# Limit for the load generator beyond warm-up and window, enough to open ten thousand connections
# and to wait for the last answers.
GRACE_S = 20


@dataclass(slots=True)
class Generated:
    """The load generator's report, None if it measured nothing, and what was read meanwhile.

    `opened` and `closed` are the time, and how long the load generator had no core until then.
    `conditions` are fields of `MachineConditions` of loads from other hosts.
    """

    report: Report | None = None
    stderr: str = ""
    code: int = 0
    opened: tuple[int, int | None] | None = None
    closed: tuple[int, int | None] | None = None
    times: WindowTimes = field(default_factory=WindowTimes)
    conditions: Mapping[str, Any] = field(default_factory=dict)

    @property
    def wait_fraction(self) -> float | None:
        """Time without a core, divided by the window."""
        if self.opened is None or self.closed is None:
            return None
        (opened_ns, before_ns), (closed_ns, after_ns) = self.opened, self.closed
        return waited_fraction(before_ns, after_ns, closed_ns - opened_ns)


@dataclass(frozen=True, slots=True)
class TrialTiming:
    """Durations in nanoseconds.

    With `slice_ns`, arms are under load one at a time, in time slices of about this length; None:
    all at once. `idle_watch_ns` is time without load before the first request.
    """

    warmup_ns: int
    window_ns: int
    slice_ns: int | None = None
    idle_watch_ns: int = 0

    @property
    def total_ns(self) -> int:
        return self.idle_watch_ns + self.warmup_ns + self.window_ns


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
    workload: model.Workload
    timing: TrialTiming
    seed: int
    own_processes: tuple[int, ...] = ()
    warmup_requests: Mapping[str, int] = field(default_factory=dict)
    warmup_rps: Mapping[str, float] = field(default_factory=dict)
    requests: int | None = None
    grace_s: int = GRACE_S

    @classmethod
    def of(
        cls,
        targets: Mapping[str, RunningTarget],
        workload: model.Workload,
        timing: TrialTiming,
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
            timing=timing,
            seed=seed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The part of a load that one of several load generators sends, which start together.

    All get the same rate, so that their time slices have the same numbers of requests. One begins
    every `slot_ns`.
    """

    number: int
    of: int
    slot_ns: int | None = None

    def connections(self, whole: int) -> int:
        """Those of this load generator; they differ by one at most."""
        return whole // self.of + (self.number < whole % self.of)

    def requests(self, whole: int) -> int:
        """At least as many in all."""
        return -(-whole // self.of)

    def rate(self, whole_rps: int) -> str:
        """As `jissoku load -R` has it."""
        return f"{whole_rps / self.of:.6f}".rstrip("0").rstrip(".")


class LoadgenError(JissokuError):
    """The load generator measured nothing; `arm` did not respond, and is empty if unknown."""

    def __init__(self, message: str, *, arm: str = "") -> None:
        super().__init__(message)
        self.arm = arm


def local_observer(spec: LoadSpec, cores: model.CoreAssignment) -> LocalObserver:
    """Observes the targets of a load on this machine."""
    targets = ObservedTargets(
        roots=spec.roots,
        ports=tuple(urlsplit(url).port for url in spec.urls),
        bystanders=spec.own_processes,
        cores=cores.server,
    )
    return LocalObserver(targets)


class Generate(Protocol):
    """What sends a load, and has its targets observed meanwhile."""

    def __call__(
        self,
        spec: LoadSpec,
        cores: model.CoreAssignment,
        started: Started,
        observer: Observer,
        on_window: OnWindow,
    ) -> Generated:
        """Returns when all has ended; LoadgenError if no load generator could be started."""


def run_load(
    spec: LoadSpec,
    cores: model.CoreAssignment,
    started: Started,
    on_window: OnWindow = str,
    observer: Observer | None = None,
    generate: Generate | None = None,
) -> tuple[tuple[model.ArmMeasurement, ...], model.MachineConditions]:
    """Runs one load, and returns the counts of each arm and the machine's conditions.

    `observer` None: the targets are observed on this machine; `generate` None: it sends the load.
    LoadgenError if no answer was counted, or the load generator failed.
    """
    watching = observer or local_observer(spec, cores)
    said = (generate or generate_here)(spec, cores, started, watching, on_window)
    report = said.report
    if report is None:
        words = said.stderr or f"the load generator ended with code {said.code}"
        urls = zip(spec.arms, spec.urls, strict=True)
        named = [arm for arm, url in urls if f" {url}: " in words]
        raise _unanswered(LoadgenError(words, arm=named[0] if named else ""), watching)
    try:
        _require_responses(spec, report)
    except LoadgenError as error:
        raise _unanswered(error, watching) from error
    seen = watching.finish(report, said.times)
    measurements = tuple(
        _measurement(spec, report, number, seen) for number in range(len(spec.arms))
    )
    return measurements, _conditions(spec, report, measurements, seen, said, cores)


def _unanswered(error: LoadgenError, observer: Observer) -> LoadgenError:
    """The error, which names no arm if the network is the reason."""
    loss = observer.network_loss() if error.arm else ""
    return LoadgenError(f"{error}; {loss}") if loss else error


def generate_here(
    spec: LoadSpec,
    cores: model.CoreAssignment,
    started: Started,
    observer: Observer,
    on_window: OnWindow,
) -> Generated:
    """Runs the load generator on this machine."""
    with files_of(spec) as files:
        observer.start()
        with (
            load_window(spec.timing.total_ns),
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
                return monitored(process, observer, on_window)
            finally:
                watchdog.cancel()
                process.kill()  # Normally it has ended already.


@contextmanager
def files_of(spec: LoadSpec) -> Iterator[Path]:
    """A folder with the bodies and requests that the load generator reads."""
    scratch = supervisor().scratch()  # It also ends a load generator whose parent is killed.
    with tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as folder:
        files = Path(folder)
        (files / "body").write_bytes(spec.body or b"")
        (files / "request-body").write_bytes(_sent_body(spec.workload))
        for shape in spec.workload.raw_requests:
            (files / f"{shape.name}.http").write_bytes(shape.text)
        yield files


def monitored(
    process: subprocess.Popen[str],
    observer: Observer,
    on_window: OnWindow = str,
    on_armed: Callable[[], object] = bool,
) -> Generated:
    """Reads both pipes to their end, and has samples taken at the start and end of the window.

    `on_armed` is called when a load generator that waits for its start is connected. The report is
    read in a thread of its own: a pipe holds 64 KiB (pipe(7)), and a load generator that waits for
    room in one does not end the other.
    """
    assert process.stderr is not None
    assert process.stdout is not None
    found, complaints = Generated(), []
    with ThreadPoolExecutor(1) as reader:
        report = reader.submit(process.stdout.read)
        for line in process.stderr:
            if line.startswith("window open"):
                on_window("open")
                observer.window_opened()
                found.opened = time.monotonic_ns(), processes.waited_ns([process.pid])
                found.times.opened_ns = _event_ns(line)
            elif line.startswith("window close"):
                on_window("close")
                found.closed = time.monotonic_ns(), processes.waited_ns([process.pid])
                observer.window_closed()
                found.times.closed_ns = _event_ns(line)
            elif line == "armed\n":
                on_armed()
            elif not line.startswith("window "):
                complaints.append(line.strip())
        text = report.result()
    process.wait()
    found.report = msgspec.json.decode(text) if text else None
    found.stderr, found.code = " ".join(complaints), process.returncode
    return found


def _event_ns(line: str) -> int | None:
    """The time of an event of the window, the third word of its line, if there is one."""
    words = line.split()
    return int(words[2]) if len(words) > 2 and words[2].isdigit() else None


def _require_responses(spec: LoadSpec, report: Report) -> None:
    for arm, measurement in zip(spec.arms, report["targets"], strict=True):
        if not measurement["requests"]:
            kinds = [f"{count} {kind}" for kind, count in measurement["errors"].items() if count]
            asked = spec.workload.connections
            # All of them wait at once, so a slow server may not get to the first in time.
            hint = f"{asked} {plural(asked, 'connection')} may be too many for it (-c)"
            why = f"errors: {', '.join(kinds)}" if kinds else hint
            window = f"window of {spec.timing.window_ns / 1e9:g} s"
            raise LoadgenError(f"{arm} gave no answer in the {window}; {why}", arm=arm)


def seconds_at_most(spec: LoadSpec) -> float:
    """How long the load generator may take, after which it hangs.

    In time slices the window is whole cycles after a half one or a warm-up. A slice waits for its
    responses, so a slow target may take longer than its share.
    """
    timing = spec.timing
    running_ns = timing.warmup_ns + timing.window_ns
    if timing.slice_ns is not None:
        cycle_ns = 2 * len(spec.urls) * timing.slice_ns
        cycles = -(-timing.window_ns // cycle_ns)
        before_ns = timing.warmup_ns + cycle_ns // 2
        running_ns = max(running_ns, before_ns + cycles * cycle_ns)
    return (timing.idle_watch_ns + running_ns) / 1e9 * 2 + spec.grace_s


# How the load generator verifies bodies.
VERIFY = {model.Match.BYTES: "all", model.Match.LENGTH: "length"}


def command(
    spec: LoadSpec, files: Path, cores: model.CoreAssignment, share: Share | None = None
) -> list[str]:
    """The words that start the load generator; `files` is the folder of bodies and requests.

    With a share it waits for its start, and sends that part of the load.
    """
    work, timing = spec.workload, spec.timing
    part = share or Share(number=0, of=1)
    connections = part.connections(work.connections)
    threads = min(len(cores.generator), connections)
    paced = work.rate_rps is not None
    options: dict[str, object] = {
        "-c": connections,
        "-t": 1 if paced else threads,
        "-d": f"{timing.window_ns}ns",
        "--warmup": f"{0 if timing.slice_ns else timing.warmup_ns}ns",
        "--pipeline": work.pipeline,
        "--seed": spec.seed,
        "--cores": ",".join(map(str, cores.generator)),
        "--verify": VERIFY.get(work.match, "none"),
        "--idle": "spin" if paced else "block",
    }
    if spec.requests is not None:
        options["-n"] = part.requests(spec.requests)
    if timing.idle_watch_ns:
        options["--idle-watch"] = f"{timing.idle_watch_ns}ns"
    if not work.websocket:
        options["--expect-status"] = spec.status
    if spec.body is not None and work.match is model.Match.BYTES:
        options["--expect-body"] = f"@{files / 'body'}"
    words = [*PROGRAM, "load", "--json", "--events"]
    if share is not None:
        words.append("--armed")
    options |= _pace(spec, part)
    words += [word for name, value in options.items() for word in (name, str(value))]
    if work.connection_mode is model.ConnectionMode.CLOSE:
        words.append("--no-keepalive")
    if any(url.startswith("https:") for url in spec.urls):
        words.append("--insecure")
    words += _request(work, files)
    for root in spec.roots:
        words += ["--watch", str(root or 0)]
    return [*words, *spec.urls]


def _pace(spec: LoadSpec, part: Share) -> dict[str, object]:
    """The options of an open loop; none of a closed one."""
    rate_rps, timing = spec.workload.rate_rps, spec.timing
    options: dict[str, object] = {} if rate_rps is None else {"-R": part.rate(rate_rps)}
    if timing.slice_ns is not None:
        # To each arm its share of the rate, while all of them have their turns.
        requests = round(timing.warmup_ns / 1e9 * (rate_rps or 0) / len(spec.urls))
        options |= {
            "--slice": f"{timing.slice_ns}ns",
            "--warmup-requests": part.requests(requests),
        }
    if part.slot_ns is not None:
        options["--slot"] = f"{part.slot_ns}ns"
    return options


def _request(work: model.Workload, files: Path) -> list[str]:
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


def _sent_body(work: model.Workload) -> bytes:
    return work.message if work.websocket else work.body


def _measurement(
    spec: LoadSpec, report: Report, number: int, seen: Observation
) -> model.ArmMeasurement:
    """That of one arm: what the load generator reports under the same names, and the rest."""
    arm, root, measured = spec.arms[number], spec.roots[number] or 0, report["targets"][number]
    host = seen.host.arms[number]
    rss_bytes, swap_bytes = host.memory_bytes or (None, None)
    found = measured | {
        "arm": arm,
        "cpu_ns": measured["watched_cpu_ns"],
        "cpu_user_fraction": host.user_fraction,
        "latency_ns": {key: int(value) for key, value in measured["latency_ns"].items()},
        "rss_bytes_peak": rss_bytes,
        "migrations_per_second": host.migrations_per_second,
        "swap_bytes": swap_bytes,
        "major_faults": host.major_faults,
        "active_duration_ns": measured["slice_duration_ns"],
        "slice_cpu_ns": measured["slice_cpu_ns"] or (),
        "slices": measured["slices"] or (),
        "warmup_requests": spec.warmup_requests.get(arm),
        "warmup_rps": spec.warmup_rps.get(arm),
        "listen_limit": host.listen_limit,
        "listen_drops": host.listen_drops,
    }
    if not root:
        found |= {"cpu_ns": None, "slice_cpu_ns": (), "slices": (), "idle_cpu_ns_per_s": None}
    if seen.measured:
        found |= seen.measured[number]
    return msgspec.convert(found, model.ArmMeasurement)


def _conditions(
    spec: LoadSpec,
    report: Report,
    measurements: Sequence[model.ArmMeasurement],
    seen: Observation,
    said: Generated,
    cores: model.CoreAssignment,
) -> model.MachineConditions:
    known = [one.cpu_ns for one in measurements if one.cpu_ns is not None]
    cores_ns = max(one.duration_ns for one in measurements) * len(cores.server)
    host = seen.host
    found = model.MachineConditions(
        generator_busy_fraction=max(thread["busy_fraction"] for thread in report["threads"]),
        generator_cpu_cores=sum(thread["busy_fraction"] for thread in report["threads"]),
        generator_busy_polls=spec.workload.rate_rps is not None,
        server_cores_busy_fraction=(
            sum(known) / cores_ns if len(known) == len(measurements) else None
        ),
        steal_fraction=host.steal_fraction,
        foreign_fraction=host.foreign_fraction,
        tcp_segments=host.tcp_segments,
        tcp_retransmits=host.tcp_retransmits,
        tcp_timeouts=host.tcp_timeouts,
        listen_overflows=host.listen_overflows,
        softirq_fraction=host.softirq_fraction,
        longest_gap_ns=report["longest_gap_ns"],
        longest_stall_ns=report["longest_stall_ns"],
        major_faults=host.major_faults,
        kernel_cpu_ns=host.kernel_cpu_ns,
        viewer_cpu_ns=host.viewer_cpu_ns,
        target_wait_fraction=host.target_wait_fraction,
        generator_wait_fraction=said.wait_fraction,
    )
    return updated(found, **{**seen.conditions, **said.conditions})
