"""From an experiment's records to the result of each claim."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jissoku.inference import claim_quantities, decision, estimate
from jissoku.inference.arm_summary import arm_outcome
from jissoku.inference.claim_quantities import LogRatioSample, WorkloadTrials, generator_held
from jissoku.inference.decision import Decided
from jissoku.inference.inequality import Inequality, Quantity, parse, quantity as read_quantity
from jissoku.inference.run_checks import is_rejected
from jissoku.inference.verdict import Rule, blocks_needed
from jissoku.model import Comparison, CrossCheck, MeasurementStatus, Run
from jissoku.model.experiment import (
    BenchmarkOutput,
    Claim,
    ClaimResult,
    ClaimStatus,
    ExperimentHeader,
    InequalityResult,
)
from jissoku.model.summary import ALPHA
from jissoku.model.updated import updated
from jissoku.model.wording import plural, too_few_blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimData:
    """What claims are answered from; workloads that were not run have no campaign."""

    header: ExperimentHeader
    workloads: Mapping[str, WorkloadTrials]
    benchmarks: Mapping[str, BenchmarkOutput] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _InequalityTest:
    """One inequality on its way to an answer.

    Attributes:
        decided: Left side / right side, its number included; None for counts, and where nothing can
            be measured.
        checks: The same by other ways of measuring, for the ratio of two costs.
    """

    found: InequalityResult
    link: Inequality
    decided: Decided | None = None
    checks: tuple[CrossCheck, ...] = ()


def evaluate_claims(known: ClaimData, claims: Sequence[Claim]) -> tuple[ClaimResult, ...]:
    """Answers all claims of an experiment.

    A claim holds when all its inequalities do. All measured inequalities of the experiment are one
    family (Holm), and each is decided as every comparison is: Student's t, with which the exact
    interval of Hodges and Lehmann has to agree, and checks that do not contradict it.
    """
    reasons = {claim.name: _not_testable(known, claim) for claim in claims}
    tests = {
        claim.name: [_test(known, text, link) for text in claim.test for link in parse(text)]
        for claim in claims
        if not reasons[claim.name]
    }
    family = [test for found in tests.values() for test in found if test.decided]
    settled = decision.settle([test.decided for test in family if test.decided])
    answers = dict(zip(map(id, family), settled, strict=True))
    return tuple(
        _claim_result(known, claim, tests[claim.name], answers)
        if claim.name in tests
        else ClaimResult(
            claim=claim, status=ClaimStatus.NOT_TESTABLE, remarks=(reasons[claim.name],)
        )
        for claim in claims
    )


def _not_testable(known: ClaimData, claim: Claim) -> str:
    if claim.not_testable:
        return claim.not_testable
    cores = _server_cores(known, claim)
    if cores >= claim.server_cores_min:
        return ""
    return (
        f"the server has {cores} {'core' if cores == 1 else 'cores'} here, and the claim is"
        f" about at least {claim.server_cores_min}"
    )


def _claim_result(
    known: ClaimData,
    claim: Claim,
    tests: Sequence[_InequalityTest],
    answers: Mapping[int, Comparison],
) -> ClaimResult:
    found = tuple(
        _decided(known, test, answers[id(test)]) if test.decided else test.found for test in tests
    )
    return ClaimResult(
        claim=claim,
        status=_combined_status(found),
        inequalities=found,
        remarks=tuple(_remarks(found)),
    )


def _server_cores(known: ClaimData, claim: Claim) -> int:
    """As many as the servers have in the claim's workloads; some of those share all cores."""
    runs = [run for text in claim.test for link in parse(text) for run in _runs(known, link)]
    return min((len(run.cores.server) for run in runs), default=len(known.header.cores.server))


def _runs(known: ClaimData, link: Inequality) -> list[Run]:
    """Those that have values of a link."""
    names = {_workload(known, one) for one in link.quantities if not one.is_benchmark}
    return [known.workloads[name].run for name in names if name in known.workloads]


def _combined_status(tests: Sequence[InequalityResult]) -> ClaimStatus:
    """One that fails decides; else one that is open; what could not be had is left out."""
    found = {test.status for test in tests}
    for one in (ClaimStatus.FAILS, ClaimStatus.UNDECIDED, ClaimStatus.HOLDS):
        if one in found:
            return one
    return ClaimStatus.NOT_TESTABLE


def _remarks(tests: Sequence[InequalityResult]) -> Iterator[str]:
    lost = [test for test in tests if test.status is ClaimStatus.NOT_TESTABLE]
    if lost and len(lost) < len(tests):
        yield f"{len(lost)} of {len(tests)} parts cannot be tested here, and are omitted"


def _workload(known: ClaimData, quantity: Quantity) -> str:
    return quantity.workload or known.header.experiment.workload[0].name


