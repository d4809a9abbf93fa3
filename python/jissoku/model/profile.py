"""A profile: samples of a target's CPU time, and its load meanwhile; and what it comes to.

The record of `jissoku profile`. Files and libraries have their last path component only.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import msgspec

from jissoku.model.run import CoreAssignment, Machine, Workload
from jissoku.request import ProfileRequest

SCHEMA = "jissoku.profile/1"

KERNEL = "[kernel]"
PYTHON = "[python]"

# What stands for the functions of a reading that failed; the reason follows.
UNREAD = "(not read: "

# With fewer samples an interval reaches from a third to three times the value.
SAMPLES_MIN = 10

# The part of the CPU time that samples may miss by chance: each thread's first sample comes after a
# whole period.
UNSAMPLED_MIN = 0.05

# A load of which a smaller part was answered was not the one that was asked for.
REACHED_MIN = 0.95

# Functions of JavaScript without a name; as the sampler writes it.
ANONYMOUS = "(anonymous)"


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """A function.

    Attributes:
        function: Demangled; empty where there is no symbol.
        library: File of the program or library; `[kernel]`, `[python]`, `[javascript]`, `[jit]`,
            `[vdso]` or `[unknown]` otherwise.
        file: Source file; empty without debug information.
        line: From 1; 0 if unknown.
    """

    function: str
    library: str
    file: str = ""
    line: int = 0

    @property
    def name(self) -> str:
        """The function, with its place if it is one of many without a name; or a phrase."""
        if self.function == ANONYMOUS and self.file:
            return f"{self.function} {self.file}:{self.line}"
        return self.function or "(no symbol)"


class ProfiledThread(msgspec.Struct, frozen=True, kw_only=True):
    """A thread, by its process (counted from 0) and names."""

    process: int
    program: str
    name: str


class SampledStack(msgspec.Struct, frozen=True, kw_only=True):
    """A stack: thread and functions by index, innermost first, and its number of samples."""

    thread: int
    frames: tuple[int, ...]
    count: int


class WeightedStack(msgspec.Struct, frozen=True, kw_only=True):
    """A stack that was met `count` times, and stands for this many samples of CPU time."""

    thread: int
    frames: tuple[int, ...]
    samples: float
    count: int


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """The output of the sampler (`jissoku sample`).

    Attributes:
        clock: `cpu-time` or `cycles`.
        period: Nanoseconds or cycles per sample.
        lost: Records that did not fit into the sampler's buffer.
        cut_stacks: Samples with an incomplete stack.
        counted_ns: CPU time that the sampled events counted themselves, in nanoseconds, with that
            of processes that ended before their first sample; None if unknown.
        interpreted: Stacks of interpreters, sampled separately at random times.
        notes: Missing data, in sentences.
    """

    clock: str
    period: int
    duration_ns: int
    samples: int
    kernel_samples: int
    sees_kernel: bool
    lost: int
    throttled: int
    cut_stacks: int
    frames: tuple[Frame, ...]
    threads: tuple[ProfiledThread, ...]
    stacks: tuple[SampledStack, ...]
    interpreted: tuple[SampledStack, ...] = ()
    notes: tuple[str, ...] = ()
    counted_ns: int | None = None
    processes_started: int = 0

    @property
    def native(self) -> Iterator[WeightedStack]:
        for one in self.stacks:
            yield WeightedStack(
                thread=one.thread, frames=one.frames, samples=one.count, count=one.count
            )

    @property
    def as_written(self) -> Iterator[WeightedStack]:
        """Stacks as the program was written: of threads whose interpreter was read, its functions.

        An interpreted function then has the native code and kernel functions that it called.
        """
        readings: Counter[int] = Counter()
        for read in self.interpreted:
            readings[read.thread] += read.count
        taken: Counter[int] = Counter()
        for one in self.native:
            taken[one.thread] += one.count
            if not readings[one.thread]:
                yield one
        for read in self.interpreted:
            each = taken[read.thread] / readings[read.thread]
            yield WeightedStack(
                thread=read.thread, frames=read.frames, samples=read.count * each, count=read.count
            )

    def total(self, cpu_ns: int) -> float:
        """The number of samples there would be if all of this CPU time had been sampled."""
        if self.clock != "cpu-time":
            return float(self.samples)
        if not self.sees_kernel:
            return max(float(self.samples), cpu_ns / self.period)
        return self.samples + self.unsampled

    @property
    def unsampled(self) -> float:
        """CPU time of processes that ended before their first sample, in samples.

        What else is missing is of other causes, such as timers that are late where a server sleeps
        and wakes thousands of times a second. A process that has no sample used less than one.
        """
        if self.counted_ns is None or self.clock != "cpu-time" or not self.sees_kernel:
            return 0.0
        counted = self.counted_ns / self.period
        missing = min(counted - self.samples - self.lost, self.processes_started)
        return missing if missing > UNSAMPLED_MIN * counted else 0.0


class CpuShare(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the target's CPU time.

    Attributes:
        innermost: The functions that the time was used in, each as `library: function`, with its
            own nanoseconds per request; most expensive first.
        callers: The functions that called the outermost of those looked for, likewise.
    """

    share: float
    samples: int
    ns_per_request: float
    innermost: tuple[tuple[str, float], ...]
    callers: tuple[tuple[str, float], ...] = ()


