"""From an experiment's records to the result of each claim, and beside published values."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from jissoku.inference import checks, compare, decision, estimate, latency
from jissoku.inference.blocks import (
    PAIRED_KINDS,
    ComparisonInput,
    ValidTrials,
    block_log_costs,
    log_total_cpu,
    measured,
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
from jissoku.model import FULL_LOAD, Load, Run, summary as model, updated
from jissoku.model.experiment import (
    BenchmarkOutput,
    Claim,
    ClaimResult,
    ClaimStatus,
    ExperimentHeader,
    InequalityResult,
    PublishedComparison,
    PublishedFigure,
)
from jissoku.model.trial import ArmMeasurement, Trial, TrialKind
from jissoku.model.wording import plural, too_few_blocks

Logs = Mapping[int, float]

# Measured in the closed loop only.
CLOSED_LOOP_METRICS = {"rate", "memory", "total_cpu"}


@dataclass(frozen=True, kw_only=True)  # without slots, which prevent cached properties
class WorkloadTrials:
    """One workload's records, and its counters per request by arm."""

    run: Run
    trials: tuple[Trial, ...]
    counters: Mapping[str, model.CounterReadings]

    @cached_property
    def comparison_input(self) -> ComparisonInput:
        return comparison_input(self.run, self.trials)

    @property
    def valid_trials(self) -> ValidTrials:
        return self.comparison_input.valid_trials

    @cached_property
    def load(self) -> Load:
        loads = self.comparison_input.loads
        return loads[-1] if loads else FULL_LOAD

    @cached_property
    def at_load(self) -> ValidTrials:
        here = self.load.rate_rps
        return self.comparison_input.main.only(lambda trial: trial.load_rps in {here, None})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRatioSample:
    logs: Logs
    checks: tuple[model.CrossCheck, ...] = ()
    looks: Looks = field(default_factory=Looks)
    block_s: float | None = None


def log_ratio_sample(
    campaign: WorkloadTrials, above: Sequence[Quantity], below: Sequence[Quantity]
) -> LogRatioSample:
    """The log of the quantities above over those below, all of one workload, block by block.

    The costs of two arms are taken from common trials; all other values are paired by block, in
    which trials ran one after the other.
    """
    evidence = campaign.comparison_input
    if [q.metric for q in (*above, *below)] == ["cost", "cost"] and len(above) == 1:
        arms = above[0].arm, below[0].arm
        found = compare.compare_cost(evidence, *arms, campaign.load, 1)
        pair = evidence.cost_ratios(campaign.load, *arms)
        return LogRatioSample(
            logs=pair.logs,
            checks=found.found.cross_checks if found else (),
            looks=pair.looks,
            block_s=found.block_s if found else None,
        )
    known = campaign.at_load
    sides = ([logs(known, q) for q in side] for side in (above, below))
    return LogRatioSample(logs=_by_block(*sides), looks=evidence.looks)


def _by_block(above: Sequence[Logs], below: Sequence[Logs]) -> Logs:
    """The sum of some logarithms less that of others, in those blocks that all of them have."""
    signed = [(1, one) for one in above] + [(-1, one) for one in below]
    shared = set.intersection(*(set(one) for _, one in signed))
    return {block: sum(sign * one[block] for sign, one in signed) for block in sorted(shared)}


def logs(known: ValidTrials, quantity: Quantity) -> dict[int, float]:
    """One quantity's logarithm in each block; blocks without it are skipped."""
    arm, metric = quantity.arm, quantity.metric
    if metric == "cost":
        return _costs(known, arm)
    rates = known.with_arm(TrialKind.CLOSED_LOOP, arm)
    if metric == "rate":
        return _each(rates, arm, lambda one: one.requests / one.duration_ns * 1e9)
    if metric == "total_cpu":
        found = {trial.block: log_total_cpu(trial, arm) for trial in rates}
        return {block: value for block, value in found.items() if value is not None}
    if metric == "memory":
        return _each(rates, arm, lambda one: one.rss_bytes_peak or 0)
    fraction = latency.FRACTIONS[metric]
    measurements = latency.latency_measurements(known, arm)
    if measurements:
        return latency.log_percentiles(measurements, fraction)

    def percentile(one: ArmMeasurement) -> float:
        is_supported = latency.is_supported(fraction, one.requests)
        return latency.percentile_ns(one, fraction) if is_supported else 0

    return _each(rates, arm, percentile)


