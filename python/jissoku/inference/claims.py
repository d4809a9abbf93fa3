"""From an experiment's records to the result of each claim."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from jissoku.inference import checks, compare, decision, estimate, latency
from jissoku.inference.blocks import (
    PAIRED_KINDS,
    ComparisonInput,
    ValidTrials,
    log_cost,
    log_total_cpu,
    measurement_of,
    valid_trials,
)
from jissoku.inference.checks import is_rejected
from jissoku.inference.compare import arm_outcome, comparison_input
from jissoku.inference.decision import Decided, Rule, blocks_needed
from jissoku.inference.estimate import Looks
from jissoku.inference.expression import (
    COUNTERS,
    Inequality,
    Quantity,
    parse,
    quantity as read_quantity,
)
from jissoku.model import (
    FULL_LOAD,
    ArmMeasurement,
    Bottleneck,
    Comparison,
    CounterReadings,
    CrossCheck,
    Load,
    MeasurementStatus,
    Run,
    Trial,
    TrialKind,
)
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

Logs = Mapping[int, float]


@dataclass(frozen=True, kw_only=True)  # without slots, which prevent cached properties
class WorkloadTrials:
    """One workload's records.

    Attributes:
        counters: Counters per request, by arm; empty without any.
    """

    run: Run
    trials: tuple[Trial, ...]
    counters: Mapping[str, CounterReadings]

    @cached_property
    def valid_trials(self) -> ValidTrials:
        return valid_trials(self.trials)

    @cached_property
    def comparison_input(self) -> ComparisonInput:
        return comparison_input(self.run, self.trials)

    @cached_property
    def load(self) -> Load:
        """The load of the workload; the heaviest of several."""
        loads = self.comparison_input.loads
        return loads[-1] if loads else FULL_LOAD

    @cached_property
    def at_load(self) -> ValidTrials:
        """The trials at that load, and those of the closed loop."""
        here = self.load.rate_rps
        return self.comparison_input.main.only(lambda trial: trial.load_rps in {here, None})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRatioSample:
    """The part of an inequality that one workload contributes: log ratios by block, and checks.

    Attributes:
        looks: When the logarithms may be looked at.
    """

    logs: Logs
    checks: tuple[CrossCheck, ...] = ()
    looks: Looks = field(default_factory=Looks)


@dataclass(frozen=True, slots=True)
class Held:
    """Arms whose rate was held down by the load generator, above and below the line of a ratio."""

    above: tuple[str, ...] = ()
    below: tuple[str, ...] = ()

    def doubt(self, *, is_above: bool) -> str:
        """Why a ratio may not be on this side of its bound: such a rate is less than the truth."""
        arms = ", ".join(sorted({*(self.below if is_above else self.above)}))
        return arms and f"the load generator, not the server, held the rate down: {arms}"


def generator_held(
    campaign_of: Callable[[Quantity], WorkloadTrials],
    above: Sequence[Quantity],
    below: Sequence[Quantity],
) -> Held:
    """Which rates of a ratio say more about the load generator than about the server."""
    return Held(
        *(
            tuple(
                q.arm
                for q in quantities
                if q.metric == "rate"
                and rate_bottleneck(campaign_of(q), q.arm) is Bottleneck.GENERATOR
            )
            for quantities in (above, below)
        )
    )


def log_ratio_sample(
    campaign: WorkloadTrials, above: Sequence[Quantity], below: Sequence[Quantity]
) -> LogRatioSample:
    """The log of the quantities above over those below, all of one workload, block by block.

    The costs of two arms are taken from common trials; all other values are paired by block, in
    which trials ran one after the other.
    """
    if [q.metric for q in (*above, *below)] == ["cost", "cost"] and len(above) == 1:
        return _cost_ratio(campaign, above[0].arm, below[0].arm)
    known = campaign.at_load
    signed = [(1, logs(known, q)) for q in above] + [(-1, logs(known, q)) for q in below]
    shared = set.intersection(*(set(found) for _, found in signed))
    return LogRatioSample(
        logs={block: sum(sign * one[block] for sign, one in signed) for block in sorted(shared)},
        looks=campaign.comparison_input.looks,
    )


def _cost_ratio(campaign: WorkloadTrials, arm: str, against: str) -> LogRatioSample:
    evidence = campaign.comparison_input
    found = compare.compare_cost(evidence, arm, against, campaign.load, 1)
    pair = evidence.cost_ratios(campaign.load, arm, against)
    checks = found.found.cross_checks if found else ()
    return LogRatioSample(logs=pair.logs, checks=checks, looks=pair.looks)


def benchmark_sample(
    figures: BenchmarkOutput, above: Sequence[Quantity], below: Sequence[Quantity]
) -> LogRatioSample:
    """The log of a benchmark's values above over those below, round by round."""
    signed = [(1, _name(q)) for q in above] + [(-1, _name(q)) for q in below]
    return LogRatioSample(
        logs={
            index: sum(sign * math.log(found[name]) for sign, name in signed)
            for index, found in enumerate(figures.rounds)
        }
    )


