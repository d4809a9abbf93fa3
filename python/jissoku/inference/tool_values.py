"""Values that load generators are judged by: from the oracle's log and from a tool's report."""

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

from jissoku.inference.late import Numbers, np
from jissoku.model.calibration import FigurePattern, Samples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Entries = NDArray[Any]
else:
    Entries = Any

# The format of `jissoku oracle --log`.
ENTRY = [
    ("connection", "<u4"), ("sequence", "<u4"), ("fault", "<u4"), ("pad", "<u4"),
    ("arrival", "<u8"), ("due", "<u8"), ("written", "<u8"),
]  # fmt: skip
FAULTS = {"status": 1, "reset": 2, "truncated": 3, "flipped": 4, "dropped": 5}
QUANTILES = {
    "p49": 0.49, "p50": 0.5, "p51": 0.51, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p98": 0.98,
    "p985": 0.985, "p99": 0.99, "p991": 0.991, "p992": 0.992, "p993": 0.993, "p994": 0.994,
    "p995": 0.995, "p996": 0.996, "p997": 0.997, "p998": 0.998, "p999": 0.999, "p9999": 0.9999,
}  # fmt: skip
SECOND_NS = 1_000_000_000

# Fraction of a run that is cut off at both ends for values of the steady state.
EDGE = 0.1


def entries_of(log: bytes) -> Entries:
    return np.frombuffer(log, dtype=ENTRY)


def oracle_values(
    entries: Entries, account: Mapping[str, Any], timeout_s: float
) -> dict[str, float]:
    """All values, by name: `oracle.requests`, `served.p50_ns`, `arrivals.lag1`."""
    written = entries["written"] > 0
    faults = entries["fault"][written]
    found: dict[str, float] = {
        "oracle.requests": float(account["requests"]),
        "oracle.answered": float(written.sum()),
        "oracle.right": float((faults == 0).sum()),
        "oracle.frozen": float(account["frozen"]),
        "oracle.abandoned": float(account["abandoned"]),
        "oracle.connections_opened": float(account["connections_opened"]),
        "oracle.connections_open_max": float(account["connections_open_max"]),
    }
    found |= {f"oracle.{name}": float((faults == n).sum()) for name, n in FAULTS.items()}
    if len(entries):
        found |= _times(entries, written)
        found |= _slow_requests(entries, timeout_s)
        found |= _arrivals(entries["arrival"])
    return found


def _times(entries: Entries, written: Entries) -> dict[str, float]:
    answered = entries[written]
    if not len(answered):
        return {}
    served = np.sort((answered["written"] - answered["arrival"]).astype(np.float64))
    late = np.sort(answered["written"].astype(np.int64) - answered["due"].astype(np.int64))
    first, last = float(entries["arrival"][0]), float(answered["written"].max())
    found = {f"served.{name}_ns": quantile(served, q) for name, q in QUANTILES.items()}
    found |= {
        "served.mean_ns": float(served.mean()),
        "served.min_ns": float(served[0]),
        "served.max_ns": float(served[-1]),
        "oracle.lateness_p99_ns": quantile(late, 0.99),
        "oracle.window_s": (last - first) / SECOND_NS,
        "oracle.rate_rps": len(answered) / max(1.0, last - first) * SECOND_NS,
        "oracle.longest_gap_ns": float(np.diff(np.sort(answered["written"])).max(initial=0)),
    }
    steady = (first + EDGE * (last - first), last - EDGE * (last - first))
    in_flight = np.clip(answered["written"].astype(np.float64), *steady)
    in_flight -= np.clip(answered["arrival"].astype(np.float64), *steady)
    found["oracle.in_flight"] = float(in_flight.sum() / max(1.0, steady[1] - steady[0]))
    inside = (entries["arrival"] >= steady[0]) & (entries["arrival"] <= steady[1])
    found["oracle.connections_used"] = float(len(np.unique(entries["connection"][inside])))
    counts = np.bincount(answered["connection"])
    counts = counts[counts > 0]
    found["oracle.connections_served"] = float(len(counts))
    found["oracle.fairness"] = float(counts.max() / counts.min())
    return found


