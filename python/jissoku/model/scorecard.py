"""The results of calibrating one load generator."""

from enum import StrEnum
from typing import Any

import msgspec

SCHEMA = "jissoku.calibration/1"


class Grade(StrEnum):
    """What a check, or one expectation of it, comes to."""

    A = "A"
    B = "B"
    F = "F"
    VOID = "void"
    NOT_OFFERED = "not offered"
    NOT_HERE = "not testable here"
    INFO = "info"


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was expected, and what was reported instead.

    Attributes:
        void: What shook the run enough to explain that; empty unless the grade is void.
    """

    setup: str
    what: str
    expected: str
    got: str
    grade: str
    tolerance: str = ""
    void: str = ""


class ScenarioRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the tool: enough to judge it once more.

    Attributes:
        foreign: The share of the cores' time that others used meanwhile.
        report: The beginning and the end of what the tool printed.
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
    """One check's result; `sentence` says why where there is no grade, or qualifies one."""

    check: str
    title: str
    grade: str
    sentence: str = ""
    evidence: tuple[Evidence, ...] = ()
    runs: tuple[ScenarioRun, ...] = ()


class Scorecard(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known about one tool.

    Attributes:
        budget_s: How long everything might take, repetitions of void checks included.
        not_repeated: Checks that stayed void since there was no time to hold them again.
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
