"""Runs the stopwatch in a process of its own, and looks at the machine at both of its edges.

The stopwatch reads the targets' CPU time itself, at the very instants at which it starts and ends
counting. What is read here, on its word, is what may be a millisecond off: memory, ticks, kernel
counters.
"""

import dataclasses
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from jissoku.errors import JissokuError
from jissoku.model import Conditions, Cores, Lane, Latency, Reuse, Workload
from jissoku.observe import conditions, kernel_threads, memory

# What `jissoku load --json` prints; its schema is the stopwatch's own.
Report = dict[str, Any]

# What the stopwatch may take beyond warm-up and window before it is ended: connecting ten thousand
# connections and waiting for the last answers both fit.
GRACE_S = 20


@dataclass(frozen=True, slots=True)
class _Said:
    """What came from the stopwatch, and what was read on its word.

    Attributes:
        rss: Resident bytes when the window closed, by the target's root.
        kernel_cpu_ns: Of the kernel's own threads, in the window.
        report: What it printed; empty where it measured nothing.
    """

    rss: dict[int, int]
    kernel_cpu_ns: int | None
    report: bytes
    complaint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lap:
    """What the stopwatch is to do.

    Attributes:
        urls: One per arm, with the path: `http://host:port/path` or `unix:/socket:/path`.
        roots: The targets' first processes, in the same order; None for one that is not to be
            found.
        body: The right answer's body, byte for byte; None when the arms' answers differ, and each
            is held to its own first one.
        seed: Decides the order of sends.
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


class StopwatchError(JissokuError):
    """The stopwatch measured nothing; the message is its own.

    Attributes:
        arm: Whose answers did not come; empty when it cannot be told.
    """

    def __init__(self, message: str, *, arm: str = "") -> None:
        """Keeps who is to blame beside what happened."""
        super().__init__(message)
        self.arm = arm


def run(
    lap: Lap, cores: Cores, *, started: Callable[[subprocess.Popen[str]], object]
) -> tuple[tuple[Lane, ...], Conditions]:
    """Runs one lap and returns what was counted, per arm, and what the machine did meanwhile.

    Args:
        started: Is handed the stopwatch's process, so that an interruption can end it.

    Raises:
        StopwatchError: No answer could be counted, or the stopwatch died.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        files = Path(folder)
        (files / "body").write_bytes(lap.body or b"")
        for shape in lap.workload.shapes:
            (files / f"{shape.name}.http").write_bytes(shape.text)
        before = conditions.snapshot(_roots(lap))
        with subprocess.Popen(
            _command(lap, files, cores),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            watchdog = threading.Timer(_seconds_at_most(lap), process.kill)
            watchdog.start()
            started(process)
            try:
                said = _attend(process, before)
            finally:
                watchdog.cancel()
                process.kill()  # It has ended long ago, unless something went wrong here.
    if not said.report:
        raise StopwatchError(
            said.complaint or f"the stopwatch ended with code {process.returncode}"
        )
    report = msgspec.json.decode(said.report)
    _must_have_answers(lap, report)
    after = conditions.snapshot(_roots(lap))
    seen = conditions.change(before, after, cores.server)
    found = dataclasses.replace(
        _conditions(lap, report, seen, cores), kernel_cpu_ns=said.kernel_cpu_ns
    )
    return _lanes(lap, report, seen, said.rss), found


def _attend(process: subprocess.Popen[str], before: conditions.Snapshot) -> _Said:
    """Reads both pipes to their end; what is read at the window's edges is read meanwhile."""
    assert process.stderr is not None
    assert process.stdout is not None
    rss: dict[int, int] = {}
    opened: dict[int, int] = {}
    kernel_cpu_ns = None
    complaint: list[str] = []
    for line in process.stderr:
        if line.startswith("window open"):
            opened = kernel_threads.cpu_ns()
        elif line.startswith("window close"):
            kernel_cpu_ns = kernel_threads.spent_ns(opened, kernel_threads.cpu_ns())
            rss = {root: memory.rss_bytes(pids) for root, pids in before.targets.items()}
        elif not line.startswith("window "):
            complaint.append(line.strip())
    told = process.stdout.read()
    process.wait()
    return _Said(rss, kernel_cpu_ns, told.encode(), " ".join(complaint))


def _roots(lap: Lap) -> list[int]:
    return [root for root in lap.roots if root is not None]


def _must_have_answers(lap: Lap, report: Report) -> None:
    for arm, lane in zip(lap.arms, report["lanes"], strict=True):
        if not lane["requests"]:
            kinds = [f"{count} {kind}" for kind, count in lane["errors"].items() if count]
            errors = f"; errors: {', '.join(kinds)}" if kinds else ""
            raise StopwatchError(f"{arm} gave no answer in the window{errors}", arm=arm)


def _seconds_at_most(lap: Lap) -> float:
    return (lap.warmup_ns + lap.window_ns) / 1e9 + GRACE_S


def _command(lap: Lap, files: Path, cores: Cores) -> list[str]:
    work = lap.workload
    threads = min(len(cores.stopwatch), work.connections)
    paced = work.rate_rps is not None
    options: dict[str, object] = {
        "-c": work.connections,
        "-t": 1 if paced else threads,
        "-d": f"{lap.window_ns}ns",
        "--warmup": f"{lap.warmup_ns}ns",
        "--pipeline": work.pipeline,
        "--seed": lap.seed,
        "--cores": ",".join(map(str, cores.stopwatch)),
        "--verify": "all",
        "--expect-status": lap.status,
        "--idle": "spin" if paced else "block",
    }
    command = [sys.executable, "-m", "jissoku", "load", "--json", "--events"]
    command += [word for name, value in options.items() for word in (name, str(value))]
    if lap.body is not None:
        command += ["--expect-body", f"@{files / 'body'}"]
    if paced:
        command += ["-R", str(work.rate_rps)]
    if work.reuse is Reuse.CLOSE:
        command.append("--no-keepalive")
    command += _request(work, files)
    for root in lap.roots:
        command += ["--watch", str(root or 0)]
    return [*command, *lap.urls]


def _request(work: Workload, files: Path) -> list[str]:
    if work.shapes:
        return ["--raw", ",".join(str(files / f"{shape.name}.http") for shape in work.shapes)]
    words = ["-m", work.method]
    for name, value in work.headers:
        words += ["-H", f"{name}: {value}"]
    if work.body:
        words += ["--body", work.body.decode()]
    return words


def _lanes(
    lap: Lap, report: Report, seen: conditions.Change, rss: dict[int, int]
) -> tuple[Lane, ...]:
    return tuple(
        Lane(
            arm=arm,
            requests=lane["requests"],
            errors=lane["errors"],
            duration_ns=lane["duration_ns"],
            cpu_ns=lane["watched_cpu_ns"] if root else None,
            cpu_user_fraction=seen.user_fractions.get(root) if root else None,
            rate_rps_offered=lane["rate_rps_offered"],
            lag_ns_p99=lane["lag_ns_p99"],
            latency_ns=Latency(**{key: int(value) for key, value in lane["latency_ns"].items()}),
            histogram=lane["histogram"],
            per_second=tuple(lane["per_second"]),
            rss_bytes_peak=rss.get(root) if root else None,
            connections_opened=lane["connections_opened"],
            bytes_received=lane["bytes_received"],
            migrations_per_second=seen.migrations_per_second.get(root) if root else None,
        )
        for arm, root, lane in zip(lap.arms, lap.roots, report["lanes"], strict=True)
    )


def _conditions(lap: Lap, report: Report, seen: conditions.Change, cores: Cores) -> Conditions:
    lanes = report["lanes"]
    known = [lane["watched_cpu_ns"] for lane in lanes if lane["watched_cpu_ns"] is not None]
    span_ns = max(lane["duration_ns"] for lane in lanes) * len(cores.server)
    return Conditions(
        generator_busy_fraction=max(thread["busy_fraction"] for thread in report["threads"]),
        generator_cores=sum(thread["busy_fraction"] for thread in report["threads"]),
        spins=lap.workload.rate_rps is not None,
        server_cores_busy_fraction=sum(known) / span_ns if len(known) == len(lanes) else None,
        steal_fraction=seen.steal_fraction,
        foreign_fraction=seen.foreign_fraction,
        tcp_retransmits=seen.tcp_retransmits,
        listen_overflows=seen.listen_overflows,
        longest_gap_ns=report["longest_gap_ns"],
        major_faults=seen.major_faults,
    )
