"""Arms with known values, and the summary of a run without noise."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from jissoku.model import (
    Arm,
    Comparison,
    Estimate,
    EvidenceSource,
    Load,
    LoadLevel,
    MeasurementStatus,
    Metric,
    Run,
    Verdict,
)
from jissoku.model.summary import (
    ArmSummary,
    BlockValue,
    Bottleneck,
    CrossCheck,
    CrossCheckName,
    LoadPoint,
    Percentile,
    QuantilePoint,
)
from jissoku.model.updated import updated
from jissoku.model.wording import verdict_text
from jissoku.report import tables
from jissoku.report.format import ratio as times
from tests.inference import factories

LIGHT = Load(rate_rps=2_000, level=LoadLevel.LIGHT)
MIDDLE = Load(rate_rps=10_000, level=LoadLevel.MEDIUM)
HEAVY = Load(rate_rps=50_000, level=LoadLevel.HEAVY)
GIVEN = Load(rate_rps=20_000, level=LoadLevel.GIVEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The true values of a constructed arm.

    Attributes:
        busy_ns: CPU time per request when its core never sleeps.
        wake_ns: What each wake-up adds at 1,000 requests/s; it falls as the rate rises.
        noise: Half-width of the interval of its cost, as a logarithm.
    """

    busy_ns: float
    wake_ns: float
    reach_rps: int
    latency_ns: float
    rss_bytes: int
    user_fraction: float
    noise: float = 0.01
    background: float = 0.002

    def cost_ns(self, rate_rps: int) -> float:
        return self.busy_ns + self.wake_ns / (1 + rate_rps / 4_000)


TRUTHS = {
    "floor": Truth(busy_ns=4_800, wake_ns=20_000, reach_rps=123_000, latency_ns=58_000,
                   rss_bytes=1_300_000, user_fraction=0.04, noise=0.006, background=0.0),
    "jissoku": Truth(busy_ns=5_380, wake_ns=21_000, reach_rps=112_000, latency_ns=61_000,
                     rss_bytes=3_900_000, user_fraction=0.11, noise=0.006),
    "nginx": Truth(busy_ns=6_900, wake_ns=24_500, reach_rps=82_000, latency_ns=74_000,
                   rss_bytes=6_200_000, user_fraction=0.27),
    "nginx-tuned": Truth(busy_ns=6_880, wake_ns=24_300, reach_rps=83_000, latency_ns=73_000,
                         rss_bytes=6_150_000, user_fraction=0.27),
    "go": Truth(busy_ns=9_600, wake_ns=61_000, reach_rps=60_000, latency_ns=110_000,
                rss_bytes=14_000_000, user_fraction=0.44, noise=0.02, background=0.013),
    "node": Truth(busy_ns=22_000, wake_ns=33_000, reach_rps=24_000, latency_ns=180_000,
                  rss_bytes=71_000_000, user_fraction=0.61, noise=0.035, background=0.061),
    "tornado": Truth(busy_ns=226_000, wake_ns=40_000, reach_rps=2_600, latency_ns=900_000,
                     rss_bytes=38_000_000, user_fraction=0.88, noise=0.04),
}  # fmt: skip

ARMS = {
    "jissoku": factories.arm(
        "jissoku",
        version="jissoku 0.1.0",
        description="The server of this project, started from its recipe like any other.",
        limitations="TLS and HTTP/2.",
        binary_sha256="5d41402abc4b2a76b9719d911017c592ae2f0c9d2c1f3f6d7a3b0e2f5c4d3e21",
    ),
    "nginx-tuned": factories.arm(
        "nginx-tuned",
        version="nginx/1.22.1",
        command=("nginx", "-c", "{conf}"),
        description="One worker per core, no access log, open files cached.",
    ),
    "nginx": factories.arm(
        "nginx", version="nginx/1.22.1", limitations="Nothing: as it is installed."
    ),
    "go": factories.arm("go", version="go1.24.4", description="net/http of the standard library."),
    "node": factories.arm("node", version="v18.20.4", limitations="Keep-alive limits."),
    "tornado": factories.arm(
        "tornado", version="6.6.1", description="A Python framework & its own loop."
    ),
    "floor": factories.arm(
        "floor",
        version="jissoku 0.1.0",
        description="The least that can answer: receive, count line ends, send a constant.",
        limitations="Everything else: it does not read the request.",
    ),
    "python": factories.arm(
        "python", version="3.11.7", description="http.server of the standard library."
    ),
}


