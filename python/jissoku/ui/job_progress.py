"""What is known of jobs: the events so far, and how long they take.

A position names an events file of the job and an offset in it. A browser that reconnects sends the
last one, so that it misses no event.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from jissoku import inference, records
from jissoku.errors import InputError
from jissoku.model.trial import Event, EventKind
from jissoku.records.run_folder import EVENTS_FILE, read_events
from jissoku.report import LiveTable, live_table
from jissoku.report.format import clean, ratio, sanitized, unit_name
from jissoku.report.svg import Chart
from jissoku.system.processes import seconds_since
from jissoku.ui.jobs import Job
from jissoku.ui.live_charts import live_charts

COUNTED, REJECTED, FAILED = "\N{BLACK CIRCLE}", "\N{WHITE CIRCLE}", "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the events of a job: bytes, in a folder below the job's or in that itself."""

    part: str = ""
    offset: int = 0

    def __str__(self) -> str:
        """As the value of `Last-Event-ID`."""
        return f"{self.offset}:{self.part}"


def read_position(text: str) -> Position:
    """The position in a request; an invalid one is the beginning."""
    offset, _, part = text.partition(":")
    return Position(part, int(offset)) if offset.isascii() and offset.isdigit() else Position()


def new_events(folder: Path, position: Position) -> tuple[tuple[Event, ...], Position]:
    """Events after a position, and the position after them.

    An experiment has a run for each workload, one after the other: when one has no more events, the
    next is read. Only existing parts are opened, because positions come from requests.
    """
    parts = _parts(folder)
    if position.part not in parts:
        position = Position(parts[0]) if parts else Position()
    found: list[Event] = []
    for part in parts[parts.index(position.part) :] if parts else []:
        offset = position.offset if part == position.part else 0
        events, offset = read_events(folder / part, offset)
        found += events
        position = Position(part, offset)
    return tuple(found), position


def _parts(folder: Path) -> list[str]:
    """Folders with events, in the order in which their runs started."""

    def started(part: str) -> int:
        # The header is written once, before the first event; the events file changes all the time.
        try:
            return (folder / part / "run.json").stat().st_mtime_ns
        except OSError:
            return 0

    parts = [str(path.parent.relative_to(folder)) for path in folder.rglob(EVENTS_FILE)]
    named = ["" if part == "." else part for part in parts]
    return sorted(named, key=lambda part: (started(part), part))


@dataclass(slots=True)
class Progress:
    """The state of a job for a page, computed from its events and the records so far.

    `marks` are signs by arm: trials that were counted, rejected, failed. `so_far` is the cost by
    arm, no verdict; a run with a single look has no `table`, since its values so far are none.
    """

    done: int = 0
    total: int = 0
    seconds_left: float = 0.0
    is_ended: bool = False
    marks: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    lines: list[str] = field(default_factory=list)
    so_far: dict[str, str] = field(default_factory=dict)
    table: LiveTable | None = None
    charts: tuple[Chart, ...] = ()

    def add(self, event: Event) -> None:
        if event.kind is EventKind.START:
            self.marks.clear()
            self.done = self.total = 0
        elif event.kind is EventKind.TRIAL:
            self.done, self.total = event.done, event.total
            self.seconds_left = event.seconds_left
            sign = FAILED if event.failure else REJECTED if event.rejected else COUNTED
            for arm in event.arms:
                self.marks[arm].append(sign)
            if event.failure:
                names = ", ".join(event.arms)
                self.lines.append(clean(f"Block {event.block + 1}, {names}: {event.failure}"))
        elif event.text or event.kind is EventKind.NOTE:
            self.lines.append(clean(event.text))
        self.is_ended = event.kind is EventKind.END

    def follow(self, folder: Path, position: Position) -> Position:
        """Takes the events of a job's folder after a position; gives the one after them."""
        events, position = new_events(folder, position)
        for event in events:
            self.add(event)
        return position

    def read_values(self, folder: Path) -> None:
        """Reads what the records of a run say so far; nothing if there are too few trials."""
        self.charts = ()
        try:
            run, trials = records.read(folder)
            self.charts = live_charts(run, trials)
            summary = inference.summarise(run, trials, has_curves=False)
        except (InputError, ValueError, KeyError, ArithmeticError, msgspec.MsgspecError):
            self.so_far, self.table = {}, None
            return
        unit = unit_name(summary)
        self.so_far = {
            known.arm.name: f"{ratio(point.relative_cost)} {unit}"
            for known in summary.arm_summaries
            for point in known.points
            if point.load == summary.main_load and point.relative_cost is not None
        }
        is_sequential = summary.run.horizon and summary.loads
        self.table = live_table(sanitized(summary)) if is_sequential else None


def log_end(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8000))  # Of longer ones the end is shown.
            return clean(file.read().decode(errors="replace"))
    except OSError:
        return ""


MINUTE_S = 60.0

# Below this, seconds are named, and from this ratio on both ends of a span.
SECONDS_MAX = 90.0
ALIKE = 1.25


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
    """What is expected of a job; `starts` from now on, `place` in the queue from 1; 0: none."""

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


def job_times(jobs: Sequence[Job], *, is_held: bool = False) -> dict[str, JobTimes]:
    """By id what is expected of jobs that have not ended; `is_held`: the next one has to wait."""
    starts, place = Span() if is_held else NOW, 0
    found = {}
    for job in sorted((job for job in jobs if job.is_live), key=lambda job: job.is_waiting):
        takes = Span(job.seconds_min, job.seconds_max)
        if job.is_waiting:
            place += 1
            found[job.id] = JobTimes(place=place, takes=takes, left=NOW, starts=starts)
            starts += takes
        else:
            left = _left(job, takes)
            found[job.id] = JobTimes(place=0, takes=takes, left=left, starts=NOW)
            starts += left
    return found


def _left(job: Job, takes: Span) -> Span:
    """What a running job still takes: at least what its trials show and its estimate leaves."""
    progress = Progress()
    progress.follow(Path(job.folder), Position())
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
