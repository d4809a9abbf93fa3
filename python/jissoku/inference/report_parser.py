"""Extracts values from a report: by regular expression, by a path in JSON, or from a histogram."""

import csv
import re
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

from jissoku.inference.oracle_stats import ks_statistic, lag1
from jissoku.model.load_tool import FigurePattern, Samples

# A bare number counts as it is; a time counts in nanoseconds.
UNITS = {"": 1.0, "ns": 1.0, "us": 1e3, "\N{MICRO SIGN}s": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9}


# Asked of a histogram instead of a quantile: how many samples it has.
COUNT = -1


def read_values(wanted: dict[str, FigurePattern], text: str) -> dict[str, float]:
    tree = _json(text)
    found: dict[str, float] = {}
    for name, figure in wanted.items():
        number = _by_pattern(figure, text) if figure.pattern else _by_path(figure, tree)
        if number is None and text.strip():
            number = figure.absent
        if number is not None:
            found[name] = number * figure.scale
    return found


def _by_pattern(figure: FigurePattern, text: str) -> float | None:
    matches = list(re.finditer(figure.pattern, text, re.MULTILINE))
    if not matches:
        return None
    return sum(_number(match) for match in matches)


def _number(match: re.Match[str]) -> float:
    if not match.re.groups:
        return 1.0  # To be found is all that is asked of it.
    unit = match[2] if match.re.groups > 1 else ""
    return float(match[1].replace(",", "")) * UNITS[unit or ""]


def _by_path(figure: FigurePattern, tree: Any) -> float | None:
    paths = (figure.path,) if isinstance(figure.path, str) else figure.path
    numbers = [_at(tree, path, figure.quantile) for path in paths]
    there = [number for number in numbers if number is not None]
    if not there:
        return None
    return max(there) if figure.highest else sum(there)


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

# Shares of the samples that do not exceed a percentile, by the name that values have.
SHARES = {
    "p50_ns": 0.5,
    "p75_ns": 0.75,
    "p90_ns": 0.9,
    "p95_ns": 0.95,
    "p99_ns": 0.99,
    "p999_ns": 0.999,
    "p9999_ns": 0.9999,
}


def sample_values(wanted: Samples, lines: Iterable[str]) -> dict[str, float]:
    """Count, sum, extremes and percentiles of the latencies, and how random the due times are.

    Args:
        wanted: Which columns mean what.
        lines: Of the file that the tool wrote.
    """
    latencies, due = _read(wanted, lines)
    latencies.sort()
    found = {"raw_count": float(len(latencies)), "raw_sum_ns": float(sum(latencies))}
    if latencies:
        found |= {"raw_min_ns": float(latencies[0]), "raw_max_ns": float(latencies[-1])}
        found |= {
            f"raw_{name}": float(latencies[rank(len(latencies), share) - 1])
            for name, share in SHARES.items()
        }
    gaps = np.diff(np.sort(np.array(due, dtype=np.float64)))
    if len(gaps) >= GAPS_MIN and gaps.mean() > 0:
        found["raw_due_ks"] = ks_statistic(gaps)
        found["raw_due_lag1"] = lag1(gaps)
    return found


def _read(wanted: Samples, lines: Iterable[str]) -> tuple[list[int], list[int]]:
    """The latencies of answered requests, and when all were to be sent."""
    latencies: list[int] = []
    due: list[int] = []
    for row in csv.DictReader(lines):
        if wanted.due:
            due.append(int(row[wanted.due]))
        if all(row[column] == word for column, word in wanted.where.items()):
            latencies.append(int(row[wanted.end]) - int(row[wanted.start]))
    return latencies, due
