"""The events of a running job: those so far, and those that follow.

A position names an events file of the job and an offset in it. A browser that reconnects sends the
last one, so that it misses no event.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from jissoku import inference, records
from jissoku.errors import InputError
from jissoku.model import Summary
from jissoku.model.trial import Event, EventKind
from jissoku.records.run_folder import EVENTS_FILE, read_events
from jissoku.report import LiveTable, live_table
from jissoku.report.format import clean, ratio, sanitized, unit_name

# Of longer outputs of a command the end is shown.
LOG_SHOWN = 8000

COUNTED, REJECTED, FAILED = "\N{BLACK CIRCLE}", "\N{WHITE CIRCLE}", "\N{MULTIPLICATION SIGN}"
# Marks of an arm that are shown, the newest ones.
MARKS_MAX = 120


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the events of a job.

    Attributes:
        part: Folder of a run, below the job's; empty is that folder itself.
        offset: In bytes.
    """

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

    paths = folder.rglob(EVENTS_FILE)
    parts = [str(path.parent.relative_to(folder)) for path in paths]
    named = ["" if part == "." else part for part in parts]
    return sorted(named, key=lambda part: (started(part), part))


@dataclass(frozen=True, slots=True)
class ArmProgress:
    """An arm's trials so far.

    Attributes:
        marks: A sign for each trial: counted, rejected, failed.
        so_far: Its cost as a multiple with the interval so far; no verdict.
    """

    name: str
    marks: str
    trials: int
    rejected: int
    so_far: str = ""


@dataclass(frozen=True, slots=True)
class ValuesSoFar:
    """What is known of each arm so far.

    Attributes:
        table: The same as on a terminal; None of a run with a single look, whose values so far are
            no verdict.
    """

    arms: tuple[ArmProgress, ...] = ()
    table: LiveTable | None = None


@dataclass(slots=True)
class Progress:
    """The state of a run for a page, computed from its events."""

    done: int = 0
    total: int = 0
    seconds_left: float = 0.0
    is_ended: bool = False
    marks: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    lines: list[str] = field(default_factory=list)

    def add(self, events: Sequence[Event]) -> list[str]:
        """Takes further events; returns the sentences that they add."""
        fresh = [sentence for event in events for sentence in self._add(event)]
        self.lines += fresh
        return fresh

    def _add(self, event: Event) -> Iterator[str]:
        if event.kind is EventKind.START:
            self.marks.clear()
            self.done = self.total = 0
        elif event.kind is EventKind.NOTE:
            yield clean(event.text)
        elif event.kind is EventKind.TRIAL:
            self.done, self.total = event.done, event.total
            self.seconds_left = event.seconds_left
            sign = FAILED if event.failure else REJECTED if event.rejected else COUNTED
            for arm in event.arms:
                self.marks[arm].append(sign)
            if event.failure:
                yield clean(f"Block {event.block + 1}, {', '.join(event.arms)}: {event.failure}")
        elif event.text:
            yield clean(event.text)
        self.is_ended = event.kind is EventKind.END

    def values(self, folder: Path) -> ValuesSoFar:
        """A row for each arm, and the table of a run whose verdicts hold at every moment."""
        summary = _summary(folder)
        known = {} if summary is None else _so_far(summary)
        arms = tuple(
            ArmProgress(
                name=name,
                marks="".join(marks[-MARKS_MAX:]),
                trials=len(marks),
                rejected=sum(mark != COUNTED for mark in marks),
                so_far=known.get(name, ""),
            )
            for name, marks in self.marks.items()
        )
        if summary is None or not (summary.run.horizon and summary.loads):
            return ValuesSoFar(arms)
        return ValuesSoFar(arms, live_table(sanitized(summary)))


def _summary(folder: Path) -> Summary | None:
    """Of the trials so far; None if there are too few."""
    try:
        run, trials = records.read(folder)
        return inference.summarise(run, trials, has_curves=False)
    except (InputError, ValueError, KeyError, ArithmeticError, msgspec.MsgspecError):
        return None


def _so_far(summary: Summary) -> dict[str, str]:
    """By arm the multiple at the main load."""
    unit = unit_name(summary)
    return {
        known.arm.name: f"{ratio(point.relative_cost)} {unit}"
        for known in summary.arm_summaries
        for point in known.points
        if point.load == summary.main_load and point.relative_cost is not None
    }


def log_end(log: Path) -> str:
    """The end of what a process has printed."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LOG_SHOWN))
            return clean(file.read().decode(errors="replace"))
    except OSError:
        return ""