def _costs(known: ValidTrials, arm: str) -> dict[int, float]:
    """From trials with other arms, averaged if a block has several; else from single trials."""
    kinds = (*PAIRED_KINDS.values(), TrialKind.FIXED_RATE)
    trials = next(filter(None, (known.with_arm(kind, arm) for kind in kinds)), [])
    blocks = block_log_costs(trials, arm)
    return {block: sum(costs) / len(costs) for block, costs in blocks.items()}


def _each(
    trials: Iterable[Trial], arm: str, value: Callable[[ArmMeasurement], float]
) -> dict[int, float]:
    return {
        trial.block: math.log(number)
        for trial, measurement in measured(trials, arm)
        if measurement.requests and (number := value(measurement)) > 0
    }


def rate_doubt(
    campaign_of: Callable[[Quantity], WorkloadTrials], link: Inequality, *, is_above: bool
) -> str:
    """Why a ratio may not be on this side of its bound: a rate in it is less than the truth.

    The closed loop of such an arm says more about the load generator than about the server.
    """
    held = set()
    for one in link.below if is_above else link.above:
        if one.metric == "rate":
            trials = campaign_of(one).valid_trials.with_arm(TrialKind.CLOSED_LOOP, one.arm)
            bound = checks.bottleneck(t.conditions for t in trials if t.conditions)
            if bound is model.Bottleneck.GENERATOR:
                held.add(one.arm)
    if not held:
        return ""
    return f"the load generator, not the server, held the rate down: {', '.join(sorted(held))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimData:
    """What claims are answered from; workloads that were not run have no campaign."""

    header: ExperimentHeader
    workloads: Mapping[str, WorkloadTrials]
    benchmarks: Mapping[str, BenchmarkOutput] = field(default_factory=dict)

    def workload_of(self, quantity: Quantity) -> str:
        return quantity.workload or self.header.experiment.workload[0].name

    def campaign_of(self, quantity: Quantity) -> WorkloadTrials:
        return self.workloads[self.workload_of(quantity)]

    def runs_of(self, link: Inequality) -> list[Run]:
        names = {self.workload_of(one) for one in link.quantities if not one.is_benchmark}
        return [self.workloads[name].run for name in names if name in self.workloads]


@dataclass(frozen=True, slots=True)
class _InequalityTest:
    found: InequalityResult
    link: Inequality
    decided: Decided | None = None


def evaluate_claims(known: ClaimData, claims: Sequence[Claim]) -> tuple[ClaimResult, ...]:
    """Answers all claims of an experiment.

    A claim holds when all its inequalities do. All measured inequalities of the experiment are one
    family (Holm), and each is decided as every comparison is: Student's t, with which the exact
    interval of Hodges and Lehmann has to agree, and checks that do not contradict it.
    """
    reasons = [_not_testable(known, claim) for claim in claims]
    tests = [
        [] if reason else [_test(known, text, link) for text in claim.test for link in parse(text)]
        for claim, reason in zip(claims, reasons, strict=True)
    ]
    family = [test.decided for found in tests for test in found if test.decided]
    answers = iter(decision.settle(family))
    return tuple(
        ClaimResult(claim=claim, status=ClaimStatus.NOT_TESTABLE, remarks=(reason,))
        if reason
        else _claim_result(known, claim, found, answers)
        for claim, reason, found in zip(claims, reasons, tests, strict=True)
    )


def _not_testable(known: ClaimData, claim: Claim) -> str:
    if claim.not_testable:
        return claim.not_testable
    # As many cores as the servers have in the claim's workloads; some of those share all cores.
    runs = [run for text in claim.test for link in parse(text) for run in known.runs_of(link)]
    cores = min((len(run.cores.server) for run in runs), default=len(known.header.cores.server))
    if cores >= claim.server_cores_min:
        return ""
    return (
        f"the server has {cores} {plural(cores, 'core')} here, and the claim is about at least"
        f" {claim.server_cores_min}"
    )


