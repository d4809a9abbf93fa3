"""A tool's own log of every request, for comparison with the percentiles that it reports."""

import csv
from collections.abc import Iterable

import numpy as np

from jissoku.model.load_tool import Samples
from jissoku.stats.oracle_stats import ks_statistic, lag1
from jissoku.stats.report_parser import rank

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