def estimate(value: float, half: float = 0.01, blocks: int = 9) -> Estimate:
    """A value with so wide an interval, as a logarithm each way."""
    return Estimate(
        value=value,
        low=value * math.exp(-half),
        high=value * math.exp(half),
        blocks=blocks,
        sd_log=half * math.sqrt(blocks) / 2.3,
    )


def standings(
    run: Run, loads: Sequence[Load], source: EvidenceSource = EvidenceSource.TIME_SLICED
) -> tuple[ArmSummary, ...]:
    """Arms with a truth, cheapest first; whatever they do not reach is said so."""
    known = [arm for arm in run.arms if arm.name in TRUTHS]
    known.sort(key=lambda arm: TRUTHS[arm.name].busy_ns)
    return tuple(_standing(run, arm, loads, source) for arm in known)


def _standing(run: Run, arm: Arm, loads: Sequence[Load], source: EvidenceSource) -> ArmSummary:
    truth = TRUTHS[arm.name]
    rates = [load for load in loads if (load.rate_rps or 0) <= truth.reach_rps]
    return ArmSummary(
        arm=arm,
        status=MeasurementStatus.MEASURED,
        points=tuple(_point(run, arm.name, load, source) for load in rates),
        unreached=tuple(load for load in loads if load not in rates),
        connections=64,
        user_fraction=truth.user_fraction,
        rate_rps=estimate(truth.reach_rps * 1.04, 0.012),
        bottleneck=Bottleneck.GENERATOR if arm.name == "jissoku" else Bottleneck.SERVER,
        capacity_rps=estimate(truth.reach_rps * 0.93, 0.04, 5) if run.objective else None,
        rss_bytes=truth.rss_bytes,
        trials_valid=27,
        trials_total=28,
    )


def _point(run: Run, name: str, load: Load, source: EvidenceSource) -> LoadPoint:
    truth = TRUTHS[name]
    rate = load.rate_rps or 0
    unit = TRUTHS[run.floor or run.baseline].cost_ns(rate)
    cost = truth.cost_ns(rate)
    off = [math.exp(truth.noise * math.sin(3.7 * block + len(name))) for block in range(9)]
    return LoadPoint(
        load=load,
        source=source,
        rank=None if name == run.floor else _rank(run, name, rate),
        cost_ns=estimate(cost, truth.noise * 1.5),
        background_fraction=None if source is EvidenceSource.PAIRED else truth.background,
        relative_cost=estimate(cost / unit, 0 if unit == cost else truth.noise),
        relative_costs=tuple(
            BlockValue(block=block, value=cost / unit * (1 if unit == cost else x))
            for block, x in enumerate(off)
        ),
        percentiles=tuple(_percentiles(truth, rate)),
        latency_curve=tuple(
            QuantilePoint(fraction=1 - 10**-nines, latency_ns=_latency(truth, rate, nines))
            for nines in (0.05, 0.3, 0.5, 0.7, 1.0, 1.3, 1.6, 2.0, 2.3, 2.7, 3.0)
        ),
    )  # fmt: skip


def _rank(run: Run, name: str, rate: int) -> int:
    """Arms within 2 % of each other share one."""
    costs = {
        arm.name: TRUTHS[arm.name].cost_ns(rate)
        for arm in run.arms
        if arm.name in TRUTHS and arm.name != run.floor and TRUTHS[arm.name].reach_rps >= rate
    }
    return 1 + sum(cost < costs[name] / 1.02 for cost in costs.values())


def _latency(truth: Truth, rate: int, nines: float) -> float:
    """Latency of a queue, which grows with the utilisation and with the percentile."""
    return truth.latency_ns * (0.7 + nines + nines**2 * rate / truth.reach_rps)


def _percentiles(truth: Truth, rate: int) -> Iterator[Percentile]:
    for label, nines in (("p50", 0.3), ("p90", 1.0), ("p99", 2.0), ("p99.9", 3.0)):
        if nines < 3 or rate >= 10_000:
            value = _latency(truth, rate, nines)
            found = estimate(value, 0.02 * (1 + nines))
            yield Percentile(
                label=label,
                fraction=1 - 10**-nines,
                median_ns=value,
                estimate_ns=found,
                requests=rate * 9 // 2,
            )


