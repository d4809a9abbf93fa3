"""What a load cost its targets, from counters of their host at given instants. No I/O.

The load generator reports when slices began, and how long they and rotations were. With the time
at which its window opened these are instants of our clock. Its bound translates them into those of
the targets' host, where counters were read all the time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from jissoku.errors import JissokuError
from jissoku.fleet.clock import Translation
from jissoku.fleet.wire import Counters
from jissoku.measure.observation import Observation, Report

SECOND_NS = 1_000_000_000

# What is on a straight line for longer than this, in nanoseconds and of the window, says nothing of
# its edge. Less is a warning of the trial.
GAP_NS = 50_000_000
GAP_MAX = 0.25

# A time, and the same of another end: of a slice, a rotation or the window.
Span = tuple[int, int]


class NotRead(JissokuError):  # noqa: N818 - it says what happened
    """The agent has not read its counters when it should have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """Spans of our clock, in nanoseconds.

    Attributes:
        window: From the opening to the close; in time slices that of the last rotation.
        idle: A time without load, before it.
        rotations: One slice of every arm each, in order; none without slices.
        slices: Of each arm, one in each rotation.
    """

    window: Span
    idle: Span
    rotations: tuple[Span, ...] = ()
    slices: tuple[tuple[Span, ...], ...] = ()

    @classmethod
    def of(cls, report: Report, open_ns: int, close_ns: int, idle: Span) -> "Spans":
        """With slices, `open_ns` is the time at which the first of them began."""
        targets: list[dict[str, Any]] = report["targets"]
        if not targets[0]["slices"]:
            return cls(window=(open_ns, close_ns), idle=idle)
        lengths = [one["rotation_ns"] for one in targets[0]["slices"]]
        ends = list(accumulate(lengths, initial=open_ns))
        first_ns = min(one["slices"][0]["began_ns"] for one in targets)
        return cls(
            window=(open_ns, ends[-1]),
            idle=idle,
            rotations=tuple(pairwise(ends)),
            slices=tuple(_placed(one["slices"], open_ns - first_ns) for one in targets),
        )

    def instants_ns(self) -> list[int]:
        """All ends of these spans, each once, in order."""
        own = (span for one in self.slices for span in one)
        spans = (self.window, self.idle, *self.rotations, *own)
        return sorted({end for span in spans for end in span})


def _placed(slices: Sequence[Mapping[str, int]], start_ns: int) -> tuple[Span, ...]:
    """When an arm's slices were, by when the load started."""
    began = [start_ns + one["began_ns"] for one in slices]
    lengths = [one["duration_ns"] for one in slices]
    return tuple(
        (at_ns, at_ns + length_ns) for at_ns, length_ns in zip(began, lengths, strict=True)
    )


class _Readings:
    """The counters at the ends of spans."""

    def __init__(self, spans: Spans, counters: Counters) -> None:
        self._index = {at_ns: number for number, at_ns in enumerate(spans.instants_ns())}
        self._counters = counters

    def _used(self, series: Sequence[int], span: Span) -> int:
        return series[self._index[span[1]]] - series[self._index[span[0]]]

    def cpu_ns(self, arm: int, span: Span) -> int:
        return self._used(self._counters.cpu_ns[arm], span)

    def wait_ns(self, arm: int, span: Span) -> int | None:
        found = self._counters.wait_ns
        return None if found is None else self._used(found[arm], span)

    def runs(self, arm: int, span: Span) -> int | None:
        found = self._counters.runs
        return None if found is None else self._used(found[arm], span)

    def kernel_ns(self, span: Span) -> int | None:
        # None of the kernel's threads is visible in a container.
        return self._used(self._counters.kernel_ns, span) if any(self._counters.kernel_ns) else None

    def foreign_ns(self, arms: int, span: Span) -> int | None:
        """Time of the targets' cores that was neither idle nor a target's."""
        if not self._counters.cores:
            return None
        busy_ns = (span[1] - span[0]) * self._counters.cores - self._used(
            self._counters.idle_ns, span
        )
        return max(0, busy_ns - sum(self.cpu_ns(arm, span) for arm in range(arms)))


def observation(
    report: Report, spans: Spans, counters: Counters, translation: Translation, slack_ns: int
) -> Observation:
    """What the load generator would have read itself beside the targets, and the bound of its time.

    `counters` are those at `spans.instants_ns()`, and `slack_ns` the bound of the window's edges by
    our own clock. NotRead: beside one of these instants nothing was read for too long.
    """
    lasted_ns = spans.window[1] - spans.window[0]
    if counters.gap_ns > max(GAP_NS, GAP_MAX * lasted_ns):
        raise NotRead(
            f"their CPU time was not read for {counters.gap_ns / 1e6:.0f} ms of a window of"
            f" {lasted_ns / 1e6:.0f} ms: the agent had no core"
        )
    readings, targets = _Readings(spans, counters), report["targets"]
    arms = range(len(targets))
    measured = tuple(_measured(arm, targets[arm], spans, readings, counters) for arm in arms)
    window_ns = spans.window[1] - spans.window[0]
    waits = [readings.wait_ns(arm, spans.window) for arm in arms]
    known = [wait for wait in waits if wait is not None]
    conditions = {
        "kernel_cpu_ns": readings.kernel_ns(spans.window),
        "target_wait_fraction": (
            sum(known) / window_ns if len(known) == len(waits) and window_ns else None
        ),
        "round_trip_ns": translation.round_trip_ns,
        "clock_error_ns": translation.error_ns,
        "edge_error_ns": translation.error_ns + slack_ns + counters.gap_ns,
    }
    return Observation(host=counters.host, measured=measured, conditions=conditions)


def _measured(
    arm: int,
    target: Mapping[str, Any],
    spans: Spans,
    readings: _Readings,
    counters: Counters,
) -> Mapping[str, object]:
    """The fields of `ArmMeasurement` that the load generator could not read."""
    beyond_ns, idle_ns = counters.beyond_ns[arm], spans.idle[1] - spans.idle[0]
    cpu_ns = None if beyond_ns is None else readings.cpu_ns(arm, spans.window) + beyond_ns
    found: dict[str, object] = {"cpu_ns": cpu_ns}
    if idle_ns:
        found["idle_cpu_ns_per_s"] = readings.cpu_ns(arm, spans.idle) * SECOND_NS // idle_ns
    if not spans.rotations:
        return found
    own = spans.slices[arm]
    found["slice_cpu_ns"] = tuple(readings.cpu_ns(arm, span) for span in own)
    found["slices"] = tuple(
        {
            **one,
            "wait_ns": readings.wait_ns(arm, span),
            "runs": readings.runs(arm, span),
            "rotation_cpu_ns": readings.cpu_ns(arm, rotation),
            "rotation_foreign_ns": readings.foreign_ns(len(spans.slices), rotation),
        }
        for one, span, rotation in zip(target["slices"], own, spans.rotations, strict=True)
    )
    return found