def _test(known: ClaimData, text: str, link: Inequality) -> _InequalityTest:
    blank = InequalityResult(
        text=text,
        status=ClaimStatus.NOT_TESTABLE,
        bound=link.bound,
        relation=link.relation,
        published=_published(known, link),
    )
    for quantity in link.quantities:
        lack = _missing_data(known, quantity)
        if lack is not None:
            return _InequalityTest(updated(blank, status=lack[0], remarks=(lack[1],)), link)
    if all(quantity.is_count for quantity in link.quantities):
        return _InequalityTest(_counted(known, link, blank), link)
    factor = _factor(known, link)
    if factor is None:
        return _InequalityTest(
            updated(blank, remarks=("a count in it is 0: a ratio is undefined",)), link
        )
    parts = list(_parts(known, link))
    logs = [log + math.log(factor) for log in _combined(parts)]
    looks = max((part.looks for part in parts), key=lambda one: (one.horizon, one.estimates))
    if len(logs) < looks.first:
        remark = f"{too_few_blocks(len(logs))}: at least {looks.first} are needed"
        blank = updated(blank, status=ClaimStatus.UNDECIDED, remarks=(remark,))
        if len(logs) >= 2:
            value = estimate.geometric_mean(logs)
            blank = updated(blank, value=value, measured=value.text if value else "")
        away = [log - math.log(link.bound) for log in logs]
        needed = blocks_needed(away, Rule(minimum_effect=0.0, looks=looks), ALPHA)
        return _InequalityTest(updated(blank, blocks_needed=needed), link)
    value = estimate.geometric_mean(logs)
    assert value is not None, "six blocks have an interval"
    # A check is one of the whole left side only where that is the ratio of two costs.
    checks = parts[0].checks if len(parts) == 1 and factor == 1 else ()
    decided = decision.decide_bound(dict(enumerate(logs)), link.bound, checks, looks)
    blank = updated(blank, value=value, measured=value.text)
    return _InequalityTest(blank, link, decided, checks)


def _combined(parts: Sequence[LogRatioSample]) -> list[float]:
    """One logarithm per block; blocks of several workloads are independent, and meet by number."""
    ordered = [[part.logs[block] for block in sorted(part.logs)] for part in parts]
    return [sum(logs) for logs in zip(*ordered, strict=False)]


def _decided(known: ClaimData, test: _InequalityTest, found: Comparison) -> InequalityResult:
    """The answer of one inequality; a generator-bound rate proves one direction only."""
    remarks = list(_shares(known, test.link))
    answer = updated(
        test.found, status=ClaimStatus.UNDECIDED, p_holm=found.p_holm, cross_checks=test.checks
    )
    if not found.proven:
        reason = decision.doubt(found, test.link.bound)
        return updated(
            answer,
            remarks=(*remarks, *([reason] if reason else ())),
            blocks_needed=None if reason else found.blocks_needed,
        )
    is_above = not found.verdict.is_lower
    held = generator_held(
        lambda quantity: known.workloads[_workload(known, quantity)],
        test.link.above,
        test.link.below,
    )
    if reason := held.doubt(is_above=is_above):
        return updated(answer, remarks=(*remarks, reason))
    is_right = is_above == (test.link.relation == ">")
    status = ClaimStatus.HOLDS if is_right else ClaimStatus.FAILS
    return updated(answer, status=status, remarks=tuple(remarks))


def _shares(known: ClaimData, link: Inequality) -> Iterator[str]:
    if any(run.cores.shared for run in _runs(known, link)):
        yield "servers and load generator shared cores: the ratio holds for this arrangement only"


def _published(known: ClaimData, link: Inequality) -> float | None:
    """What the published values of one table make of it; absolute values are never compared."""
    tables: dict[str, dict[Quantity, float]] = {}
    for row in known.header.experiment.published:
        if row.quantity:
            named = read_quantity(row.quantity)
            named = updated(named, workload=_workload(known, named))
            tables.setdefault(row.table, {})[named] = row.value
    above, below = (
        [updated(one, workload=_workload(known, one)) for one in side]
        for side in (link.above, link.below)
    )
    for table in tables.values():
        if above and below and all(table.get(one) for one in (*above, *below)):
            top, bottom = (math.prod(table[one] for one in side) for side in (above, below))
            return top / bottom
    return None


def _counted(known: ClaimData, link: Inequality, blank: InequalityResult) -> InequalityResult:
    quantity = link.left.above[0]
    value = _count(known, quantity)
    if value is None:
        remark = f"no trial of {quantity.arm} counts"
        return updated(blank, status=ClaimStatus.UNDECIDED, remarks=(remark,))
    number = link.right.number
    holds = {"<": value < number, ">": value > number, "=": value == number}[link.relation]
    return updated(
        blank,
        status=ClaimStatus.HOLDS if holds else ClaimStatus.FAILS,
        measured=f"{value:g}",
    )


