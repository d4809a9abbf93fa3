import pytest

from jissoku.inference.grading import grade_expectation, score
from jissoku.model.calibration import CalibrationCheck, Expectation, Grade, Scenario, ScenarioRun


def outcome(names: dict[str, float], *, report: str = "", late_us: int = 0) -> ScenarioRun:
    return ScenarioRun(
        setup="s",
        oracle={},
        figures=names,
        command="",
        report=report,
        exit_code=0,
        account={"lateness_ns": {"p99": late_us * 1000}},
        foreign=0.0,
    )


def check(*expectations: Expectation, is_timed: bool = True) -> CalibrationCheck:
    setup = Scenario(name="s", ask={"connections": 1}, expect=expectations)
    return CalibrationCheck(id="C0", title="t", why="w", is_timed=is_timed, setup=(setup,))


P50 = Expectation(of="tool.p50_ns", equals="served.p50_ns", relative=0.01, absolute="100")


@pytest.mark.parametrize(
    ("got", "grade"),
    [(10_000, "A"), (10_200, "A"), (9_800, "A"), (10_201, "B"), (10_600, "B"), (10_601, "F")],
)
def test_tolerances_add_up_and_three_of_them_are_a_b(got: float, grade: str) -> None:
    found = grade_expectation(P50, outcome({"tool.p50_ns": got, "served.p50_ns": 10_000}))
    assert [evidence.grade for evidence in found] == [grade]


@pytest.mark.parametrize(
    ("expectation", "grade"),
    [
        (Expectation(of="x", at_least="10"), "A"),
        (Expectation(of="x", at_least="11"), "F"),
        (Expectation(of="x", at_most="9.5", absolute="0.2"), "B"),
        (Expectation(of="x", equals="10"), "A"),
        (Expectation(of="x", equals="11", graded=False), "info"),
        (Expectation(says="(?i)CLOSED"), "A"),
        (Expectation(says="open"), "F"),
    ],
)
def test_bounds_have_sides(expectation: Expectation, grade: str) -> None:
    [found] = grade_expectation(expectation, outcome({"x": 10.0}, report="a closed loop"))
    assert found.grade == grade


def test_a_figure_that_is_not_reported_is_not_judged_unless_it_must_be() -> None:
    silent = outcome({"served.p50_ns": 1.0})
    assert grade_expectation(P50, silent) == []
    must = Expectation(of="tool.p50_ns", equals="served.p50_ns", required=True)
    [found] = grade_expectation(must, silent)
    assert (found.grade, found.got) == ("F", "tool.p50_ns is not reported")
    assert score(check(P50), {"s": silent})[0] is Grade.NOT_OFFERED
    assert score(check(P50), {})[0] is Grade.NOT_OFFERED


def test_the_worst_expectation_is_the_grade() -> None:
    names = {"tool.p50_ns": 10_300.0, "served.p50_ns": 10_000.0, "x": 10.0}
    good = Expectation(of="x", equals="10")
    bad = Expectation(of="x", equals="11")
    assert score(check(good, P50), {"s": outcome(names)})[0] is Grade.B
    assert score(check(good, P50, bad), {"s": outcome(names)})[0] is Grade.F


def test_a_late_oracle_makes_times_void_and_no_counts() -> None:
    names = {"tool.p50_ns": 1.0, "served.p50_ns": 10_000.0, "x": 10.0}
    late = outcome(names, late_us=80)
    count = Expectation(of="x", equals="10", is_timed=False)
    assert score(check(P50, count), {"s": late})[0] is Grade.VOID
    assert score(check(count), {"s": late})[0] is Grade.A
    wrong = Expectation(of="x", equals="11")
    assert score(check(wrong, is_timed=False), {"s": late})[0] is Grade.F
    grade, [evidence] = score(check(P50), {"s": late})
    assert (grade, evidence.void[:18]) == (Grade.VOID, "the oracle was 80 ")


def test_what_is_right_in_spite_of_a_late_oracle_is_right() -> None:
    late = outcome({"tool.p50_ns": 10_000.0, "served.p50_ns": 10_000.0}, late_us=80)
    assert score(check(P50), {"s": late})[0] is Grade.A


def test_evidence_has_readable_units() -> None:
    [found] = grade_expectation(P50, outcome({"tool.p50_ns": 10.5e6, "served.p50_ns": 10e6}))
    assert (found.expected, found.got) == ("10.000 ms", "10.500 ms")
