"""Every single request as a tool wrote it down, to hold the tool's own percentiles against."""

import csv
from pathlib import Path

import msgspec

from jissoku.calibrate.reading import rank

# Shares of the samples that do not exceed a percentile, by the name that figures have.
SHARES = {
    "p50_ns": 0.5,
    "p75_ns": 0.75,
    "p90_ns": 0.9,
    "p95_ns": 0.95,
    "p99_ns": 0.99,
    "p999_ns": 0.999,
    "p9999_ns": 0.9999,
}


class Samples(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a tool writes its requests down, and which part of a line is the latency.

    Attributes:
        file: A file of comma-separated values in the run's folder, with a line of names on top.
        start: The column from which a latency counts, in nanoseconds.
        end: The column up to which.
        where: Columns that have to hold these words; other lines are not of answered requests.
    """

    file: str
    start: str
    end: str
    where: dict[str, str] = {}


def figures(wanted: Samples | None, folder: Path) -> dict[str, float]:
    """Count, sum, extremes and percentiles of the latencies; nothing if they were not written."""
    if wanted is None or not (folder / wanted.file).is_file():
        return {}
    latencies = sorted(_latencies(wanted, folder / wanted.file))
    found = {"raw_count": float(len(latencies)), "raw_sum_ns": float(sum(latencies))}
    if latencies:
        found |= {"raw_min_ns": float(latencies[0]), "raw_max_ns": float(latencies[-1])}
        found |= {
            f"raw_{name}": float(latencies[rank(len(latencies), share) - 1])
            for name, share in SHARES.items()
        }
    return found


def _latencies(wanted: Samples, path: Path) -> list[int]:
    with path.open(newline="", encoding="utf-8") as lines:
        rows = csv.DictReader(lines)
        return [
            int(row[wanted.end]) - int(row[wanted.start])
            for row in rows
            if all(row[column] == word for column, word in wanted.where.items())
        ]
