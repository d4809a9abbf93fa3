"""Checks of a load generator: scenarios with known behaviour, expected values, and results."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

import msgspec

from jissoku.model.updated import updated

# Parameters of a load, by name: `connections = 64`.
ToolOptions = dict[str, Any]


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One expectation of a check.

    Attributes:
        of: An expression over values of the tool's report and of the oracle; `{each}` is replaced
            by each value of `each`.
        equals: The expected value, an expression; or one of the two bounds instead.
        relative: Tolerated deviation of `of`, as a fraction of the expected value.
        absolute: The same in the value's unit, an expression; the two add up.
        says: A regular expression that the tool's report must match, instead of a value.
        required: Whether a tool that does not report the value fails; else it is not graded.
        graded: False for information only.
        is_timed: Whether it is void if the oracle was late; None: as the check.
        why: An explanation for readers, in one sentence.
    """

    of: str = ""
    each: tuple[str, ...] = ("",)
    equals: str | None = None
    at_least: str | None = None
    at_most: str | None = None
    relative: float = 0.0
    absolute: str = "0"
    says: str | None = None
    required: bool = False
    graded: bool = True
    is_timed: bool | None = None
    why: str = ""


class Disturbance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Disturbances of the tool or the clock during a run, in seconds after its start."""

    stop_at_s: float = 0.0
    stop_for_s: float = 0.0
    clock_step_s: float = 0.0


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run of a tool against one oracle.

    Attributes:
        oracle: Options of `jissoku oracle`.
        ask: Options that the tool must support; else it is not graded.
        wish: Options used if supported.
        long: Replaces parts of `ask` when there is time.
        share_of: Name of an earlier scenario of this check: the rate is `share` of the rate that
            the oracle measured there.
        when: `quick` or `long` restricts it to that kind of session, if a longer sample has other
            values.
        closed: No listener at the address.
        disturb: Disturbances during the run.
        expect: The expectations.
    """

    name: str
    oracle: dict[str, Any] = {}
    ask: ToolOptions
    wish: ToolOptions = {}
    long: ToolOptions = {}
    share_of: str = ""
    share: float = 0.0
    when: Literal["always", "quick", "long"] = "always"
    closed: bool = False
    disturb: Disturbance | None = None
    expect: tuple[Expectation, ...] = ()

    def seconds(self) -> float:
        """Approximate duration in seconds."""
        asked = self.ask | self.wish
        return float(asked.get("duration_s") or asked.get("about_s") or 3.0)


class CalibrationCheck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One claim about a load generator.

    Attributes:
        id: As in `C7`.
        why: The consequences of a failure, and how the check detects it.
        is_timed: Whether values are void if the oracle was late; counts are not.
        needs: `clock` for a check that steps the machine's clock.
    """

    id: str
    title: str
    why: str
    is_timed: bool = True
    needs: str = ""
    setup: tuple[Scenario, ...]

    def is_void_if_late(self, expectation: Expectation) -> bool:
        """Whether an expectation is void if the oracle was late."""
        return self.is_timed if expectation.is_timed is None else expectation.is_timed

    def long_variant(self) -> "CalibrationCheck":
        """The same with long samples."""
        longer = (updated(it, ask=it.ask | it.long) for it in self.setup if it.when != "quick")
        return updated(self, setup=tuple(longer))

    def quick_variant(self) -> "CalibrationCheck":
        """The same without long scenarios."""
        quick = tuple(it for it in self.setup if it.when != "long")
        return updated(self, setup=quick)


class ScenarioResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a scenario.

    Attributes:
        names: All known values, by dotted name.
        command: The tool's command line, without names and paths of this machine.
        report: The end of the tool's output.
        code: Its exit code; None if it had to be killed.
        account: The oracle's report; empty if nothing listened.
        foreign: The fraction of the cores' time that foreign processes used meanwhile.
    """

    setup: str
    names: Mapping[str, float]
    command: str
    report: str
    code: int | None
    account: Mapping[str, Any]
    foreign: float = 0.0


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