def _claim_result(
    known: ClaimData,
    claim: Claim,
    tests: Sequence[_InequalityTest],
    answers: Iterator[model.Comparison],
) -> ClaimResult:
    """One that fails decides; else one that is open; what could not be had is left out."""
    found = tuple(
        _decided(known, test, next(answers)) if test.decided else test.found for test in tests
    )
    states = [one.status for one in found]
    order = (ClaimStatus.FAILS, ClaimStatus.UNDECIDED, ClaimStatus.HOLDS)
    lost = states.count(ClaimStatus.NOT_TESTABLE)
    remark = f"{lost} of {len(tests)} parts cannot be tested here, and are omitted"
    return ClaimResult(
        claim=claim,
        status=next((one for one in order if one in states), ClaimStatus.NOT_TESTABLE),
        inequalities=found,
        remarks=(remark,) if 0 < lost < len(tests) else (),
    )


def _test(known: ClaimData, text: str, link: Inequality) -> _InequalityTest:
    blank = InequalityResult(
        text=text,
        status=ClaimStatus.NOT_TESTABLE,
        bound=link.bound,
        relation=link.relation,
        published=_published(known, link),
    )
    for status, remark in (lack for one in link.quantities for lack in _lacks(known, one)):
        return _InequalityTest(updated(blank, status=status, remarks=(remark,)), link)
    if all(quantity.is_count for quantity in link.quantities):
        return _InequalityTest(_counted(known, link, blank), link)
    factor = _factor(known, link)
    if factor is None:
        remark = "a count in it is 0: a ratio is undefined"
        return _InequalityTest(updated(blank, remarks=(remark,)), link)
    parts = list(_parts(known, link))
    # Blocks of several workloads are independent, and meet by number.
    ordered = [[part.logs[block] for block in sorted(part.logs)] for part in parts]
    found = [sum(each) + math.log(factor) for each in zip(*ordered, strict=False)]
    looks = max((part.looks for part in parts), key=lambda one: (one.horizon, one.estimates))
    value = estimate.geometric_mean(found)
    if value is not None:
        blank = updated(blank, value=value, measured=value.text)
    if len(found) < looks.first:
        remark = f"{too_few_blocks(len(found))}: at least {looks.first} are needed"
        away = [log - math.log(link.bound) for log in found]
        needed = blocks_needed(away, Rule(minimum_effect=0.0, looks=looks), model.ALPHA)
        blank = updated(blank, status=ClaimStatus.UNDECIDED, blocks_needed=needed)
        return _InequalityTest(updated(blank, remarks=(remark,)), link)
    # A check is one of the whole left side only where that is the ratio of two costs.
    cross_checks = parts[0].checks if len(parts) == 1 and factor == 1 else ()
    decided = decision.decide_bound(dict(enumerate(found)), link.bound, cross_checks, looks)
    return _InequalityTest(updated(blank, cross_checks=cross_checks), link, decided)


def _decided(known: ClaimData, test: _InequalityTest, found: model.Comparison) -> InequalityResult:
    link, status, needed = test.link, ClaimStatus.UNDECIDED, test.found.blocks_needed
    is_above = not found.verdict.is_lower
    if not found.proven:
        reason = decision.doubt(found, link.bound)
        needed = None if reason else found.blocks_needed
    elif not (reason := rate_doubt(known.campaign_of, link, is_above=is_above)):
        is_right = is_above == (link.relation == ">")
        status = ClaimStatus.HOLDS if is_right else ClaimStatus.FAILS
    remarks = [reason] if reason else []
    if any(run.cores.shared for run in known.runs_of(link)):
        shared = "servers and load generator shared cores"
        remarks.insert(0, f"{shared}: the ratio holds for this arrangement only")
    return updated(
        test.found,
        status=status,
        p_holm=found.p_holm,
        blocks_needed=needed,
        remarks=tuple(remarks),
    )


