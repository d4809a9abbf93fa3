"""The results of a run: every value and verdict of its report, its bounds, and of tuning."""

import math
from enum import StrEnum

import msgspec

from jissoku.model.recipe import Knob
from jissoku.model.run import FULL_LOAD, Arm, Load, Run
from jissoku.model.trial import Condition
from jissoku.model.updated import updated
from jissoku.request import ExplanationRequest, TuningRequest

SCHEMA = "jissoku.summary/3"

# The chance of any false statement among all comparisons by one metric.
ALPHA = 0.05


class Metric(StrEnum):
    COST = "cost"  # CPU nanoseconds of the server per request
    P50 = "p50"  # latency in nanoseconds from the due time
    P99 = "p99"
    CAPACITY = "capacity"  # highest rate in requests per second that meets an objective
    TIME = "time"  # seconds per answer in the closed loop, on all cores

    @property
    def less_is_better(self) -> bool:
        return self is not Metric.CAPACITY


class Verdict(StrEnum):
    """The result of a comparison: an arm's value relative to that of the other arm."""

    LOWER = "lower"
    SLIGHTLY_LOWER = "slightly lower"
    EQUAL = "practically equal"
    SLIGHTLY_HIGHER = "slightly higher"
    HIGHER = "higher"
    INCONCLUSIVE = "inconclusive"
    DISPUTED = "methods disagree"
    UNREACHED = "rate not reached"
    INVALID = "invalid"
    FAILED = "failed"

    @property
    def inverted(self) -> "Verdict":
        return _INVERSE.get(self, self)

    @property
    def is_difference(self) -> bool:
        return self in _INVERSE

    @property
    def is_lower(self) -> bool:
        return self in {Verdict.LOWER, Verdict.SLIGHTLY_LOWER}

    @property
    def is_slight(self) -> bool:
        """Whether it is a difference that may be below the smallest one that matters."""
        return self in {Verdict.SLIGHTLY_LOWER, Verdict.SLIGHTLY_HIGHER}


_INVERSE = {
    Verdict.LOWER: Verdict.HIGHER,
    Verdict.SLIGHTLY_LOWER: Verdict.SLIGHTLY_HIGHER,
    Verdict.SLIGHTLY_HIGHER: Verdict.SLIGHTLY_LOWER,
    Verdict.HIGHER: Verdict.LOWER,
}


class EvidenceSource(StrEnum):
    """The trials a ratio is computed from."""

    TIME_SLICED = "time-sliced"
    PAIRED = "paired"
    TWO_PAIRED = "two paired trials"  # each arm against the same third one
    SINGLE = "single-target"


class Bottleneck(StrEnum):
    """What limited a closed-loop rate; only a server-bound rate describes the server."""

    SERVER = "server-bound"
    GENERATOR = "generator-bound"
    PATH = "path-bound"
    NEITHER = "neither bound"
    UNKNOWN = "bound unknown"


class MeasurementStatus(StrEnum):
    MEASURED = "measured"
    FAILED = "failed"
    INVALID = "invalid"
    UNMEASURED = "not measured"


class Severity(StrEnum):
    PROBLEM = "problem"  # something failed, or a verdict is missing
    WARNING = "warning"  # a value is valid, with a restriction
    NOTE = "note"