def _slow_requests(entries: Entries, timeout_s: float) -> dict[str, float]:
    """Requests whose answer was scheduled later than the tool's timeout.

    It is unknown whether those that arrived less than a timeout before the last request were given
    up: they are in `slow` and not in `slow_settled`.
    """
    is_slow = (entries["due"] - entries["arrival"]).astype(np.float64) > timeout_s * SECOND_NS
    settled = entries["arrival"].astype(np.float64) < (
        float(entries["arrival"][-1]) - timeout_s * SECOND_NS
    )
    return {
        "oracle.slow": float(is_slow.sum()),
        "oracle.slow_settled": float((is_slow & settled).sum()),
    }


def _arrivals(arrival: Entries) -> dict[str, float]:
    if len(arrival) < 100:
        return {}
    since = (arrival - arrival[0]).astype(np.float64)
    gaps = np.diff(since)
    mean = gaps.mean()
    if mean <= 0:
        return {}
    per_ms = np.bincount((since / 1e6).astype(np.int64))[:-1]
    expected = 1e6 / mean
    per_tenth = np.bincount((since / 1e8).astype(np.int64))[:-1]
    found = {
        "arrivals.gap_mad": float(np.median(np.abs(gaps - np.median(gaps))) / mean),
        "arrivals.gap_ns": float(mean),
        "arrivals.lag1": lag1(gaps),
        "arrivals.ks": ks_statistic(gaps),
    }
    if len(per_ms):
        found["arrivals.even_ms"] = float((np.abs(per_ms - expected) <= 1.001).mean())
    if len(per_tenth) > 1 and per_tenth.mean() > 0:
        found["arrivals.dispersion"] = float(per_tenth.var(ddof=1) / per_tenth.mean())
    return found


def lag1(gaps: Numbers) -> float:
    centred = gaps - gaps.mean()
    power = float((centred**2).sum())
    return float((centred[1:] * centred[:-1]).sum()) / power if power else 0.0


def ks_statistic(gaps: Numbers) -> float:
    """Kolmogorov's distance from the exponential distribution of that mean, by the root of n."""
    ordered = 1 - np.exp(-np.sort(gaps) / gaps.mean())
    n = len(ordered)
    above = np.arange(1, n + 1) / n - ordered
    below = ordered - np.arange(n) / n
    return float(max(above.max(), below.max()) * np.sqrt(n))


def quantile(ordered: Entries, q: float) -> float:
    """The smallest value that a fraction `q` does not exceed, as in histograms."""
    index = max(0, int(np.ceil(q * len(ordered))) - 1)
    return float(ordered[index])


@dataclass(frozen=True, slots=True)
class Window:
    """When it began and ended, and when the second generator was started; CLOCK_MONOTONIC."""

    second_ns: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Share:
    """What the oracle knows of one generator: answers in the window, and whether any came after."""

    answers: int
    connections: int
    outlasted: bool


def share(entries: Entries, window: Window) -> tuple[Share, Share]:
    """Divides what the oracle saw between the first generator and the second one.

    A connection that asked before the second was started is the first one's: each opens all of its
    connections at once and keeps them, and the number of connections shows whether it did.
    """
    # Entries stand in the order of arrival, so the first of a connection is its earliest.
    numbers, index = np.unique(entries["connection"], return_index=True)
    is_second = entries["arrival"][index] >= window.second_ns
    mine = np.isin(entries["connection"], numbers[is_second])
    return _of(entries[~mine], window), _of(entries[mine], window)


def _of(entries: Entries, window: Window) -> Share:
    # What was never written has a zero here.
    written = entries["written"]
    inside = (written > window.start_ns) & (written <= window.end_ns)
    return Share(
        answers=int(inside.sum()),
        connections=len(np.unique(entries["connection"][inside])),
        outlasted=bool((written > window.end_ns).any()),
    )


# A bare number counts as it is; a time counts in nanoseconds.
UNITS = {"": 1.0, "ns": 1.0, "us": 1e3, "\N{MICRO SIGN}s": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9}

# Asked of a histogram instead of a quantile: how many samples it has.
COUNT = -1