def _published(known: ClaimData, link: Inequality) -> float | None:
    """What the published values of one table make of it; absolute values are never compared."""
    tables: dict[str, dict[Quantity, float]] = {}
    for row in known.header.experiment.published:
        if row.quantity:
            place = _located(known, read_quantity(row.quantity))
            tables.setdefault(row.table, {})[place] = row.value
    above, below = ([_located(known, one) for one in side] for side in (link.above, link.below))
    for table in tables.values():
        if above and below and all(table.get(one) for one in (*above, *below)):
            top, bottom = (math.prod(table[one] for one in side) for side in (above, below))
            return top / bottom
    return None


def _located(known: ClaimData, quantity: Quantity) -> Quantity:
    return updated(quantity, workload=known.workload_of(quantity))


def _counted(known: ClaimData, link: Inequality, blank: InequalityResult) -> InequalityResult:
    (quantity,) = link.above
    value = _count(known, quantity)
    if value is None:
        remark = f"no trial of {quantity.arm} counts"
        return updated(blank, status=ClaimStatus.UNDECIDED, remarks=(remark,))
    number = link.bound
    holds = {"<": value < number, ">": value > number, "=": value == number}[link.relation]
    status = ClaimStatus.HOLDS if holds else ClaimStatus.FAILS
    return updated(blank, status=status, measured=f"{value:g}")


def _count(known: ClaimData, quantity: Quantity) -> float | None:
    campaign, arm = known.campaign_of(quantity), quantity.arm
    if quantity.metric != "errors":
        return _counter_value(campaign.counters[arm], quantity)
    # Also in trials that errors made invalid; one in which the arm failed completely adds one.
    mine = [trial for trial in campaign.trials if arm in trial.arms]
    wrong = sum(sum(one.errors.values()) for _, one in measured(mine, arm))
    failed = sum(t.failure is not None and t.failure.arm == arm for t in mine)
    return wrong + failed if mine else None


def _counter_value(counts: model.CounterReadings, quantity: Quantity) -> float | None:
    """One count per request; None if it is unknown, which is not zero."""
    if quantity.name != "calls":
        return counts.per_request.get(quantity.name)
    if counts.syscalls_reason:
        return None
    if quantity.part:
        return counts.per_request.get(quantity.part, 0.0)
    return sum(n for one, n in counts.per_request.items() if one not in COUNTERS)


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


# Why a quantity cannot be had, and whether that is for lack of something here.
Lack = tuple[ClaimStatus, str]


def _lacks(known: ClaimData, quantity: Quantity) -> Iterator[Lack]:
    if quantity.is_benchmark:
        yield from _lacks_of_benchmark(known.benchmarks.get(quantity.arm), quantity)
        return
    name, arm = known.workload_of(quantity), quantity.arm
    if name in known.header.skipped:
        yield ClaimStatus.NOT_TESTABLE, known.header.skipped[name]
    campaign = known.workloads.get(name)
    if campaign is None:
        yield ClaimStatus.UNDECIDED, f"the workload {name} is not finished"
        return
    for unavailable in campaign.run.unavailable:
        if unavailable.name == arm:
            yield ClaimStatus.NOT_TESTABLE, unavailable.sentence
    # Counts come from a start of their own, which a busy machine does not disturb.
    if not quantity.is_count:
        yield from _lacks_of_value(campaign, quantity)
    elif quantity.metric != "errors":
        yield from _lacks_of_count(campaign.counters.get(arm), quantity)


def _lacks_of_value(campaign: WorkloadTrials, quantity: Quantity) -> Iterator[Lack]:
    arm = quantity.arm
    outcome = arm_outcome(campaign.trials, arm)
    if outcome.status is not model.MeasurementStatus.MEASURED:
        disturbed = sum(is_rejected(trial) for trial in campaign.trials if arm in trial.arms)
        reason = (
            f"{disturbed} of its {outcome.total} {plural(outcome.total, 'trial')}"
            f" {plural(disturbed, 'was', 'were')} rejected, none counts"
        )
        reason = outcome.failures[0].reason if outcome.failures else reason
        yield ClaimStatus.UNDECIDED, f"{arm} has no value: {reason}"
    if excluded := campaign.comparison_input.excluded_arms.get(arm):
        yield ClaimStatus.UNDECIDED, excluded[1]
    slow = campaign.comparison_input.unreached_text(campaign.load, arm)
    if slow and quantity.metric not in CLOSED_LOOP_METRICS:
        yield ClaimStatus.UNDECIDED, slow
    if quantity.metric == "total_cpu" and not logs(campaign.valid_trials, quantity):
        yield ClaimStatus.NOT_TESTABLE, "the CPU time of the kernel's threads cannot be seen here"