# The ends of an interval that are farther apart leave even the order of magnitude open.
VAGUE_FACTOR = 10


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A geometric mean over blocks with its interval; a ratio, or a positive quantity.

    Attributes:
        low: Lower end of the interval; 95 % unless its field says otherwise.
        blocks: Number of blocks it is computed from. Requests are never counted as samples.
        sd_log: Standard deviation of the natural logarithms over blocks.
    """

    value: float
    low: float
    high: float
    blocks: int
    sd_log: float

    @property
    def inverse(self) -> "Estimate":
        return updated(self, value=1 / self.value, low=1 / self.high, high=1 / self.low)

    @property
    def half_width(self) -> float:
        """Half-width of the interval, as a natural logarithm: 0.01 is one per cent each way."""
        return math.log(self.high / self.low) / 2

    @property
    def is_vague(self) -> bool:
        return self.low <= 0 or self.high > VAGUE_FACTOR * self.low

    def vague_ratio(self, unknown: str, more: str, less: str) -> str:
        """What a vague ratio is shown as: the words for unknown, or for being beyond one end."""
        if self.low > 1:
            return f"{more}{self.low:.2g}"
        return f"{less}{self.high:.2g}" if self.high < 1 else unknown

    @property
    def decimals(self) -> int:
        """Number of decimals shown: enough for one digit of the interval's half-width."""
        half = (self.high - self.low) / 2
        needed = 0 if half <= 0 else min(4, math.ceil(-math.log10(half)))
        readable = (2 if self.value >= 1 else 1) - math.floor(math.log10(self.value))
        return max(needed, min(4, max(0, readable)))

    @property
    def text(self) -> str:
        """As in `1.31 [1.28, 1.34]`."""
        places = self.decimals
        return f"{self.value:.{places}f} [{self.low:.{places}f}, {self.high:.{places}f}]"


class CrossCheckName(StrEnum):
    OTHER_SLICE = "other slice length"
    ALONE = "each alone"
    TIME_SLICED = "time-sliced"


class CrossCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The same ratio by another method, from few blocks; None if it is unavailable.

    `agrees` says whether it is compatible with the verdict's ratio, both intervals considered.
    """

    name: CrossCheckName
    ratio: Estimate | None
    agrees: bool


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One pair by one metric at one load.

    Attributes:
        against: The other arm; the ratio is the value of `arm` over that of this one.
        proven: The verdict is a difference, its p-value after Holm over all comparisons of the run
            by this metric is at most 0.05, and no check contradicts its direction.
        ratio: What the verdict is based on; None without a valid value.
        robust: Hodges-Lehmann estimate with its exact Wilcoxon interval.
        p_value: Of the t-test, after several looks the smallest that keeps their error; `p_holm`
            after Holm's correction, which counts the pairs that can be equal together.
        p_equal: Of a ratio outside of the minimum effect (two one-sided tests); `p_equal_holm`
            after Holm.
        p_sign_flip: Exact, without assuming a distribution.
        blocks_needed: If undecided: additional blocks that would decide, at this spread, up to
            1,000.
        seconds_needed: The time that these blocks take, as the newest one did; None if unknown.
        is_out_of_reach: Undecided, and the run is too short to decide it, or would last more than
            an hour.
        condition: How much other programs used the cores in the trials of this load.
        other_programs: The mean fraction of the cores' time that they used.
        is_calm: Whether `ratio` is of calm rotations of time slices alone, in which no other
            program delayed a target or the load generator.
        calm_fraction: The part of the rotations that was calm; None where that is unknown.
        other_ratio: Of all rotations if `is_calm`, else of the calm ones of those blocks that have
            enough of them; the interval is that of a single look.
    """

    arm: str
    against: str
    verdict: Verdict
    metric: Metric = Metric.COST
    load: Load = FULL_LOAD
    proven: bool = False
    ratio: Estimate | None = None
    source: EvidenceSource = EvidenceSource.TIME_SLICED
    cross_checks: tuple[CrossCheck, ...] = ()
    robust: Estimate | None = None
    p_value: float | None = None
    p_holm: float | None = None
    p_sign_flip: float | None = None
    p_equal: float | None = None
    p_equal_holm: float | None = None
    connections: int = 0
    minimum_effect: float = 0.01
    blocks_needed: int | None = None
    seconds_needed: float | None = None
    is_out_of_reach: bool = False
    condition: Condition = Condition.QUIET
    other_programs: float = 0.0
    is_calm: bool = False
    calm_fraction: float | None = None
    other_ratio: Estimate | None = None
    remarks: tuple[str, ...] = ()
    sentence: str = ""

    @property
    def is_decided(self) -> bool:
        """Whether a difference or an equality is proven, with all comparisons counted."""
        is_equal = self.verdict is Verdict.EQUAL and self.p_equal_holm is not None
        return self.proven or (is_equal and (self.p_equal_holm or 0.0) <= ALPHA)


