"""From recorded values to grades: pure, so that any grade can be recomputed."""

import math
import re
from collections.abc import Iterable, Mapping

from jissoku.model.calibration import CalibrationCheck, Expectation, ScenarioResult
from jissoku.model.scorecard import Evidence, Grade
from jissoku.stats.expression import UnreportedValue, value
from jissoku.stats.external_cause import external_cause

# A deviation of up to this many tolerances is graded B.
B_TOLERANCES = 3


WORST_FIRST = (Grade.F, Grade.VOID, Grade.B, Grade.A, Grade.INFO)


def score(
    check: CalibrationCheck, outcomes: Mapping[str, ScenarioResult]
) -> tuple[Grade, tuple[Evidence, ...]]:
    """Judges a tool by the outcomes of a check's set-ups, by their names.

    An outcome that is not there was not offered by the tool.
    """
    evidence: list[Evidence] = []
    for setup in check.setup:
        outcome = outcomes.get(setup.name)
        for expectation in setup.expect if outcome else ():
            assert outcome is not None
            evidence += judge(expectation, outcome, is_timed=check.is_void_if_late(expectation))
    return worst(Grade(found.grade) for found in evidence), tuple(evidence)


def worst(grades: Iterable[Grade]) -> Grade:
    """The worst of some; nothing to judge by is not offered."""
    there = set(grades)
    return next((grade for grade in WORST_FIRST if grade in there), Grade.NOT_OFFERED)


def judge(
    expectation: Expectation, outcome: ScenarioResult, *, is_timed: bool = False
) -> list[Evidence]:
    """The evidence of one expectation: none where the tool does not report the value.

    Where `is_timed`, a value that is off is void if something else than the tool explains it. One
    that is right in spite of that is right.
    """
    if expectation.says is not None:
        return [_says(expectation, outcome)]
    found = (_one(expectation, outcome, each, is_timed=is_timed) for each in expectation.each)
    return [evidence for evidence in found if evidence is not None]


def _says(expectation: Expectation, outcome: ScenarioResult) -> Evidence:
    assert expectation.says is not None
    match = re.search(expectation.says, outcome.report)
    return Evidence(
        setup=outcome.setup,
        what=expectation.why or "the report says so",
        expected="said",
        got=f"said: {match[0][:80]}" if match else "not said",
        grade=Grade.A if match else Grade.F,
    )


def _one(
    expectation: Expectation, outcome: ScenarioResult, each: str, *, is_timed: bool
) -> Evidence | None:
    what = expectation.of.replace("{each}", each)
    try:
        bound = _bound(expectation, outcome.names, each)
    except UnreportedValue:
        return None  # The oracle has no such value: nothing was answered at all.
    try:
        got = value(what, outcome.names)
    except UnreportedValue as unavailable:
        if not expectation.required:
            return None
        return Evidence(
            setup=outcome.setup,
            what=what,
            expected=_shown(bound.truth, what),
            got=f"{unavailable} is not reported",
            grade=Grade.F,
        )
    grade = bound.grade(got) if expectation.graded else Grade.INFO
    void = ""
    if is_timed and grade in {Grade.B, Grade.F}:
        void = external_cause(outcome, what, got, bound.truth)
    return Evidence(
        setup=outcome.setup,
        what=what,
        expected=f"{bound.sign}{_shown(bound.truth, what)}",
        tolerance=_shown(bound.tolerance, what) if bound.tolerance else "",
        got=_shown(got, what),
        grade=Grade.VOID if void else grade,
        void=void,
    )


class _Bound:
    """A truth, how far one may be from it, and on which side."""

    def __init__(self, truth: float, tolerance: float, sign: str) -> None:
        self.truth, self.tolerance, self.sign = truth, tolerance, sign

    def grade(self, got: float) -> Grade:
        """A within the tolerance, B within three of them."""
        off = got - self.truth
        if self.sign == "at least ":
            off = max(0.0, -off)
        elif self.sign == "at most ":
            off = max(0.0, off)
        # A count may be exact to the last digit of a float, and a sum of floats is not.
        slack = 1e-9 * max(1.0, abs(self.truth))
        if abs(off) <= self.tolerance + slack:
            return Grade.A
        return Grade.B if abs(off) <= B_TOLERANCES * self.tolerance else Grade.F


def _bound(expectation: Expectation, names: Mapping[str, float], each: str) -> _Bound:
    sides = {"": expectation.equals, "at least ": expectation.at_least}
    sides["at most "] = expectation.at_most
    sign, text = next((sign, text) for sign, text in sides.items() if text is not None)
    truth = value(text.replace("{each}", each), names)
    absolute = value(expectation.absolute.replace("{each}", each), names)
    return _Bound(truth, absolute + expectation.relative * abs(truth), sign)


def _shown(number: float, what: str) -> str:
    """A value for people: times in milliseconds, everything else as it is."""
    if math.isnan(number):
        return "none"
    if what.rstrip(")").endswith("_ns"):
        return f"{number / 1e6:,.3f} ms"
    if float(number).is_integer() and abs(number) < 1e15:
        return f"{int(number):,}"
    return f"{number:,.4g}" if abs(number) < 1000 else f"{number:,.1f}"