def _lacks_of_count(counts: model.CounterReadings | None, quantity: Quantity) -> Iterator[Lack]:
    if counts is None:
        yield ClaimStatus.NOT_TESTABLE, f"no counters were recorded for {quantity.arm}"
    elif _counter_value(counts, quantity) is None:
        reason = counts.syscalls_reason or "no counter was available"
        yield ClaimStatus.NOT_TESTABLE, f"{quantity.text}: {reason}"


def _lacks_of_benchmark(found: BenchmarkOutput | None, quantity: Quantity) -> Iterator[Lack]:
    name = f"the microbenchmark {quantity.arm}"
    if found is None:
        yield ClaimStatus.UNDECIDED, f"{name} was not run"
    elif found.reason:
        yield ClaimStatus.NOT_TESTABLE, found.reason
    elif not all(quantity.part in one for one in found.rounds):
        yield ClaimStatus.NOT_TESTABLE, f"{name} did not print {quantity.part}"


def _parts(known: ClaimData, link: Inequality) -> Iterator[LogRatioSample]:
    """What each workload and each benchmark contributes; different ones are independent."""

    def origin(quantity: Quantity) -> tuple[str, str]:
        is_benchmark = quantity.is_benchmark
        return (quantity.arm, "") if is_benchmark else ("", known.workload_of(quantity))

    sides = [[q for q in side if not q.is_count] for side in (link.above, link.below)]
    for benchmark, workload in dict.fromkeys(origin(q) for side in sides for q in side):
        above, below = ([q for q in side if origin(q) == (benchmark, workload)] for side in sides)
        if benchmark:
            rounds = dict(enumerate(known.benchmarks[benchmark].rounds))
            values = (
                [{i: math.log(one[q.part]) for i, one in rounds.items()} for q in side]
                for side in (above, below)
            )
            yield LogRatioSample(logs=_by_block(*values))
        else:
            yield log_ratio_sample(known.workloads[workload], above, below)


def compare_published(known: ClaimData) -> Iterator[PublishedComparison]:
    """Published values and measured ones, both as ratios to their table's first row.

    Every row in the order of the file; absolute values are never compared.
    """
    first: dict[str, PublishedFigure] = {}
    for row in known.header.experiment.published:
        head = first.setdefault(row.table, row)
        ours, head_ours = (
            read_quantity(one.quantity) if one.quantity else None for one in (row, head)
        )
        value = _level(known, ours)
        yield PublishedComparison(
            published=row,
            ratio=row.value / head.value if head.value else None,
            ours=value,
            our_ratio=_ratio(known, ours, head_ours) if row is not head else None,
            remark="" if value or not row.quantity else "not measured here",
        )


def _level(known: ClaimData, wanted: Quantity | None) -> model.Estimate | None:
    if wanted is None or wanted.is_count or wanted.is_benchmark:
        return None
    if known.workload_of(wanted) not in known.workloads:
        return None
    found = logs(known.campaign_of(wanted).valid_trials, wanted)
    return estimate.geometric_mean(list(found.values()))


def _ratio(known: ClaimData, ours: Quantity | None, head: Quantity | None) -> model.Estimate | None:
    """Paired by block within a workload; across workloads the ratio of the means."""
    if ours is None or head is None or ours.metric != head.metric or ours.is_benchmark:
        return None
    name = known.workload_of(ours)
    if name == known.workload_of(head) and name in known.workloads:
        found = log_ratio_sample(known.workloads[name], [ours], [head])
        return estimate.geometric_mean(list(found.logs.values()))
    above, below = _level(known, ours), _level(known, head)
    if above is None or below is None:
        return None
    value = above.value / below.value
    half = math.hypot(above.half_width, below.half_width)
    return model.Estimate(
        value=value,
        low=value * math.exp(-half),
        high=value * math.exp(half),
        blocks=min(above.blocks, below.blocks),
        sd_log=math.hypot(above.sd_log, below.sd_log),
    )
