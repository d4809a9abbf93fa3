"""A cause of cost or latency, with evidence and remedy."""

from enum import StrEnum

import msgspec

from jissoku.model.observed import Observations
from jissoku.model.profile import ProfileRow
from jissoku.model.tuning import TuningResult

EXPLANATION_SCHEMA = "jissoku.explanation/1"


class FindingScope(StrEnum):
    """Subject of a finding."""

    SERVER = "server"
    MEASUREMENT = "measurement"


class SuggestedDirective(msgspec.Struct, frozen=True, kw_only=True):
    """A suggested configuration directive.

    Attributes:
        program: The program that is configured, such as `nginx`.
        block: The block of the line: `main`, `events`, `http`.
    """

    program: str
    directive: str
    value: str
    block: str = "http"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A cause with evidence.

    Attributes:
        name: The name of the rule.
        cause: The cause in one sentence.
        evidence: The observed values.
        falsified_by: An observation that would refute the cause.
        effect: The expected effect of removing it.
        remedy: The remedy, for any program.
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
        functions: The functions of the target's own code and libraries, most expensive first; empty
            without a profile.
        changes: The changes of the target's configuration by the findings' directives, as a diff;
            empty if its recipe has no configuration.
        verification: The measured effects of the changes; None if not requested or without any.
    """

    target: str
    version: str
    path: str
    observations: Observations
    findings: tuple[Finding, ...]
    functions: tuple[ProfileRow, ...] = ()
    changes: str = ""
    verification: TuningResult | None = None
    schema: str = EXPLANATION_SCHEMA
