"""A cause of cost or latency, with evidence and remedy."""

from enum import StrEnum

import msgspec

from jissoku.model.observed import Observations
from jissoku.model.tuning import TuningResult

EXPLANATION_SCHEMA = "jissoku.explanation/1"


class FindingScope(StrEnum):
    """Subject of a finding."""

    SERVER = "server"
    MEASUREMENT = "measurement"


class SuggestedDirective(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration directive that should help.

    Attributes:
        program: Whose configuration it is, such as `nginx`.
        block: Where the line belongs: `main`, `events`, `http`.
    """

    program: str
    directive: str
    value: str
    block: str = "http"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A cause with evidence.

    Attributes:
        name: The rule's.
        cause: In one sentence.
        evidence: What was counted.
        falsified_by: What would show that the cause is another one.
        effect: What to expect of its removal.
        remedy: What to do, whatever the program.
        directives: Configuration directives for some programs.
    """

    name: str
    cause: str
    evidence: tuple[str, ...]
    falsified_by: str
    effect: str
    remedy: str
    directives: tuple[SuggestedDirective, ...] = ()
    scope: FindingScope = FindingScope.SERVER


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The findings about a target.

    Attributes:
        changes: What the findings' settings change in the target's own configuration, as a diff;
            empty when its recipe has none.
        verification: What came of trying them, where that was asked for and there was something to
            try.
    """

    target: str
    version: str
    path: str
    observations: Observations
    findings: tuple[Finding, ...]
    changes: str = ""
    verification: TuningResult | None = None
    schema: str = EXPLANATION_SCHEMA