def read_values(wanted: dict[str, FigurePattern], text: str) -> dict[str, float]:
    tree = _json(text)
    found: dict[str, float] = {}
    for name, figure in wanted.items():
        matches = list(re.finditer(figure.pattern, text, re.MULTILINE)) if figure.pattern else []
        number = sum(map(_number, matches)) if matches else None
        if not figure.pattern:
            number = _by_path(figure, tree)
        if number is None and text.strip():
            number = figure.absent
        if number is not None:
            found[name] = number * figure.scale
    return found


def _number(match: re.Match[str]) -> float:
    if not match.re.groups:
        return 1.0  # To be found is all that is asked of it.
    unit = match[2] if match.re.groups > 1 else ""
    return float(match[1].replace(",", "")) * UNITS[unit or ""]


def _by_path(figure: FigurePattern, tree: Any) -> float | None:
    paths = (figure.path,) if isinstance(figure.path, str) else figure.path
    found = (_at(tree, path, figure.quantile) for path in paths)
    numbers = [number for number in found if number is not None]
    if not numbers:
        return None
    return max(numbers) if figure.highest else sum(numbers)


def _at(tree: Any, path: str, quantile: float | None) -> float | None:
    for step in path.split("/"):
        key, is_search, wanted = step.partition("=")
        if isinstance(tree, list) and step.isdigit() and int(step) < len(tree):
            tree = tree[int(step)]
        elif isinstance(tree, list) and is_search:
            tree = next((it for it in tree if it.get(key) == wanted), None)
        elif isinstance(tree, dict):
            tree = tree.get(step)
        else:
            return None
    if quantile is not None and isinstance(tree, str):
        histogram = HdrHistogram.decode(tree)
        count = histogram.get_total_count()
        if quantile == COUNT or not count:
            return float(count) if quantile == COUNT else None
        # Asked for a share, it would take the nearest rank: far out, that is another sample.
        return float(histogram.get_value_at_percentile(rank(count, quantile) * 100 / count))
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list):
        return float(sum(number for number in tree if isinstance(number, int | float)))
    return float(tree) if isinstance(tree, int | float) else None


def rank(count: int, share: float) -> int:
    """The smallest rank that `share` of all do not exceed, without the errors of floats."""
    parts = round(share * 10_000)
    return max(1, -(-count * parts // 10_000))


def _json(text: str) -> Any:
    """The last line that is a JSON object, or the whole text; None when it is neither."""
    candidates = [text, *(line for line in reversed(text.splitlines()) if line.startswith("{"))]
    for candidate in candidates:
        try:
            return msgspec.json.decode(candidate)
        except msgspec.DecodeError:
            continue
    return None


# Fewer gaps give no estimate of their distribution.
GAPS_MIN = 100

# Percentiles of the samples that have values.
SAMPLED = ("p50", "p75", "p90", "p95", "p99", "p999", "p9999")


def sample_values(wanted: Samples, lines: Iterable[str]) -> dict[str, float]:
    """Count, sum, extremes and percentiles of the latencies, and how random the due times are.

    From the lines of the file that the tool wrote; `wanted` says which columns mean what.
    """
    latencies: list[int] = []
    due: list[int] = []  # When all requests were to be sent.
    for row in csv.DictReader(lines):
        if wanted.due:
            due.append(int(row[wanted.due]))
        if all(row[column] == word for column, word in wanted.where.items()):
            latencies.append(int(row[wanted.end]) - int(row[wanted.start]))
    latencies.sort()
    found = {"raw_count": float(len(latencies)), "raw_sum_ns": float(sum(latencies))}
    if latencies:
        found |= {"raw_min_ns": float(latencies[0]), "raw_max_ns": float(latencies[-1])}
        found |= {
            f"raw_{name}_ns": float(latencies[rank(len(latencies), QUANTILES[name]) - 1])
            for name in SAMPLED
        }
    gaps = np.diff(np.sort(np.array(due, dtype=np.float64)))
    if len(gaps) >= GAPS_MIN and gaps.mean() > 0:
        found["raw_due_ks"] = ks_statistic(gaps)
        found["raw_due_lag1"] = lag1(gaps)
    return found
