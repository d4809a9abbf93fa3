"""What a run says: every figure and verdict of a report, with nothing left to compute."""

import math
from dataclasses import dataclass, field
from enum import StrEnum

from jissoku.model.arm import Arm
from jissoku.model.run import Run

SCHEMA = "jissoku.summary/1"


class Verdict(StrEnum):
    """The answer about a candidate, seen from the baseline: a cost ratio below 1 is faster."""

    FASTER = "faster"
    SLIGHTLY_FASTER = "slightly faster"
    EQUAL = "practically equal"
    SLIGHTLY_SLOWER = "slightly slower"
    SLOWER = "slower"
    INCONCLUSIVE = "inconclusive"
    INTERFERENCE = "interference"
    INVALID = "invalid"
    FAILED = "failed"

    @property
    def mirrored(self) -> "Verdict":
        """The same answer with candidate and baseline exchanged."""
        return _MIRROR.get(self, self)

    @property
    def tells_apart(self) -> bool:
        """Whether it says that one of the two uses less."""
        return self in _MIRROR


_MIRROR = {
    Verdict.FASTER: Verdict.SLOWER,
    Verdict.SLIGHTLY_FASTER: Verdict.SLIGHTLY_SLOWER,
    Verdict.SLIGHTLY_SLOWER: Verdict.SLIGHTLY_FASTER,
    Verdict.SLOWER: Verdict.FASTER,
}


class Source(StrEnum):
    """Which trials a ratio was taken from."""

    DUET = "duet"
    REFERENCE = "two duets"  # each arm against the same third one
    SOLO = "solo"


class Bound(StrEnum):
    """What held a closed-loop rate down: only a server-bound one says anything about the server."""

    SERVER = "server-bound"
    GENERATOR = "generator-bound"
    NEITHER = "neither bound"
    UNKNOWN = "bound unknown"


class Status(StrEnum):
    """Whether an arm has figures at all."""

    MEASURED = "measured"
    FAILED = "failed"
    INVALID = "invalid"
    UNMEASURED = "not measured"