def _count(known: ClaimData, quantity: Quantity) -> float | None:
    campaign = known.workloads[_workload(known, quantity)]
    if quantity.metric == "errors":
        return claim_quantities.error_count(campaign, quantity.arm)
    return claim_quantities.counter_value(campaign.counters[quantity.arm], quantity.metric)


def _factor(known: ClaimData, link: Inequality) -> float | None:
    """The exact counts of a link, multiplied; None where one of them is 0."""
    found = 1.0
    for way, quantities in ((1, link.above), (-1, link.below)):
        for quantity in quantities:
            value = _count(known, quantity) if quantity.is_count else 1.0
            if not value:
                return None
            found *= value**way
    return found


def _missing_data(known: ClaimData, quantity: Quantity) -> tuple[ClaimStatus, str] | None:
    """Why a quantity cannot be had, and whether that is for lack of something here."""
    if quantity.is_benchmark:
        return _missing_benchmark(known, quantity)
    lack = _missing_trials(known, quantity) or _missing_count(known, quantity)
    return lack or _missing_threads(known, quantity)


def _missing_trials(known: ClaimData, quantity: Quantity) -> tuple[ClaimStatus, str] | None:
    name, arm = _workload(known, quantity), quantity.arm
    if name in known.header.skipped:
        return ClaimStatus.NOT_TESTABLE, known.header.skipped[name]
    campaign = known.workloads.get(name)
    if campaign is None:
        return ClaimStatus.UNDECIDED, f"the workload {name} is not finished"
    for unavailable in campaign.run.unavailable:
        if unavailable.name == arm:
            return ClaimStatus.NOT_TESTABLE, unavailable.sentence
    # Counts come from a start of their own, which a busy machine does not disturb.
    if quantity.is_count:
        return None
    found = arm_outcome(campaign.trials, arm)
    if found.status is not MeasurementStatus.MEASURED:
        disturbed = sum(is_rejected(trial) for trial in campaign.trials if arm in trial.arms)
        reason = (
            f"{disturbed} of its {found.total} {plural(found.total, 'trial')}"
            f" {plural(disturbed, 'was', 'were')} rejected, none counts"
        )
        reason = found.failures[0].reason if found.failures else reason
        return ClaimStatus.UNDECIDED, f"{arm} has no value: {reason}"
    excluded = campaign.comparison_input.excluded_arms.get(arm)
    return (ClaimStatus.UNDECIDED, excluded[1]) if excluded else None


def _missing_count(known: ClaimData, quantity: Quantity) -> tuple[ClaimStatus, str] | None:
    if not quantity.is_count or quantity.metric == "errors":
        return None
    counts = known.workloads[_workload(known, quantity)].counters.get(quantity.arm)
    if counts is None:
        return ClaimStatus.NOT_TESTABLE, f"no counters were recorded for {quantity.arm}"
    if claim_quantities.counter_value(counts, quantity.metric) is None:
        reason = counts.syscalls_reason or "no counter was available"
        return ClaimStatus.NOT_TESTABLE, f"{quantity.text}: {reason}"
    return None


def _missing_threads(known: ClaimData, quantity: Quantity) -> tuple[ClaimStatus, str] | None:
    readings = known.workloads[_workload(known, quantity)].valid_trials
    if quantity.metric == "total_cpu" and not claim_quantities.logs(readings, quantity):
        return ClaimStatus.NOT_TESTABLE, "the CPU time of the kernel's threads cannot be seen here"
    return None


def _missing_benchmark(known: ClaimData, quantity: Quantity) -> tuple[ClaimStatus, str] | None:
    found = known.benchmarks.get(quantity.arm)
    if found is None:
        return ClaimStatus.UNDECIDED, f"the microbenchmark {quantity.arm} was not run"
    if found.reason:
        return ClaimStatus.NOT_TESTABLE, found.reason
    name = quantity.metric.partition(".")[2]
    if not all(name in one for one in found.rounds):
        return ClaimStatus.NOT_TESTABLE, f"the microbenchmark {quantity.arm} did not print {name}"
    return None


def _parts(known: ClaimData, link: Inequality) -> Iterator[LogRatioSample]:
    """What each workload and each bench contributes; those of different ones are independent."""
    above = [(_origin(known, q), q) for q in link.above if not q.is_count]
    below = [(_origin(known, q), q) for q in link.below if not q.is_count]
    for origin in dict.fromkeys(one for one, _ in (*above, *below)):
        mine = [q for one, q in above if one == origin], [q for one, q in below if one == origin]
        benchmark, workload = origin
        if benchmark:
            yield claim_quantities.benchmark_sample(known.benchmarks[benchmark], *mine)
        else:
            yield claim_quantities.log_ratio_sample(known.workloads[workload], *mine)


def _origin(known: ClaimData, quantity: Quantity) -> tuple[str, str]:
    """The bench or the workload that a quantity comes from."""
    return (quantity.arm, "") if quantity.is_benchmark else ("", _workload(known, quantity))
