"""How long jobs take, and when those that wait will start."""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jissoku.design.sampling_plan import MINUTES_MAX, SAMPLING_PLANS, comparison_seconds
from jissoku.design.schedule import LOADS
from jissoku.model import Load, LoadLevel, Mode
from jissoku.model.updated import updated
from jissoku.system.processes import seconds_since
from jissoku.ui.jobs import Job, JobState
from jissoku.ui.live import Position, Progress, new_events

MINUTE_S = 60.0

# Below this, seconds are named, and from this ratio on both ends of a span.
SECONDS_MAX = 90.0
ALIKE = 1.25

# Of `jissoku explain`; with --verify also a comparison for each knob, which it has yet to choose.
EXPLAIN_S = 45.0

# Of `jissoku self-test`, for each campaign of equal arms; the other series follow from it.
PROVE_S = 57.0

# Of `jissoku publish`: for its start, for each run, and for one whose report is not there: as
# measured with the records of a quick comparison of seven.
PUBLISH_S, PUBLISHED_RUN_S, REPORTED_RUN_S = 2.0, 0.3, 1.5


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds; `high_s` None: how many at most is not known."""

    low_s: float = 0.0
    high_s: float | None = None

    def __add__(self, other: "Span") -> "Span":
        highs = self.high_s, other.high_s
        high_s = None if highs[0] is None or highs[1] is None else highs[0] + highs[1]
        return Span(self.low_s + other.low_s, high_s)

    @property
    def text(self) -> str:
        """As in `about 6 min`, `10 to 38 min`; empty if nothing is known."""
        if self.high_s is None:
            return f"at least {_duration(self.low_s)}" if self.low_s else ""
        if self.high_s <= ALIKE * self.low_s or self.high_s < MINUTE_S:
            return f"about {_duration(self.high_s)}"
        low, high = _duration(self.low_s), _duration(self.high_s)
        return f"{low.removesuffix(' min') if high.endswith(' min') else low} to {high}"


NOW = Span(0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTimes:
    """What is expected of a job.

    Attributes:
        place: In the queue, from 1; 0: it does not wait.
        takes: In all.
        left: Of a running job.
        starts: Seconds from now on; of a waiting job.
    """

    place: int
    takes: Span
    left: Span
    starts: Span

    def starts_text(self, now: dt.datetime) -> str:
        """As in `about 14:05 UTC`; empty of a job that does not wait."""
        if not self.place:
            return ""
        first = _clock(now, self.starts.low_s)
        if self.starts.high_s is None:
            return f"after {first} UTC"
        last = _clock(now, self.starts.high_s)
        return f"about {first} UTC" if first == last else f"{first} to {last} UTC"


def comparison_span(mode: Mode, arms: int, rate_rps: int | None, blocks: int | None) -> Span:
    """Of `jissoku compare` in a mode.

    Args:
        mode: Its plan.
        arms: Without the floor, which is added.
        rate_rps: A given rate is the only load.
        blocks: Given ones; None: as many as the precision needs.
    """
    plan = SAMPLING_PLANS[mode]
    if blocks is not None:
        closed = min(plan.closed_loop_blocks, blocks)
        plan = updated(plan, blocks=blocks, blocks_max=blocks, closed_loop_blocks=closed)
    loads = [Load(rate_rps=rate, level=level) for rate, level in LOADS[mode]]
    if rate_rps is not None:
        loads = [Load(rate_rps=rate_rps, level=LoadLevel.GIVEN)]
    return Span(*comparison_seconds(plan, loads, arms + 1))


def experiment_span(mode: Mode) -> Span:
    """Of `jissoku run` in a mode, whose plan fits its minutes."""
    return Span(MINUTE_S * MINUTES_MAX[mode], MINUTE_S * MINUTES_MAX[mode])


def explanation_span(*, verifies: bool) -> Span:
    """Of `jissoku explain`."""
    return Span(EXPLAIN_S, None if verifies else EXPLAIN_S)


def self_test_span(campaigns: int) -> Span:
    """Of `jissoku self-test`."""
    return Span(campaigns * PROVE_S, campaigns * PROVE_S)


def publication_span(runs: int) -> Span:
    """Of `jissoku publish`."""
    return Span(PUBLISH_S + runs * PUBLISHED_RUN_S, PUBLISH_S + runs * REPORTED_RUN_S)


def job_times(jobs: Sequence[Job], *, is_held: bool = False) -> dict[str, JobTimes]:
    """By id what is expected of each job that has not ended.

    Args:
        jobs: All, those that wait in the order in which they will run.
        is_held: Whether the next one waits for a measurement of which nothing is known.
    """
    return dict(_times(jobs, Span() if is_held else NOW))


def _times(jobs: Sequence[Job], starts: Span) -> Iterator[tuple[str, JobTimes]]:
    place = 0
    live = [job for job in jobs if job.is_live]
    for job in sorted(live, key=lambda job: job.state is JobState.WAITING):
        takes = Span(job.seconds_min, job.seconds_max)
        if job.state is JobState.WAITING:
            place += 1
            yield job.id, JobTimes(place=place, takes=takes, left=NOW, starts=starts)
            starts += takes
        else:
            left = _left(job, takes)
            yield job.id, JobTimes(place=0, takes=takes, left=left, starts=NOW)
            starts += left


def _left(job: Job, takes: Span) -> Span:
    """Of a running job: what the trials so far leave, and at least what the estimate does."""
    progress = Progress()
    progress.add(new_events(Path(job.folder), Position())[0])
    seen_s = progress.seconds_left if progress.total and not progress.is_ended else 0.0
    passed_s = seconds_since(job.start_ticks)
    low_s = max(seen_s, takes.low_s - passed_s, 0.0)
    return Span(low_s, None if takes.high_s is None else max(low_s, takes.high_s - passed_s))


def _duration(seconds: float) -> str:
    if seconds < SECONDS_MAX:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / MINUTE_S)} min"


def _clock(now: dt.datetime, seconds: float) -> str:
    return (now + dt.timedelta(seconds=seconds)).strftime("%H:%M")