def more_blocks(count: int) -> str:
    """`1 more block`, `12 more blocks`: how many would decide, in every report."""
    return f"{count} more block{'' if count == 1 else 's'}"


class BlockValue(msgspec.Struct, frozen=True, kw_only=True):
    block: int
    value: float


class Percentile(msgspec.Struct, frozen=True, kw_only=True):
    """A latency percentile: the geometric mean of those of all trials, of this many answers."""

    label: str
    fraction: float
    median_ns: float
    estimate_ns: Estimate | None
    requests: int = 0


class QuantilePoint(msgspec.Struct, frozen=True, kw_only=True):
    """A point of a latency distribution: this fraction of the answers took at most `latency_ns`."""

    fraction: float
    latency_ns: float


class FailureSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of failure of an arm, the target's last lines, and the indices of its trials.

    The stage is that of a trial; empty for wrong answers found by a check. `has_ended` is as of a
    trial's failure.
    """

    stage: str
    reason: str
    stderr: str = ""
    trials: tuple[int, ...] = ()
    has_ended: bool = False


class LoadPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Results of one arm at one load.

    Attributes:
        rank: At this load: one more than the number of arms proven to cost less. None for the
            floor, which is the unit, and for arms without a value.
        cost_ns: CPU nanoseconds of all the target's processes per request.
        background_fraction: Fraction of that CPU time used while other arms were under load.
        relative_costs: The same, block by block.
        percentiles: Of latency from the due time; only those supported by enough answers.
    """

    load: Load
    source: EvidenceSource
    rank: int | None = None
    cost_ns: Estimate | None = None
    background_fraction: float | None = None
    relative_cost: Estimate | None = None
    relative_costs: tuple[BlockValue, ...] = ()
    percentiles: tuple[Percentile, ...] = ()
    latency_curve: tuple[QuantilePoint, ...] = ()


class ArmSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Results of one arm.

    Attributes:
        points: One per load that it reached, lightest first.
        user_fraction: Fraction of CPU time in user space, in the closed loop.
        rate_rps: Closed loop, from single-target trials.
        capacity_rps: Highest rate that met the run's objective.
        capacity_rank: One more than the number of arms proven to have a higher one.
        rss_bytes: Median over trials of the resident memory at the window's end.
        idle_cpu_fraction: Fraction of one core used before the first request; None if unknown.
    """

    arm: Arm
    status: MeasurementStatus
    points: tuple[LoadPoint, ...] = ()
    unreached: tuple[Load, ...] = ()
    connections: int = 0
    user_fraction: float | None = None
    rate_rps: Estimate | None = None
    bottleneck: Bottleneck = Bottleneck.UNKNOWN
    capacity_rps: Estimate | None = None
    capacity_rank: int | None = None
    rss_bytes: int | None = None
    idle_cpu_fraction: float | None = None
    failures: tuple[FailureSummary, ...] = ()
    trials_valid: int = 0
    trials_total: int = 0

    def at(self, load: Load | None) -> LoadPoint | None:
        return next((point for point in self.points if point.load == load), None)

    @property
    def end(self) -> FailureSummary | None:
        """The first time that its process ended by itself."""
        return next((one for one in self.failures if one.has_ended), None)


class ReportWarning(msgspec.Struct, frozen=True, kw_only=True):
    severity: Severity
    title: str
    text: str = ""
    detail: str = ""  # a target's output, verbatim
    remedy: str = ""  # what to do about it: a sentence
    next_command: str = ""  # it says more


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of a run.

    Attributes:
        unit: Name of the arm that relative costs refer to; empty if neither floor nor baseline has
            a value.
        loads: The loads at which arms were compared, lightest first.
        main_load: The load by which tables are sorted; None if no load has a value.
        arm_summaries: Cheapest first at the main load, those without a value last.
        comparisons: Every pair of ranked arms by every metric at every load that both reach; by
            cost first, lightest load first, those against the baseline first.
        aa_control: The baseline compared with its second copy at each load: the noise of this run;
            empty without an A/A control.
        trials_rejected: Trials in which the load generator was stopped, repeated or given up.
        condition: How much other programs used the cores in all trials of cost.
        other_programs: The mean fraction of the cores' time that they used.
    """

    run: Run
    headline: str
    unit: str
    arm_summaries: tuple[ArmSummary, ...]
    comparisons: tuple[Comparison, ...]
    advice: tuple[str, ...] = ()
    loads: tuple[Load, ...] = ()
    main_load: Load | None = None
    aa_control: tuple[Comparison, ...] = ()
    warnings: tuple[ReportWarning, ...] = ()
    blocks: int = 0
    trials_total: int = 0
    trials_valid: int = 0
    trials_rejected: int = 0
    condition: Condition = Condition.QUIET
    other_programs: float = 0.0
    schema: str = SCHEMA

    def by(self, metric: Metric, load: Load | None = None) -> tuple[Comparison, ...]:
        return tuple(
            one for one in self.comparisons if one.metric is metric and load in {None, one.load}
        )


