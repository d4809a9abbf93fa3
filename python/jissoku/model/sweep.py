"""A sweep: one workload at several levels of a factor, and the fitted scalability model."""

from enum import StrEnum

import msgspec

from jissoku.model.run import Arm, Run
from jissoku.model.summary import (
    Bottleneck,
    Estimate,
    FailureSummary,
    MeasurementStatus,
    Percentile,
    ReportWarning,
)

SCHEMA = "jissoku.sweep/2"
SUMMARY_SCHEMA = "jissoku.sweep-summary/2"


class Axis(StrEnum):
    CONNECTIONS = "connections"
    WORKERS = "workers"
    RATE = "rate"


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of a sweep: `sweep.json` in its folder.

    Attributes:
        levels: Ascending; empty if the lab chooses them after a pilot run. Each trial records its
            own.
        blocks: How often each level is measured, in a new random order each time.
        at: Levels at which a rate is predicted, if the fit supports it.
    """

    axis: Axis
    levels: tuple[int, ...]
    blocks: int
    at: tuple[int, ...] = ()
    schema: str = SCHEMA


class IntervalEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """A value with its 95 % interval by block bootstrap, which may include zero."""

    value: float
    low: float
    high: float


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """The model's rate at a level; None with a reason if the fit does not support it."""

    level: int
    rate_rps: IntervalEstimate | None
    reason: str = ""


class UslModel(msgspec.Struct, frozen=True, kw_only=True):
    """The Universal Scalability Law, X(N) = k N / (1 + a (N - 1) + b N (N - 1)), fitted.

    Attributes:
        single_rps: k, the rate at level 1.
        contention: a, the fraction of the work that is serialised.
        coherency: b, the cost of exchange between each pair.
        curve: (level, rate) of the fitted model, for drawing, within the fitted levels.
        peak: sqrt((1 - a) / b), if b's interval excludes zero and the peak is at most twice the
            highest level.
    """

    single_rps: IntervalEstimate
    contention: IntervalEstimate
    coherency: IntervalEstimate
    levels: tuple[int, ...]
    blocks: int
    curve: tuple[tuple[float, float], ...]
    max_residual: float
    is_adequate: bool
    peak: IntervalEstimate | None = None
    peak_reason: str = ""
    predictions: tuple[Prediction, ...] = ()


class LevelResult(msgspec.Struct, frozen=True, kw_only=True):
    """One target at one level.

    The achieved fraction is the smallest answered part of the offered rate, if there was one.
    """

    level: int
    blocks: int
    rate_rps: Estimate | None = None
    cost_ns: Estimate | None = None
    percentiles: tuple[Percentile, ...] = ()
    bottleneck: Bottleneck = Bottleneck.UNKNOWN
    achieved_fraction: float | None = None
    is_fitted: bool = False
    remarks: tuple[str, ...] = ()


class TargetSweep(msgspec.Struct, frozen=True, kw_only=True):
    """One target over all levels; without a model there is a reason.

    In sweeps of the rate, `sustained_rps` is the highest level up to which every block answered.
    """

    arm: Arm
    status: MeasurementStatus
    results: tuple[LevelResult, ...]
    model: UslModel | None = None
    reason: str = ""
    sustained_rps: int | None = None
    failures: tuple[FailureSummary, ...] = ()
    sentence: str = ""


class SweepSummary(msgspec.Struct, frozen=True, kw_only=True):
    run: Run
    sweep: Sweep
    targets: tuple[TargetSweep, ...]
    warnings: tuple[ReportWarning, ...] = ()
    trials_total: int = 0
    trials_valid: int = 0
    trials_rejected: int = 0
    schema: str = SUMMARY_SCHEMA