class ProfileObservation(msgspec.Struct, frozen=True, kw_only=True):
    """Samples under load, and the CPU time that they divide."""

    requests: int
    cpu_ns: int
    samples: Samples

    @property
    def cpu_ns_per_request(self) -> float:
        return self.cpu_ns / self.requests if self.requests else 0.0

    def share(
        self, matches: Callable[[Frame], bool], excluding: Callable[[Frame], bool] | None = None
    ) -> CpuShare:
        """CPU time in stacks with a function that matches and none that is excluded.

        An interpreted function is in no native stack, so the interpreter's stacks, if they were
        sampled, are examined too, and the larger share counts.
        """
        native, interpreted = self.samples.stacks, self.samples.interpreted
        total = self.samples.total(self.cpu_ns)
        readings = sum(stack.count for stack in interpreted)
        threads = {stack.thread for stack in interpreted}
        theirs = sum(stack.count for stack in native if stack.thread in threads)
        whole = readings * total / theirs if theirs else 0.0
        return max(
            self._share(native, total, matches, excluding),
            self._share(interpreted, whole, matches, excluding),
            key=lambda one: one.share,
        )

    @property
    def processes_per_request(self) -> float:
        return self.samples.processes_started / self.requests if self.requests else 0.0

    @property
    def unsampled(self) -> CpuShare:
        """CPU time of processes that ended before they were sampled."""
        total = self.samples.total(self.cpu_ns)
        share = self.samples.unsampled / total if total else 0.0
        return CpuShare(
            share=share,
            samples=round(self.samples.unsampled),
            ns_per_request=share * self.cpu_ns_per_request,
            innermost=(),
        )

    def _share(
        self,
        stacks: Sequence[SampledStack],
        total: float,
        matches: Callable[[Frame], bool],
        excluding: Callable[[Frame], bool] | None,
    ) -> CpuShare:
        frames = self.samples.frames
        wanted = {index for index, frame in enumerate(frames) if matches(frame)}
        barred = set()
        if excluding is not None:
            barred = {index for index, frame in enumerate(frames) if excluding(frame)}
        found: Counter[str] = Counter()
        callers: Counter[str] = Counter()
        for stack in stacks:
            indices = stack.frames
            if not wanted.isdisjoint(indices) and barred.isdisjoint(indices):
                found[_described(frames[indices[0]])] += stack.count
                outermost = max(at for at, frame in enumerate(indices) if frame in wanted)
                named = (frames[frame] for frame in indices[outermost + 1 :])
                caller = next((frame for frame in named if frame.function), None)
                if caller is not None:
                    callers[_described(caller)] += stack.count
        met = sum(found.values())
        each = self.cpu_ns_per_request / total if total else 0.0
        return CpuShare(
            share=met / total if total else 0.0,
            samples=met,
            ns_per_request=met * each,
            innermost=_ranked(found, each),
            callers=_ranked(callers, each),
        )


def _described(frame: Frame) -> str:
    return f"{frame.library}: {frame.name}"


