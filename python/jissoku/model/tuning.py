"""The result of tuning: which knobs reduce cost, with evidence."""

from enum import StrEnum

import msgspec

from jissoku.model.recipe import Knob
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
    """Counters of a target for a number of requests, from a separate trial.

    Attributes:
        per_request: By name. A missing system call was made 0 times.
        syscalls_reason: Why no system calls were counted; empty if they were.
    """

    requests: int
    per_request: dict[str, float] = msgspec.field(default_factory=dict)
    syscalls_reason: str = ""


class KnobResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one knob.

    Attributes:
        alone: With this knob only, relative to the unchanged configuration.
        leave_one_out: With all knobs but this one, relative to all; above 1 the knob saves CPU
            there.
        before: The counter per request without the knob, `after` with it alone; None if unknown.
        sentence: The reason of the decision.
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
        target: Description of the target.
        skipped: Knobs that were not tried, each with the reason.
        combined: The accepted knobs together, on separate blocks, relative to the unchanged
            configuration; None if none was accepted.
        all_together: All tried knobs, relative to the unchanged configuration.
        full_load: Knobs that are judged by the rate at full load, together with the accepted ones
            and relative to them, on separate blocks and on all cores, which the load generator
            shares.
        proven: Whether an improvement is proven.
        kept: Names of the knobs in `diff`.
        sandbox: Changes in every arm that let it run next to the machine's own server.
        diff: From the unchanged configuration to the proven one; empty if nothing was proven.
        finished: Whether all planned trials were run.
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
