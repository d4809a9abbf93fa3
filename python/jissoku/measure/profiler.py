"""The sampler's process, and its output about a target under load."""

import signal
import subprocess
import sys
from types import TracebackType
from typing import Self

import msgspec

from jissoku.errors import JissokuError
from jissoku.measure import loadgen
from jissoku.measure.loadgen import LoadSpec
from jissoku.measure.probes import Started
from jissoku.model import ArmMeasurement, CoreAssignment
from jissoku.model.profile import Samples

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


class Profiler:
    """Samples a process tree, as a context manager; the samples of the window are kept."""

    def __init__(
        self, root: int, cores: CoreAssignment, *, limit_s: float, frequency: int = FREQUENCY_HZ
    ) -> None:
        """Nothing is started yet.

        Args:
            root: First process of the target.
            cores: The sampler runs on those of the load generator.
            limit_s: It ends by itself after this time and a grace period.
            frequency: Samples per second of CPU time.
        """
        own = ",".join(map(str, cores.generator))
        words = ["-F", str(frequency), "-d", f"{limit_s + GRACE_S:.0f}s", "--cores", own, str(root)]
        self._command = [sys.executable, "-m", "jissoku", "sample", *words]

    def __enter__(self) -> Self:
        """Starts the sampler, and waits until it samples.

        Raises:
            ProfilerError: It is not permitted to sample, or the process does not exist.
        """
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
        """Ends the sampler, and reads what it printed.

        Raises:
            ProfilerError: Its output is not a record.
        """
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

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


def profile_load(
    spec: LoadSpec, cores: CoreAssignment, *, started: Started, frequency: int = FREQUENCY_HZ
) -> tuple[ArmMeasurement, Samples]:
    """Runs one arm's load, and samples the arm in the window.

    Raises:
        LoadgenError: No answer could be counted.
        ProfilerError: Nothing could be sampled, or the CPU time cannot be read.
    """
    root = spec.roots[0]
    if root is None:
        raise ProfilerError("its processes are not known: sample a target that is started here")
    limit_s = (spec.warmup_ns + spec.window_ns) / 1e9
    with Profiler(root, cores, limit_s=limit_s, frequency=frequency) as profiler:
        measurements, _ = loadgen.run_load(
            spec, cores, started=started, on_window=profiler.on_window
        )
        return measurements[0], profiler.samples()
