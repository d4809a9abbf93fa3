"""Samples the CPU time of a target's processes, by a separate program on the same machine."""

import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Protocol, Self

import msgspec

from jissoku.errors import JissokuError
from jissoku.model import CoreAssignment, updated
from jissoku.model.profile import Samples
from jissoku.system.processes import process_tree
from jissoku.system.program import PROGRAM
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.process import RunningTarget

# With these Node writes the names of compiled functions to a file for the sampler; a JVM writes
# them on the sampler's request, and keeps frame pointers only with this option.
RUNTIME_ENVIRONMENT = {
    "NODE_OPTIONS": "--perf-basic-prof",
    "JAVA_TOOL_OPTIONS": "-XX:+PreserveFramePointer",
}

SCHEMA = "jissoku.sample/1"

# Seconds beyond the load's own time, to start, connect and receive the last answers.
GRACE_S = 60

# Looking up names in programs with much debug information takes seconds.
NAMES_LIMIT_S = 120

# Samples per second of CPU time. One costs up to 28 µs on a virtual machine, most of it the timer's
# interrupt (decision 42), so this adds less than 1 %. It is no multiple of a timer's rate.
FREQUENCY_HZ = 199

# Where a window is short and its CPU time is only divided: about one per millisecond.
FREQUENCY_SHORT_HZ = 997


class ProfilerError(JissokuError):
    """Nothing was sampled; the message is the sampler's own."""


class Sampler(Protocol):
    """Samples a target's processes while it is entered; the samples of the window are kept."""

    def __enter__(self) -> Self:
        """Waits until it samples; ProfilerError if it may not, or the process does not exist."""

    def on_window(self, edge: str) -> None:
        """Called with `open` and `close` at the start and end of the window."""

    def samples(self) -> Samples:
        """Ends it; ProfilerError if there is no record."""

    def __exit__(self, *_: object) -> None:
        """Ends it without samples, unless it has ended."""


class Profiler:
    """Samples a process tree, as a context manager; the samples of the window are kept."""

    def __init__(
        self, root: int, cores: CoreAssignment, *, limit_s: float, frequency: int = FREQUENCY_HZ
    ) -> None:
        """Nothing is started yet; it ends by itself after `limit_s` seconds and a grace period.

        `root` is the target's first process, `frequency` in samples per second of CPU time.
        """
        own = ",".join(map(str, cores.generator))
        words = ["-F", str(frequency), "-d", f"{limit_s + GRACE_S:.0f}s", "--cores", own, str(root)]
        self._command = [*PROGRAM, "sample", *words]

    def __enter__(self) -> Self:
        """Waits until it samples; ProfilerError if it may not, or the process does not exist."""
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None, "it is a pipe"
        line = self._process.stderr.readline()
        if line.strip() != "sampling":
            rest = line + self._process.communicate()[1]
            raise ProfilerError(rest.strip().removeprefix("jissoku sample: ") or "it ended")
        return self

    def on_window(self, edge: str) -> None:
        """Marks the start of the window when it opens, and its end when it closes."""
        number = signal.SIGUSR1 if edge == "open" else signal.SIGINT
        if self._process.poll() is None:
            self._process.send_signal(number)

    def samples(self) -> Samples:
        """Ends the sampler, and reads what it printed; ProfilerError if that is no record."""
        self.on_window("close")
        try:
            text, complaint = self._process.communicate(timeout=NAMES_LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise ProfilerError(f"no names were found within {NAMES_LIMIT_S} s") from error
        try:
            found = msgspec.json.decode(text)
            if found.pop("schema", None) != SCHEMA:
                raise ProfilerError("the sampler is of another version than the lab: build both")
            return msgspec.convert(found, Samples)
        except msgspec.MsgspecError as error:
            reason = complaint.strip().removeprefix("jissoku sample: ")
            raise ProfilerError(reason or f"the sampler printed no record: {error}") from error

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def with_names(prepared: PreparedTarget) -> PreparedTarget:
    if prepared.start is None:
        return prepared
    environment = RUNTIME_ENVIRONMENT | prepared.start.environment
    return updated(prepared, start=updated(prepared.start, environment=environment))


def remove_perf_maps(running: RunningTarget) -> None:
    """Removes the files that runtimes write into /tmp and leave there."""
    for pid in process_tree(running.pid):
        with suppress(OSError):
            Path(f"/tmp/perf-{pid}.map").unlink()  # noqa: S108 - where perf looks for it