def counter_value(counts: CounterReadings, metric: str) -> float | None:
    """One count per request; None if it is unknown, which is not zero."""
    metric, _, name = metric.partition(".")
    if metric != "calls":
        return counts.per_request.get(metric)
    if counts.syscalls_reason:
        return None
    if name:
        return counts.per_request.get(name, 0.0)
    return sum(n for one, n in counts.per_request.items() if one not in COUNTERS)


def _name(quantity: Quantity) -> str:
    return quantity.metric.partition(".")[2]


def logs(known: ValidTrials, quantity: Quantity) -> dict[int, float]:
    """One quantity's logarithm in each block; blocks without it are skipped."""
    arm = quantity.arm
    if quantity.metric == "cost":
        return _costs(known, arm)
    rates = known.with_arm(TrialKind.CLOSED_LOOP, arm)
    if quantity.metric == "rate":
        return _each(
            rates, arm, lambda measurement: measurement.requests / measurement.duration_ns * 1e9
        )
    if quantity.metric == "total_cpu":
        found = {trial.block: log_total_cpu(trial, arm) for trial in rates}
        return {block: value for block, value in found.items() if value is not None}
    if quantity.metric == "memory":
        return _each(rates, arm, lambda measurement: measurement.rss_bytes_peak or 0)
    fraction = latency.FRACTIONS[quantity.metric]
    measurements = latency.latency_measurements(known, arm)
    if measurements:
        return latency.log_percentiles(measurements, fraction)
    return _each(rates, arm, lambda measurement: _latency(measurement, fraction))


def rate_bottleneck(campaign: WorkloadTrials, arm: str) -> Bottleneck:
    """The bottleneck of the closed-loop rate of an arm."""
    trials = campaign.valid_trials.with_arm(TrialKind.CLOSED_LOOP, arm)
    return checks.common_bottleneck(t.conditions for t in trials if t.conditions)


def error_count(campaign: WorkloadTrials, arm: str) -> int | None:
    """Failed requests in all trials of an arm, also in trials that errors made invalid.

    A trial in which the arm failed completely has no count and adds one error. None without a
    trial.
    """
    mine = [trial for trial in campaign.trials if arm in trial.arms]
    measurements = [
        measurement for trial in mine if (measurement := measurement_of(trial, arm)) is not None
    ]
    failed = sum(t.failure is not None and t.failure.arm == arm for t in mine)
    return (
        sum(sum(measurement.errors.values()) for measurement in measurements) + failed
        if mine
        else None
    )


def _costs(known: ValidTrials, arm: str) -> dict[int, float]:
    """From trials with other arms, averaged if a block has several; else from single trials."""
    trials = next(
        (
            t
            for kind in (*PAIRED_KINDS.values(), TrialKind.FIXED_RATE)
            if (t := known.with_arm(kind, arm))
        ),
        [],
    )
    blocks: dict[int, list[float]] = {}
    for trial in trials:
        cost = log_cost(trial, arm)
        if cost is not None:
            blocks.setdefault(trial.block, []).append(cost)
    return {block: sum(costs) / len(costs) for block, costs in blocks.items()}


def _each(
    trials: Iterable[Trial], arm: str, value: Callable[[ArmMeasurement], float]
) -> dict[int, float]:
    found = {}
    for trial in trials:
        measurement = measurement_of(trial, arm)
        if measurement is not None and measurement.requests and value(measurement) > 0:
            found[trial.block] = math.log(value(measurement))
    return found


def _latency(measurement: ArmMeasurement, fraction: float) -> float:
    """A percentile; 0, which is not a value, if too few answers lie above it."""
    if not latency.is_supported(fraction, measurement.requests):
        return 0.0
    return float(latency.percentile_ns(measurement, fraction))


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
        return error_count(campaign, quantity.arm)
    return counter_value(campaign.counters[quantity.arm], quantity.metric)


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
    if counter_value(counts, quantity.metric) is None:
        reason = counts.syscalls_reason or "no counter was available"
        return ClaimStatus.NOT_TESTABLE, f"{quantity.text}: {reason}"
    return None


def _missing_threads(known: ClaimData, quantity: Quantity) -> tuple[ClaimStatus, str] | None:
    readings = known.workloads[_workload(known, quantity)].valid_trials
    if quantity.metric == "total_cpu" and not logs(readings, quantity):
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
            yield benchmark_sample(known.benchmarks[benchmark], *mine)
        else:
            yield log_ratio_sample(known.workloads[workload], *mine)


def _origin(known: ClaimData, quantity: Quantity) -> tuple[str, str]:
    """The bench or the workload that a quantity comes from."""
    return (quantity.arm, "") if quantity.is_benchmark else ("", _workload(known, quantity))