def comparisons(
    run: Run, loads: Sequence[Load], source: EvidenceSource = EvidenceSource.TIME_SLICED
) -> tuple[Comparison, ...]:
    """Every pair by every metric at every load that both reach."""
    names = [arm.name for arm in run.arms if arm.name in TRUTHS and arm.name != run.floor]
    pairs = [(arm, against) for against, arm in combinations(names, 2)]
    found = []
    for metric in (Metric.COST, Metric.P50, Metric.P99):
        for load in loads:
            rate = load.rate_rps or 0
            for arm, against in pairs:
                one, other = TRUTHS[arm], TRUTHS[against]
                if min(one.reach_rps, other.reach_rps) < rate:
                    continue
                if metric is Metric.COST:
                    ratio, half = one.cost_ns(rate) / other.cost_ns(rate), max(one.noise, 0.008)
                else:
                    nines = 0.3 if metric is Metric.P50 else 2.0
                    ratio = _latency(one, rate, nines) / _latency(other, rate, nines)
                    half = 0.03 * (1 + nines)
                pair = comparison(arm, against, metric, load, estimate(ratio, half))
                found.append(updated(pair, source=source))
    if run.objective:
        full = Load(rate_rps=None, level=LoadLevel.FULL)
        for arm, against in pairs:
            ratio = TRUTHS[arm].reach_rps / TRUTHS[against].reach_rps
            found.append(comparison(arm, against, Metric.CAPACITY, full, estimate(ratio, 0.06, 5)))
    return tuple(found)


def comparison(
    arm: str, against: str, metric: Metric, load: Load, ratio: Estimate | None
) -> Comparison:
    """A comparison that is decided by its interval against 2 %."""
    verdict = Verdict.INCONCLUSIVE if ratio is None else _verdict(ratio)
    found = Comparison(
        arm=arm,
        against=against,
        metric=metric,
        load=load,
        verdict=verdict,
        ratio=ratio,
        proven=verdict.is_difference,
        source=EvidenceSource.SINGLE if metric is Metric.CAPACITY else EvidenceSource.TIME_SLICED,
        robust=ratio and updated(ratio, value=ratio.value * 1.0004),
        p_value=0.00001 if verdict.is_difference else 0.2,
        p_holm=0.00002 if verdict.is_difference else 0.6,
        p_sign_flip=0.0039 if verdict.is_difference else 0.25,
        connections=64,
        minimum_effect=0.02,
    )
    words = f"{verdict_text(metric, verdict)}{' (proven)' if found.proven else ''}"
    verb = "uses" if metric is Metric.COST else "has"
    figure = tables.METRIC_NAMES[metric].replace("Capacity", "capacity")
    at = "" if metric is Metric.CAPACITY else f" at {load.text}"
    text = f"{arm} {verb} {times(ratio)} the {figure} of {against}{at}: {words}"
    return updated(found, sentence=text)


def _verdict(ratio: Estimate) -> Verdict:
    if ratio.low > 1.02:
        return Verdict.HIGHER
    if ratio.high < 1 / 1.02:
        return Verdict.LOWER
    if ratio.low > 1:
        return Verdict.SLIGHTLY_HIGHER
    if ratio.high < 1:
        return Verdict.SLIGHTLY_LOWER
    return Verdict.EQUAL if ratio.half_width < 0.02 else Verdict.INCONCLUSIVE


def checked(found: Comparison) -> Comparison:
    """Costs with their checks; each alone contradicts one pair, and another cannot be had."""
    if found.metric is not Metric.COST or found.ratio is None:
        return found
    value = found.ratio.value
    alone = CrossCheck(
        name=CrossCheckName.ALONE, ratio=estimate(value * 0.99, 0.05, 3), agrees=True
    )
    if (found.arm, found.against, found.load) == ("go", "jissoku", HEAVY):
        alone = updated(alone, ratio=estimate(value * 0.8, 0.04, 3), agrees=False)
    if found.arm == "tornado":
        alone = updated(alone, ratio=None)
    turn = CrossCheck(
        name=CrossCheckName.OTHER_SLICE, ratio=estimate(value * 1.02, 0.04, 3), agrees=True
    )
    return updated(found, cross_checks=(turn, alone))
