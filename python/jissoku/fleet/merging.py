"""One report of a load that several load generators have sent together. No I/O.

Counts are added, also those of the histograms' buckets, which are the same for all: nothing is
averaged. Of how late requests were sent only percentiles are known: that of the latest host counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

from jissoku.measure.loadgen import LoadgenError
from jissoku.measure.observation import Report

# As load generators export latencies: nanoseconds, at most a minute, with three digits.
LATENCY_NS_MAX = 60_000_000_000
DIGITS = 3

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9}

Part = Mapping[str, Any]


class MergeError(LoadgenError):
    """The load generators have not sent the same load at the same times."""


def merged(reports: Sequence[Report]) -> Report:
    """The report of all of them, with the fields that a trial's record needs.

    MergeError: they have other targets, or time slices that began at other times.
    """
    targets = [report["targets"] for report in reports]
    if len({len(one) for one in targets}) != 1:
        raise MergeError("the load generators had different numbers of targets")
    return {
        "threads": [thread for report in reports for thread in report["threads"]],
        # In no time that is longer all of them were without a response.
        "longest_gap_ns": min(report["longest_gap_ns"] for report in reports),
        "longest_stall_ns": _longest(report["longest_stall_ns"] for report in reports),
        "targets": [_target(parts) for parts in zip(*targets, strict=True)],
    }


def _target(parts: Sequence[Part]) -> dict[str, Any]:
    slices = _slices([part["slices"] for part in parts])
    found = {
        name: sum(part[name] for part in parts)
        for name in ("requests", "connections_opened", "bytes_received", "latency_sum_ns")
    }
    seconds = zip_longest(*(part["per_second"] for part in parts), fillvalue=0)
    offered = [part["rate_rps_offered"] for part in parts]
    found |= {
        "errors": {
            kind: sum(part["errors"][kind] for part in parts) for kind in parts[0]["errors"]
        },
        "duration_ns": max(part["duration_ns"] for part in parts),
        "rate_rps_offered": None if None in offered else sum(offered),
        "lag_ns_p99": _longest(part["lag_ns_p99"] for part in parts),
        "per_second": [sum(second) for second in seconds],
        "watched_cpu_ns": None,
        "idle_cpu_ns_per_s": None,
        "slice_cpu_ns": None,
        "slices": slices,
        "slice_duration_ns": None if slices is None else sum(one["duration_ns"] for one in slices),
    }
    return found | _latency(parts, found["latency_sum_ns"])


def _latency(parts: Sequence[Part], sum_ns: int) -> dict[str, Any]:
    """The histogram of all, and its summary; a part without a response has none."""
    known = [part["latency_ns"] for part in parts if part["latency_ns"] is not None]
    histogram = HdrHistogram(1, LATENCY_NS_MAX, DIGITS)
    for part in parts:
        histogram.decode_and_add(part["histogram"])
    if not known:
        return {"histogram": parts[0]["histogram"], "latency_ns": None}
    lowest, highest = min(one["min"] for one in known), max(one["max"] for one in known)
    latency = {
        name: min(max(lowest, int(histogram.get_value_at_percentile(percentile))), highest)
        for name, percentile in PERCENTILES.items()
    }
    mean_ns = sum_ns // histogram.get_total_count()
    latency |= {"mean": mean_ns, "min": lowest, "max": highest}
    return {"histogram": histogram.encode().decode("ascii"), "latency_ns": latency}


def _slices(parts: Sequence[Sequence[Part] | None]) -> list[dict[str, Any]] | None:
    known = [part for part in parts if part is not None]
    if not known:
        return None
    begun = {tuple(one["began_ns"] for one in part) for part in known}
    if len(known) != len(parts) or len(begun) != 1:
        raise MergeError("the load generators had time slices at different times")
    return [_slice(same) for same in zip(*known, strict=True)]


def _slice(parts: Sequence[Part]) -> dict[str, Any]:
    """One slice of all: it ends with the last response to any of them."""
    waits = [part["generator_wait_ns"] for part in parts]
    return {
        "began_ns": parts[0]["began_ns"],
        "requests": sum(part["requests"] for part in parts),
        "duration_ns": max(part["duration_ns"] for part in parts),
        "generator_wait_ns": None if None in waits else sum(waits),
        "rotation_ns": max(part["rotation_ns"] for part in parts),
        "wait_ns": None,
        "runs": None,
        "rotation_cpu_ns": None,
        "rotation_foreign_ns": None,
    }


def _longest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
