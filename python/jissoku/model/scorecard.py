"""The results of calibrating one load generator."""

from enum import StrEnum
from typing import Any

import msgspec

SCHEMA = "jissoku.calibration/1"


class Grade(StrEnum):
    """The grade of a check or of one expectation."""

    A = "A"
    B = "B"
    F = "F"
    VOID = "void"
    NOT_OFFERED = "not offered"
    NOT_HERE = "not testable here"
    INFO = "info"


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One expectation, and the reported value.

    Attributes:
        void: The disturbance that explains the deviation; empty unless the grade is void.
    """

    setup: str
    what: str
    expected: str
    got: str
    grade: str
    tolerance: str = ""
    void: str = ""


class ScenarioRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the tool, with all that is needed to grade it again.

    Attributes:
        foreign: The fraction of the cores' time that foreign processes used meanwhile.
        report: The beginning and the end of the tool's output.
    """

    setup: str
    oracle: dict[str, Any]
    command: str
    exit_code: int | None
    account: dict[str, Any]
    figures: dict[str, float]
    foreign: float
    report: str


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """One check's result; `sentence` gives the reason for a missing grade, or qualifies one."""

    check: str
    title: str
    grade: str
    sentence: str = ""
    evidence: tuple[Evidence, ...] = ()
    runs: tuple[ScenarioRun, ...] = ()


class Scorecard(msgspec.Struct, frozen=True, kw_only=True):
    """All results of one tool.

    Attributes:
        budget_s: Time limit of the session, repetitions of void checks included.
        not_repeated: Checks that stayed void because there was no time to repeat them.
    """

    schema: str = SCHEMA
    tool: str
    about: str
    version: str
    jissoku: str
    started_utc: str
    mode: str
    machine: str
    is_finished: bool
    scores: tuple[Score, ...] = ()
    budget_s: float | None = None
    not_repeated: tuple[str, ...] = ()
