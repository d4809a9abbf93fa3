"""From recorded values to grades and costs of load generators: pure, so that any can be recomputed.

A deviation may have another cause than the tool: what disturbed a run is looked for, too.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jissoku.inference import estimate
from jissoku.inference.expression import UnreportedValue, value
from jissoku.inference.tool_values import QUANTILES
from jissoku.model import Estimate, calibration as model, updated

# A run in which others used more of the cores than this proves nothing about times.
FOREIGN_MAX = 0.03

# An oracle that is as late as this, in one answer of a hundred, explains deviations of up to this
# many times that.
LATE_NS_MAX = 50_000
LATE_TIMES = 5

# What is no time, a count or a share, is not off by more than that because one answer in a hundred
# was late.
LATE_SHARE_MAX = 0.25

# What is sent late and what arrives late both suffer, and stalls were sampled.
STALLS_TIMES = 3

# What the stall monitor saw of each core.
Stalls = Sequence[Mapping[str, Any]]


def external_cause(run: model.ScenarioRun, what: str, got: float, truth: float) -> str:
    """What else explains that a value is off, in a sentence; empty if nothing does.

    What was served is known to the nanosecond, so a late oracle is late in the truth as well. But
    a machine on which it was late disturbed the tool equally, unobserved. The monitor observes
    when the host takes a core away: the tool's, or the oracle's while requests wait to be read.

    `what` is the expression that was judged, such as `tool.p99_ns`.
    """
    if run.foreign > FOREIGN_MAX:
        return f"others used {run.foreign * 100:.0f} % of the cores meanwhile"
    if run.account.get("overflowed"):
        return "the oracle's log was full"
    late = (run.account.get("lateness_ns") or {}).get("p99", 0)
    if late >= LATE_NS_MAX and LATE_TIMES * late >= _off_ns(run, what, got, truth):
        return f"the oracle was {late / 1000:.0f} us late in one answer of a hundred"
    stalls = [it for it in run.account.get("stalls") or () if it["samples"]]
    if stalls and _is_time(what) and got > truth:
        beyond = _beyond(what)
        if beyond is None:
            mean_wait_ns = sum(float(core["waited_ns"] / core["samples"]) for core in stalls)
            is_enough = "mean" in what and STALLS_TIMES * mean_wait_ns > got - truth
        else:
            # At least this fraction of the responses took longer, whatever the tool does.
            served = run.figures
            above = [
                1 - q for name, q in QUANTILES.items() if served.get(f"served.{name}_ns", 0.0) > got
            ]
            left = beyond - max(above, default=0.0)
            is_enough = STALLS_TIMES * _share(stalls, got - truth) > left
        if is_enough:
            share = _share(stalls, 0) * 100
            longest = max(it["longest_ns"] for it in stalls) / 1e6
            return f"the cores stood still {share:.1f} % of the time, once for {longest:.1f} ms"
    return ""


def _is_time(what: str) -> bool:
    return what.rstrip(")").endswith("_ns")


def _off_ns(run: model.ScenarioRun, what: str, got: float, truth: float) -> float:
    """How far a value is off, in the time of an answer where it is no time itself."""
    off = abs(got - truth)
    if _is_time(what):
        return off
    share = off / abs(truth or 1)
    return math.inf if share > LATE_SHARE_MAX else share * run.figures.get("served.mean_ns", 0.0)


def _share(stalls: Stalls, length_ns: float) -> float:
    """The share of moments that had to wait so long for a core; of several cores, the sum."""
    share = 0.0
    for core in stalls:
        reaching = [it for it in core["at_least"] if it["length_ns"] <= length_ns]
        which = reaching[-1] if reaching else core["at_least"][0]
        share += float(which["samples"] / core["samples"])
    return share


def _beyond(what: str) -> float | None:
    """The share of answers beyond a percentile such as `tool.p999_ns`; None if it is none."""
    digits = re.search(r"\bp(\d+)_ns|_p(\d+)_ns", what)
    return 1 - float("0." + (digits[1] or digits[2])) if digits else None


# A deviation of up to this many tolerances is graded B.
B_TOLERANCES = 3


WORST_FIRST = (model.Grade.F, model.Grade.VOID, model.Grade.B, model.Grade.A, model.Grade.INFO)


def score(
    check: model.CalibrationCheck, outcomes: Mapping[str, model.ScenarioRun]
) -> tuple[model.Grade, tuple[model.Evidence, ...]]:
    """Judges a tool by the outcomes of a check's set-ups, by their names.

    An outcome that is not there was not offered by the tool.
    """
    evidence = [
        one
        for setup in check.setup
        if (outcome := outcomes.get(setup.name))
        for expectation in setup.expect
        for one in grade_expectation(
            expectation, outcome, is_timed=check.is_void_if_late(expectation)
        )
    ]
    # Nothing to judge by is not offered.
    grades = {model.Grade(one.grade) for one in evidence}
    worst = next((grade for grade in WORST_FIRST if grade in grades), model.Grade.NOT_OFFERED)
    return worst, tuple(evidence)


def grade_expectation(
    expectation: model.Expectation, outcome: model.ScenarioRun, *, is_timed: bool = False
) -> list[model.Evidence]:
    """The evidence of one expectation: none where the tool does not report the value.

    Where `is_timed`, a value that is off is void if something else than the tool explains it. One
    that is right in spite of that is right.
    """
    if expectation.says is not None:
        match = re.search(expectation.says, outcome.report)
        said = model.Evidence(
            setup=outcome.setup,
            what=expectation.why or "the report says so",
            expected="said",
            got=f"said: {match[0][:80]}" if match else "not said",
            grade=model.Grade.A if match else model.Grade.F,
        )
        return [said]
    found = (_one(expectation, outcome, each, is_timed=is_timed) for each in expectation.each)
    return [evidence for evidence in found if evidence is not None]


def _one(
    expectation: model.Expectation, outcome: model.ScenarioRun, each: str, *, is_timed: bool
) -> model.Evidence | None:
    what = expectation.of.replace("{each}", each)
    try:
        bound = _bound(expectation, outcome.figures, each)
    except UnreportedValue:
        return None  # The oracle has no such value: nothing was answered at all.
    try:
        got = value(what, outcome.figures)
    except UnreportedValue as unavailable:
        if not expectation.required:
            return None
        return model.Evidence(
            setup=outcome.setup,
            what=what,
            expected=_shown(bound.truth, what),
            got=f"{unavailable} is not reported",
            grade=model.Grade.F,
        )
    grade = bound.grade(got) if expectation.graded else model.Grade.INFO
    void = ""
    if is_timed and grade in {model.Grade.B, model.Grade.F}:
        void = external_cause(outcome, what, got, bound.truth)
    return model.Evidence(
        setup=outcome.setup,
        what=what,
        expected=f"{bound.sign}{_shown(bound.truth, what)}",
        tolerance=_shown(bound.tolerance, what) if bound.tolerance else "",
        got=_shown(got, what),
        grade=model.Grade.VOID if void else grade,
        void=void,
    )


@dataclass(frozen=True, slots=True)
class _Bound:
    truth: float
    tolerance: float
    sign: str

    def grade(self, got: float) -> model.Grade:
        off = abs(got - self.truth)
        if self.sign == ("at least " if got > self.truth else "at most "):
            off = 0.0
        # A count may be exact to the last digit of a float, and a sum of floats is not.
        slack = 1e-9 * max(1.0, abs(self.truth))
        if off <= self.tolerance + slack:
            return model.Grade.A
        return model.Grade.B if off <= B_TOLERANCES * self.tolerance else model.Grade.F


def _bound(expectation: model.Expectation, names: Mapping[str, float], each: str) -> _Bound:
    sides = {
        "": expectation.equals,
        "at least ": expectation.at_least,
        "at most ": expectation.at_most,
    }
    sign, text = next((sign, text) for sign, text in sides.items() if text is not None)
    truth = value(text.replace("{each}", each), names)
    absolute = value(expectation.absolute.replace("{each}", each), names)
    return _Bound(truth, absolute + expectation.relative * abs(truth), sign)


def _shown(number: float, what: str) -> str:
    """A value for people: times in milliseconds, everything else as it is."""
    if math.isnan(number):
        return "none"
    if _is_time(what):
        return f"{number / 1e6:,.3f} ms"
    if float(number).is_integer() and abs(number) < 1e15:
        return f"{int(number):,}"
    return f"{number:,.4g}" if abs(number) < 1000 else f"{number:,.1f}"


# With fewer ticks than this the split into user and kernel time would be guesswork.
TICKS_MIN = 20


def with_results(
    record: model.CostRecord, tools: tuple[model.Tool, model.Tool]
) -> model.CostRecord:
    reasons = {cell.name: unsupported_reason(cell, tools) for cell in record.cells}
    figures = tuple(
        model.CostResult(cell=cell.name, unsupported_reason=reason)
        if (reason := reasons[cell.name])
        else cost_result(cell, [pair for pair in record.pairs if pair.cell == cell.name])
        for cell in record.cells
    )
    names = [name for name, reason in reasons.items() if reason is None]
    return updated(record, figures=figures, overall=overall(names, record.pairs))


def cost_result(cell: model.LoadPoint, pairs: Sequence[model.ToolPair]) -> model.CostResult:
    counted = [pair for pair in pairs if not pair.void]
    found = model.CostResult(
        cell=cell.name,
        pairs=len(counted),
        void=len(pairs) - len(counted),
        apart=sum(pair.are_rates_apart for pair in counted),
    )
    if not counted:
        return found
    sides = [[pair.sides[place] for pair in counted] for place in (0, 1)]
    seconds = sum(pair.window_ns for pair in counted) / 1e9
    cost_ns = [math.exp(_mean([math.log(it.cost_ns) for it in side])) for side in sides]
    rates_rps = [sum(it.answers for it in side) / seconds for side in sides]
    return updated(
        found,
        ratio=estimate.geometric_mean([pair.log_ratio for pair in counted]),
        cost_ns=(cost_ns[0], cost_ns[1]),
        rates_rps=(rates_rps[0], rates_rps[1]),
        user_fractions=(_user_fraction(sides[0]), _user_fraction(sides[1])),
    )


def overall(names: Sequence[str], pairs: Sequence[model.ToolPair]) -> Estimate | None:
    """The geometric mean over cells of equal weight; a round is a block if each cell counted."""
    rounds: dict[int, dict[str, float]] = {}
    for pair in pairs:
        if not pair.void:
            rounds.setdefault(pair.round, {})[pair.cell] = pair.log_ratio
    whole = [_mean(list(logs.values())) for logs in rounds.values() if len(logs) == len(names)]
    return estimate.geometric_mean(whole)


def _user_fraction(sides: Sequence[model.ToolMeasurement]) -> float | None:
    user, system = (sum(side.ticks[place] for side in sides) for place in (0, 1))
    return user / (user + system) if user + system >= TICKS_MIN else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def unsupported_reason(cell: model.LoadPoint, tools: tuple[model.Tool, model.Tool]) -> str | None:
    """Why one of the two does not support a load; None if both do."""
    return next((why for tool in tools if (why := cell.unsupported_reason(tool))), None)
