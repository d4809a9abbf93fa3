"""Results in the formats of other tools that store histories or draw charts."""

import json
from collections.abc import Callable, Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

from jissoku.model import Load, Summary
from jissoku.model.bound import BoundResult, BoundStatus
from jissoku.report.bounds import bound_sentence
from jissoku.report.json import rounded

# CPU nanoseconds per request of each block, by load and arm.
BlockCosts = Mapping[tuple[Load, str], Sequence[float]]


def benchstat(summary: Summary, costs: BlockCosts, found: Sequence[BoundResult]) -> str:
    """Go benchmark lines, one per block and arm; benchstat does not pair them by block.

    benchstat chooses by the keys `/arm` and `/load`. The load is last, because a number after the
    last hyphen of a name would be GOMAXPROCS.
    """
    del summary, found
    lines = [
        f"BenchmarkCost/arm={_word(arm)}/load={_load(load)} 1 {value:.1f} cpu-ns/req"
        for (load, arm), values in costs.items()
        for value in values
    ]
    return "\n".join(["Unit cpu-ns/req better=lower", *lines]) + "\n"


def bencher(summary: Summary, costs: BlockCosts, found: Sequence[BoundResult]) -> str:
    """Bencher Metric Format: value with both ends of the interval."""
    del costs, found
    results: dict[str, dict[str, dict[str, float]]] = {}
    for known in summary.arm_summaries:
        for point in known.points:
            if point.cost_ns is None:
                continue
            cost = point.cost_ns
            results[f"{known.arm.name} at {_load(point.load)}"] = {
                "cpu-ns-per-request": {
                    "value": cost.value, "lower_value": cost.low, "upper_value": cost.high,
                },
            }  # fmt: skip
    return _json(results)


def github_action_benchmark(
    summary: Summary, costs: BlockCosts, found: Sequence[BoundResult]
) -> str:
    """The format `customSmallerIsBetter` of github-action-benchmark."""
    del costs, found
    entries = [
        {
            "name": f"{known.arm.name} at {_load(point.load)}",
            "unit": "CPU ns/request",
            "value": point.cost_ns.value,
            "range": f"{point.cost_ns.low:.0f}-{point.cost_ns.high:.0f}",
            "extra": known.arm.version,
        }
        for known in summary.arm_summaries
        for point in known.points
        if point.cost_ns is not None
    ]
    return _json(entries)


def otava(summary: Summary, costs: BlockCosts, found: Sequence[BoundResult]) -> str:
    """CSV with one row per run, for Apache Otava: append the second line to its file."""
    del costs, found
    names = ["time", "commit"]
    values = [summary.run.started_utc, summary.run.labels.get("commit", "")]
    for known in summary.arm_summaries:
        for point in known.points:
            if point.cost_ns is not None:
                names.append(f"{known.arm.name}_{_load(point.load)}_cpu_ns".replace(",", " "))
                values.append(f"{point.cost_ns.value:.1f}")
    return f"{','.join(names)}\n{','.join(value.replace(',', ' ') for value in values)}\n"


def junit(summary: Summary, costs: BlockCosts, found: Sequence[BoundResult]) -> str:
    """JUnit XML, a test case per bound: exceeded is a failure, undecided is skipped."""
    del costs
    cases = []
    for one in found:
        inner = ""
        if one.status is BoundStatus.EXCEEDED:
            inner = f"<failure message={quoteattr(bound_sentence(one))}/>"
        elif one.status is BoundStatus.UNDECIDED:
            inner = f"<skipped message={quoteattr(bound_sentence(one))}/>"
        cases.append(f'<testcase classname="jissoku" name={quoteattr(one.text)}>{inner}</testcase>')
    failures = sum(one.status is BoundStatus.EXCEEDED for one in found)
    skipped = sum(one.status is BoundStatus.UNDECIDED for one in found)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuite name="jissoku" tests="{len(found)}" failures="{failures}"'
        f' skipped="{skipped}">\n'
        + "".join(f"{case}\n" for case in cases)
        + f"<system-out>{escape(summary.headline)}</system-out>\n</testsuite>\n"
    )


FORMATS: dict[str, Callable[[Summary, BlockCosts, Sequence[BoundResult]], str]] = {
    "benchstat": benchstat,
    "bencher": bencher,
    "github-action-benchmark": github_action_benchmark,
    "otava": otava,
    "junit": junit,
}


def _json(value: object) -> str:
    return json.dumps(rounded(value), indent=2, ensure_ascii=False) + "\n"


def _load(load: Load) -> str:
    return "closed-loop" if load.rate_rps is None else f"{load.rate_rps}rps"


def _word(name: str) -> str:
    """Without the spaces that end a benchmark's name, and the slashes that end a key's value."""
    return "-".join(name.replace("/", "-").split())
