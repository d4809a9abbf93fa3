"""Extracts values from a report: by regular expression, by a path in JSON, or from a histogram."""

import re
from typing import Any

import msgspec
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

from jissoku.model.load_tool import FigurePattern

# A bare number counts as it is; a time counts in nanoseconds.
UNITS = {"": 1.0, "ns": 1.0, "us": 1e3, "\N{MICRO SIGN}s": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9}


# Asked of a histogram instead of a quantile: how many samples it has.
COUNT = -1


def read_values(wanted: dict[str, FigurePattern], text: str) -> dict[str, float]:
    """Every value that the report has."""
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
