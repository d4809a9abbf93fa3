"""The result of tuning: which knobs reduce cost, with evidence."""

from enum import StrEnum

import msgspec

from jissoku.model.knob import Knob
from jissoku.model.summary import Comparison

SCHEMA = "jissoku.tuning/2"


class Decision(StrEnum):
    """Decision about a knob."""

    ACCEPTED = "pays"
    NO_GAIN = "does not pay"
    SCREENED = "screened out"
    UNDECIDED = "undecided"
    REDUNDANT = "adds nothing to the others"
    COUNTER_UNCHANGED = "its counter did not move as predicted"
    COUNTER_UNAVAILABLE = "its counter could not be watched"
    DIFFERENT = "changes the answers"
    BROKEN = "cannot be measured"


class CounterReadings(msgspec.Struct, frozen=True, kw_only=True):
    """What some requests made a target do, counted in a trial of its own.

    Attributes:
        per_request: By name. A system call that never came is missing, and was made 0 times.
        syscalls_reason: Why no system call was counted; empty when they were.
    """

    requests: int
    per_request: dict[str, float] = msgspec.field(default_factory=dict)
    syscalls_reason: str = ""


class KnobResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one knob.

    Attributes:
        alone: With this knob only, against the configuration as it is.
        leave_one_out: With all knobs but this one, against all; a ratio above 1 is what it saves
            there.
        before: The counter per request as it is, and with the knob alone; None if not watched.
        sentence: Why it was decided so.
    """

    knob: Knob
    decision: Decision
    alone: Comparison | None = None
    leave_one_out: Comparison | None = None
    before: float | None = None
    after: float | None = None
    sentence: str = ""


class TuningResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of tuning a target.

    Attributes:
        target: What was tuned, in words.
        skipped: Knobs that were not tried, each with why.
        combined: The accepted ones together, on blocks of their own, against the configuration as
            it is; None when none was accepted.
        all_together: All knobs that were tried, against the configuration as it is.
        full_load: Knobs that are judged by the rate at full load, together with the bundle and
            against it, on blocks of their own and on all cores, which the load generator shares.
        proven: Whether something is.
        kept: Names of the knobs in `diff`.
        sandbox: What was changed so that it could run beside the machine's own, in every arm alike.
        diff: From the configuration as it is to the proven one; empty when nothing was proven.
        finished: Whether everything that was planned was run.
    """

    target: str
    path: str
    jissoku: str
    seed: int
    results: tuple[KnobResult, ...]
    skipped: dict[str, str] = msgspec.field(default_factory=dict)
    all_together: Comparison | None = None
    combined: Comparison | None = None
    full_load: Comparison | None = None
    proven: bool = False
    kept: tuple[str, ...] = ()
    sandbox: tuple[str, ...] = ()
    diff: str = ""
    finished: bool = True
    schema: str = SCHEMA
