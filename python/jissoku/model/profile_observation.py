"""A target's CPU time under the load of `explain`, for the rules."""

from collections import Counter
from collections.abc import Callable

import msgspec

from jissoku.model.profile import Frame, Samples


class CpuShare(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the CPU time.

    Attributes:
        share: Fraction of the target's CPU time.
        samples: Number of samples it is computed from.
        ns_per_request: CPU time per request in nanoseconds.
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
        """Measured CPU time per request in nanoseconds."""
        return self.cpu_ns / self.requests if self.requests else 0.0

    def share(
        self, matches: Callable[[Frame], bool], excluding: Callable[[Frame], bool] | None = None
    ) -> CpuShare:
        """CPU time in stacks with a function that matches and none that is excluded.

        An interpreted function is in no native stack, so the interpreter's stacks, if they were
        sampled, are examined too, and the larger share counts.
        """
        samples = self.samples
        native = [(stack.frames, stack.count) for stack in samples.stacks]
        read = [(stack.frames, stack.count) for stack in samples.interpreted]
        total = self.samples.total(self.cpu_ns)
        found = self._share(native, total, matches, excluding)
        readings = float(sum(count for _, count in read))
        threads = {stack.thread for stack in samples.interpreted}
        theirs = sum(stack.count for stack in samples.stacks if stack.thread in threads)
        whole = readings * total / theirs if theirs else 0.0
        of_interpreter = self._share(read, whole, matches, excluding)
        return max(found, of_interpreter, key=lambda one: one.share)

    @property
    def processes_per_request(self) -> float:
        """How many processes the target started for each request."""
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
        stacks: list[tuple[tuple[int, ...], int]],
        total: float,
        matches: Callable[[Frame], bool],
        excluding: Callable[[Frame], bool] | None,
    ) -> CpuShare:
        frames = self.samples.frames
        wanted = {index for index, frame in enumerate(frames) if matches(frame)}
        barred = {
            index
            for index, frame in enumerate(frames)
            if excluding is not None and excluding(frame)
        }
        found: Counter[str] = Counter()
        callers: Counter[str] = Counter()
        for stack, count in stacks:
            if not wanted.isdisjoint(stack) and barred.isdisjoint(stack):
                found[_described(frames[stack[0]])] += count
                outermost = max(at for at, frame in enumerate(stack) if frame in wanted)
                named = (frames[frame] for frame in stack[outermost + 1 :])
                caller = next((frame for frame in named if frame.function), None)
                if caller is not None:
                    callers[_described(caller)] += count
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
