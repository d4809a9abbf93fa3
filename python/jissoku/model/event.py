"""Events of a run, for other processes that follow it."""

from enum import StrEnum

import msgspec

from jissoku.model.trial import TrialKind


class EventKind(StrEnum):
    """The kind of an event."""

    START = "start"
    NOTE = "note"
    TRIAL = "trial"
    END = "end"


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `events.jsonl`.

    Attributes:
        kind: Which of the other fields have a value.
        elapsed_s: Seconds since the run started.
        pid: Of a start: the process that measures.
        text: The text of a note, or the reason of an early end.
        index, block, trial_kind, arms: Of a trial that has ended, as in its record.
        rejected: Whether a check rejected the trial, which is then run again.
        failure: Why the trial failed.
        done, total: Trials that have ended, and all that are expected.
        seconds_left: Estimated.
    """

    kind: EventKind
    elapsed_s: float
    pid: int = 0
    text: str = ""
    index: int = 0
    block: int = 0
    trial_kind: TrialKind | None = None
    arms: tuple[str, ...] = ()
    rejected: bool = False
    failure: str = ""
    done: int = 0
    total: int = 0
    seconds_left: float = 0.0
