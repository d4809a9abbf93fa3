"""Suspected changes of all series, with known causes, and the command that would confirm each."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from jissoku.errors import InputError
from jissoku.model.history_answer import ArmChange, Dismissal, Series, SeriesPoint
from jissoku.report.history_text import answer_text, change_sentence, day


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A suspected change in a series, between two neighbouring points."""

    series: Series
    before: SeriesPoint
    point: SeriesPoint
    change: ArmChange

    @property
    def key(self) -> str:
        """12 hexadecimal digits: the same as long as the records are, whatever comes later."""
        one = self.series
        facts = (one.target, one.arm, one.anchor, one.load.text, one.workload_text, one.machine)
        text = "\n".join((*facts, self.point.runs[0]))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def is_known(self) -> bool:
        """Whether a change at this place is known."""
        return bool(self.point.breaks) or not self.change.is_same

    @property
    def cause(self) -> str:
        """The time of the change, and the known changes at that time."""
        between = f"between {day(self.before.started_utc)} and {day(self.point.started_utc)}"
        known = [] if self.change.is_same else ["the target's program"]
        return f"{between}: {'; '.join([*known, *self.point.breaks]) or 'no known cause'}"

    @property
    def answer(self) -> str:
        """The command that would confirm it."""
        return answer_text(self.change, self.series.race)


def suspicions(found: Sequence[Series]) -> tuple[Suspicion, ...]:
    """Every suspected change, those with a known cause first, then by time."""
    every = [
        Suspicion(series, before, point, point.since)
        for series in found
        for before, point in pairwise(series.points)
        if point.since and point.since.is_suspected
    ]
    return tuple(sorted(every, key=lambda one: (not one.is_known, one.point.started_utc)))


def divided(
    found: Sequence[Suspicion], dismissed: Mapping[str, Dismissal]
) -> tuple[tuple[Suspicion, ...], tuple[tuple[Suspicion, Dismissal], ...]]:
    """Those that are open, and those that are dismissed, each with its reason."""
    return (
        tuple(one for one in found if one.key not in dismissed),
        tuple((one, dismissed[one.key]) for one in found if one.key in dismissed),
    )


def with_key(found: Sequence[Suspicion], key: str) -> Suspicion:
    """The suspicion of a key.

    Raises:
        InputError: There is none.
    """
    for one in found:
        if one.key == key:
            return one
    raise InputError(f"no suspected change has the key {key!r}: jissoku history --changes")


def suspicion_text(one: Suspicion) -> str:
    """The change, its known causes, the command that would confirm it, and its key."""
    dismiss = f"to dismiss: jissoku history --dismiss {one.key} --reason TEXT"
    return f"{change_sentence(one.change)}\n    {one.cause}\n    {one.answer}\n    {dismiss}"


def dismissed_text(one: Suspicion, dismissed: Dismissal) -> str:
    """A dismissed change, and why it was dismissed."""
    sentence = change_sentence(one.change)
    return f"Dismissed: {sentence}\n    {day(dismissed.dismissed_utc)}: {dismissed.reason}"
