"""What was found out about a target's knobs: which of them pay, and what shows it."""

from dataclasses import dataclass, field
from enum import StrEnum

from jissoku.model.knob import Knob
from jissoku.model.summary import Comparison

SCHEMA = "jissoku.tuning/1"


class Decision(StrEnum):
    """What becomes of a knob."""

    ACCEPTED = "pays"
    NO_GAIN = "does not pay"
    SCREENED = "screened out"
    UNDECIDED = "undecided"
    REDUNDANT = "adds nothing beside the others"
    UNMOVED = "its counter did not move as predicted"
    UNWATCHED = "its counter could not be watched"
    DIFFERENT = "changes the answers"
    BROKEN = "cannot be measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What some requests made a target do, counted in a trial of its own.

    Attributes:
        per_request: By name. A system call that never came is missing, and was made 0 times.
        calls_reason: Why no system call was counted; empty when they were.
    """

    requests: int
    per_request: dict[str, float] = field(default_factory=dict)
    calls_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What was found out about one knob.

    Attributes:
        alone: With this knob only, against the configuration as it is.
        without: With all knobs but this one, against all; a ratio above 1 is what it saves there.
        before: The counter per request as it is, and with the knob alone; None if not watched.
        sentence: Why it was decided so.
    """

    knob: Knob
    decision: Decision
    alone: Comparison | None = None
    without: Comparison | None = None
    before: float | None = None
    after: float | None = None
    sentence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """All that was found out about a target's knobs.

    Attributes:
        target: What was tuned, in words.
        skipped: Knobs that were not tried, each with why.
        bundle: The accepted ones together, on blocks of their own, against the configuration as it
            is; None when none was accepted.
        all_together: All knobs that were tried, against the configuration as it is.
        full_load: Knobs that are judged by the rate at full load, together with the bundle and
            against it, on blocks of their own and on all cores, which the stopwatch shares.
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
    remedies: tuple[Remedy, ...]
    skipped: dict[str, str] = field(default_factory=dict)
    all_together: Comparison | None = None
    bundle: Comparison | None = None
    full_load: Comparison | None = None
    proven: bool = False
    kept: tuple[str, ...] = ()
    sandbox: tuple[str, ...] = ()
    diff: str = ""
    finished: bool = True
    schema: str = field(default=SCHEMA)