class BoundStatus(StrEnum):
    KEPT = "kept"
    EXCEEDED = "exceeded"
    UNDECIDED = "undecided"


class BoundResult(msgspec.Struct, frozen=True, kw_only=True):
    """One bound.

    Attributes:
        text: As the user wrote it; the run fails if it is proven.
        ratio: Of the left side to the right one without the bound's number, with the interval that
            decides; None if the values are missing.
        blocks_needed: Blocks that would decide, at this spread, in `seconds_needed`; None if
            unknown.
    """

    text: str
    status: BoundStatus
    bound: float
    relation: str
    ratio: Estimate | None = None
    load: Load | None = None
    reason: str = ""
    blocks_needed: int | None = None
    seconds_needed: float | None = None


TUNING_SCHEMA = "jissoku.tuning/3"


class Decision(StrEnum):
    ACCEPTED = "pays"
    NO_GAIN = "does not pay"
    UNDECIDED = "undecided"
    REDUNDANT = "adds nothing to the others"
    COUNTER_UNCHANGED = "its counter did not move"
    COUNTER_UNAVAILABLE = "its counter could not be watched"
    DIFFERENT = "changes the answers"
    BROKEN = "cannot be measured"


class CounterReadings(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of a target for a number of requests, from a separate trial.

    A missing system call was made 0 times, unless `syscalls_reason` says why none were counted.
    """

    requests: int
    per_request: dict[str, float] = msgspec.field(default_factory=dict)
    syscalls_reason: str = ""


class KnobResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one knob.

    Attributes:
        alone: With this knob only, relative to the unchanged configuration.
        leave_one_out: With all knobs but this one, relative to all; above 1 the knob saves CPU
            there.
        before: The counter per request without the knob, `after` with it alone; None if unknown.
    """

    knob: Knob
    decision: Decision
    alone: Comparison | None = None
    leave_one_out: Comparison | None = None
    before: float | None = None
    after: float | None = None
    sentence: str = ""


class TuningResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of tuning a target.

    Attributes:
        combined: The accepted knobs together, on separate blocks, relative to the unchanged
            configuration; None if none was accepted.
        full_load: Knobs that are judged by the rate at full load, together with the accepted ones
            and relative to them, on separate blocks and on all cores, which the load generator
            shares.
        sandbox: Changes in every arm that let it run next to the machine's own server.
        diff: From the unchanged configuration to the proven one; empty if nothing was proven.
        request: As in `Run`.
        confirm: The command that tests the knobs that pay and are not proven, and the undecided
            ones, with more and longer blocks; empty if there are none.
    """

    target: str
    path: str
    jissoku: str
    seed: int
    results: tuple[KnobResult, ...]
    skipped: dict[str, str] = msgspec.field(default_factory=dict)
    combined: Comparison | None = None
    full_load: Comparison | None = None
    proven: bool = False
    kept: tuple[str, ...] = ()
    sandbox: tuple[str, ...] = ()
    diff: str = ""
    confirm: str = ""
    finished: bool = True
    request: TuningRequest | ExplanationRequest | None = None
    schema: str = TUNING_SCHEMA