def _ranked(counts: Counter[str], each: float) -> tuple[tuple[str, float], ...]:
    """Names by falling count, with nanoseconds per request."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple((name, count * each) for name, count in ranked)


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A target's profile under one load.

    CPU time is that of its processes in the window, by the kernel's accounting. The request is as
    in `Run`; None also of `compare --profile`, whose run has it.
    """

    target: str
    version: str
    lab: str
    workload: Workload
    cores: CoreAssignment
    machine: Machine
    window_ns: int
    requests: int
    cpu_ns: int
    samples: Samples
    request: ProfileRequest | None = None
    schema: str = SCHEMA

    @property
    def cpu_ns_per_request(self) -> float:
        return self.cpu_ns / self.requests

    @property
    def answered_rps(self) -> float:
        return self.requests / self.window_ns * 1e9

    @property
    def is_reached(self) -> bool:
        """Whether the target answered the offered rate; what is in work at the end counts, too."""
        offered = (self.workload.rate_rps or 0) * self.window_ns / 1e9
        return self.requests + self.workload.connections >= REACHED_MIN * offered


class ProfileRow(msgspec.Struct, frozen=True, kw_only=True):
    """CPU time per request of one function, library, thread, line or part.

    Attributes:
        place: Its container: the library of a function, the function of a line; may be empty.
        ns: Nanoseconds without callees, with its 95 % interval (Wilson's, of the samples).
        ns_with_callees: None for rows that have none.
    """

    name: str
    place: str = ""
    samples: int
    ns: float
    ns_low: float
    ns_high: float
    ns_with_callees: float | None = None


class TreeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A function below the one that called it: the nearest row before with a smaller depth.

    CPU time per request in nanoseconds, on this way, without and with callees.
    """

    depth: int
    name: str
    place: str
    samples: int
    ns: float
    ns_with_callees: float


class ProfileSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Tables of one profile; within each, rows are ordered by cost.

    Attributes:
        parts: User space, each system call, interrupts and page faults: they add up to the CPU
            time.
        functions: They add up to the CPU time too. Of threads whose interpreter was sampled,
            interpreted functions with the native code and kernel functions that they called.
        native: Functions of native code and of the kernel; empty where `functions` has the same.
        tree: Callees under their callers, most expensive first; without small branches.
        too_few: CPU time per request of the functions that have too few samples for a value.
        sampled_ns: CPU time per request by samples alone; None if samples do not count time.
        remarks: Missing data and doubts, in sentences.
    """

    profile: Profile
    total_ns: float
    sampled_ns: float | None
    parts: tuple[ProfileRow, ...]
    libraries: tuple[ProfileRow, ...]
    threads: tuple[ProfileRow, ...]
    functions: tuple[ProfileRow, ...]
    native: tuple[ProfileRow, ...]
    tree: tuple[TreeRow, ...]
    lines: tuple[ProfileRow, ...]
    too_few: float
    remarks: tuple[str, ...]


class DifferenceRow(msgspec.Struct, frozen=True, kw_only=True):
    """The contribution of one function, library or part to the difference of two targets.

    Attributes:
        ns: CPU time per request in each, in nanoseconds, with the upper ends of 95 % intervals.
        samples: Of fewer than ten only the upper end is known.
        difference_ns: Second minus first, with its 95 % interval.
        part: Fraction of the total difference; None if that is too small to divide by.
    """

    name: str
    place: str
    ns: tuple[float, float]
    ns_high: tuple[float, float]
    samples: tuple[int, int]
    difference_ns: float
    low_ns: float
    high_ns: float
    part: float | None

    @property
    def is_certain(self) -> bool:
        return self.low_ns > 0 or self.high_ns < 0


class ProfileDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The difference of two targets by function, library and part; largest first.

    Attributes:
        difference_ns: Measured CPU time per request of the second minus that of the first.
        unexplained_ns: The part of it that is not in functions whose difference is certain.
    """

    first: ProfileSummary
    second: ProfileSummary
    difference_ns: float
    parts: tuple[DifferenceRow, ...]
    libraries: tuple[DifferenceRow, ...]
    functions: tuple[DifferenceRow, ...]
    unexplained_ns: float