class Weight(StrEnum):
    """How much a flag takes from the report it stands on."""

    PROBLEM = "problem"  # something failed, or a verdict is missing
    CAUTION = "caution"  # a figure stands, but for less than it seems
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A geometric mean over blocks with its interval; a ratio, or a positive quantity.

    Attributes:
        low: Lower end of the interval; 95 % unless the field that holds it says otherwise.
        blocks: How many blocks it rests on. Requests are never counted as samples.
        spread: Standard deviation of the natural logarithms over blocks.
    """

    value: float
    low: float
    high: float
    blocks: int
    spread: float

    @property
    def inverse(self) -> "Estimate":
        """The ratio the other way round."""
        return Estimate(
            value=1 / self.value,
            low=1 / self.high,
            high=1 / self.low,
            blocks=self.blocks,
            spread=self.spread,
        )

    @property
    def half_width(self) -> float:
        """Of the interval, as a natural logarithm: 0.01 is one per cent each way."""
        return math.log(self.high / self.low) / 2

    @property
    def decimals(self) -> int:
        """How many decimals are shown: enough for one digit of the interval's half-width."""
        half = (self.high - self.low) / 2
        needed = 0 if half <= 0 else min(4, math.ceil(-math.log10(half)))
        readable = (2 if self.value >= 1 else 1) - math.floor(math.log10(self.value))
        return max(needed, min(4, max(0, readable)))

    @property
    def text(self) -> str:
        """As in `1.31 [1.28, 1.34]`."""
        places = self.decimals
        return f"{self.value:.{places}f} [{self.low:.{places}f}, {self.high:.{places}f}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One pair on the primary metric, CPU time of the server per request.

    Attributes:
        arm: The candidate.
        against: What it is compared with; the ratio is `arm`'s cost over this one's.
        proven: Whether the difference holds with all pairs of the run counted (Bonferroni width).
        ratio: What the verdict rests on; None where there is nothing that could be defended.
        through: The third arm of two duets; empty for a direct one.
        duet: The duets' ratio where solo trials overruled it.
        solo: The check: the same pair from solo trials at the duets' rate.
        solo_verdict: What solo says where the verdict is interference.
        robust: Hodges-Lehmann estimate with its exact Wilcoxon interval.
        p_value: Of the t-test; `p_holm` is the same after Holm over the run's pairs.
        p_sign_flip: Exact, without assuming a distribution.
        rates_rps: Requests per second and arm at which it was measured; two when they differ.
        allowance: Factor by which the interval was widened each way because the rates differed.
        blocks_needed: Of an inconclusive verdict: more blocks that would decide, at this spread.
        sentence: All of it in words.
    """

    arm: str
    against: str
    verdict: Verdict
    proven: bool = False
    ratio: Estimate | None = None
    source: Source = Source.DUET
    through: str = ""
    duet: Estimate | None = None
    solo: Estimate | None = None
    solo_verdict: Verdict | None = None
    robust: Estimate | None = None
    p_value: float | None = None
    p_holm: float | None = None
    p_sign_flip: float | None = None
    rates_rps: tuple[int, ...] = ()
    connections: int = 0
    minimum_effect: float = 0.01
    allowance: float = 1.0
    blocks_needed: int | None = None
    remarks: tuple[str, ...] = ()
    sentence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One block's reading of one arm."""

    block: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentile:
    """A latency percentile: the geometric mean over trials of each trial's own, in nanoseconds."""

    label: str
    fraction: float
    median_ns: float
    estimate_ns: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point of a latency distribution: this fraction of the answers came within `latency_ns`."""

    fraction: float
    latency_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """One way in which an arm failed, and how often.

    Attributes:
        stage: Where: start, ready, verify, load or stop; empty for wrong answers found by a gate.
        stderr: The last lines that the target wrote.
        trials: Indices of the trials.
    """

    stage: str
    reason: str
    stderr: str = ""
    trials: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Everything that is known of one arm.

    Attributes:
        rank: From 1; arms that could not be told apart share one. None for the floor, which is the
            unit and no contestant, and for arms without a figure.
        cost_ns: CPU nanoseconds of all the target's processes per request, at `cost_rate_rps`.
        multiple: Cost as a multiple of the run's unit, the floor where there is one.
        multiple_allowance: As in Comparison.
        multiples: The same, block by block.
        user_fraction: Part of the CPU time spent in user space, in the closed loop.
        rate_rps: Closed loop, from solo trials.
        percentiles: From solo trials at `latency_rate_rps`; only those that enough samples support.
        rss_bytes: Median over trials of the resident memory at the window's end.
        trials_counted: Trials with this arm whose numbers were used, of `trials_total`.
    """

    arm: Arm
    status: Status
    rank: int | None = None
    cost_ns: Estimate | None = None
    cost_rate_rps: int | None = None
    connections: int = 0
    multiple: Estimate | None = None
    multiple_allowance: float = 1.0
    multiples: tuple[Dot, ...] = ()
    user_fraction: float | None = None
    rate_rps: Estimate | None = None
    bound: Bound = Bound.UNKNOWN
    latency_rate_rps: int | None = None
    percentiles: tuple[Percentile, ...] = ()
    curve: tuple[Point, ...] = ()
    rss_bytes: int | None = None
    breakdowns: tuple[Breakdown, ...] = ()
    trials_counted: int = 0
    trials_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """Something to know before any number is believed."""

    weight: Weight
    title: str
    text: str = ""
    detail: str = ""  # what a target wrote, verbatim


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A run, answered.

    Attributes:
        unit: Name of the arm that multiples refer to; empty when neither floor nor baseline has a
            figure.
        standings: One per arm, cheapest first, those without a figure last.
        comparisons: Every pair of contestants; those against the baseline first.
        twin: The baseline against itself: the noise of this sitting, where it was asked for.
        flags: Problems first.
        trials_rejected: Trials that the machine disturbed and that were run again or given up.
    """

    run: Run
    headline: str
    unit: str
    standings: tuple[Standing, ...]
    comparisons: tuple[Comparison, ...]
    twin: Comparison | None = None
    flags: tuple[Flag, ...] = ()
    blocks: int = 0
    trials_total: int = 0
    trials_counted: int = 0
    trials_rejected: int = 0
    schema: str = field(default=SCHEMA)
