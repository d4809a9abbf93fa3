"""A cause of slowness with its evidence, and what would take it away."""

from dataclasses import dataclass
from enum import StrEnum

from jissoku.model.observed import Observed
from jissoku.model.tuning import Tuning


class About(StrEnum):
    """What a finding speaks of."""

    SERVER = "server"
    MEASUREMENT = "measurement"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A line of a program's configuration that should help.

    Attributes:
        program: Whose configuration it is, such as `nginx`.
        block: Where the line belongs: `main`, `events`, `http`.
    """

    program: str
    directive: str
    value: str
    block: str = "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A cause with evidence.

    Attributes:
        name: The rule's.
        cause: In one sentence.
        evidence: What was counted.
        refuted_by: What would show that the cause is another one.
        effect: What to expect of its removal.
        remedy: What to do, whatever the program.
        settings: How some programs are told to.
    """

    name: str
    cause: str
    evidence: tuple[str, ...]
    refuted_by: str
    effect: str
    remedy: str
    settings: tuple[Setting, ...] = ()
    about: About = About.SERVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a target is as fast as it is.

    Attributes:
        changes: What the findings' settings change in the target's own configuration, as a diff;
            empty when its recipe has none.
        proof: What came of trying them, where that was asked for and there was something to try.
    """

    target: str
    version: str
    path: str
    observed: Observed
    findings: tuple[Finding, ...]
    changes: str = ""
    proof: Tuning | None = None
