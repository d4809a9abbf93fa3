"""Bounds of continuous integration: sentences, comments in Markdown, causes, other formats."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape as xml_escape, quoteattr

from jissoku.model import Comparison, CounterReadings, Load, Metric, Summary, more_blocks
from jissoku.model.profile import ProfileDifference
from jissoku.model.summary import BoundResult, BoundStatus
from jissoku.report import method, tables, verdicts
from jissoku.report.explanation import CALLS_MIN
from jissoku.report.format import (
    Table,
    clean,
    escape,
    load_mark,
    ratio,
    rounded,
    sanitized,
    table_lines,
)
from jissoku.report.profile import difference_cells

# Rows of functions.
FUNCTIONS_MAX = 8

BY_FUNCTION = "--profile breaks the difference down by function."


@dataclass(frozen=True, slots=True)
class Causes:
    """Differences of two arms, as tables and sentences.

    Attributes:
        counts: System calls, connections, segments and bytes per request that differ.
        functions: Functions whose CPU time differs, largest first.
        remarks: What else is known, or why something is not.
    """

    counts: Table
    functions: Table
    remarks: tuple[str, ...]


def causes(
    arm: str,
    against: str,
    readings: Mapping[str, CounterReadings],
    change: ProfileDifference | None,
) -> Causes:
    """Tables of the differences.

    Args:
        arm: That uses more.
        against: That it is compared with.
        readings: Of both, by name.
        change: Of their profiles, `against` first; None if they were not profiled.
    """
    more, less = readings[arm], readings[against]
    reason = more.syscalls_reason or less.syscalls_reason
    counts = () if reason else tuple(_different(more.per_request, less.per_request))
    functions = change.functions if change else ()
    certain = [difference_cells(row) for row in functions if row.is_certain]
    return Causes(
        counts=Table(header=("per request", clean(arm), clean(against)), rows=counts),
        functions=Table(
            header=(
                "µs per request",
                "95 % interval",
                "of all",
                "before",
                "after",
                "function",
                "in",
            ),
            rows=tuple(tuple(map(clean, cells)) for cells in certain[:FUNCTIONS_MAX]),
        ),
        remarks=tuple(_remarks(reason, has_counts=bool(counts), change=change)),
    )


def _different(
    more: Mapping[str, float], less: Mapping[str, float]
) -> Iterator[tuple[str, str, str]]:
    """The largest differences first."""
    values = {name: (more.get(name, 0.0), less.get(name, 0.0)) for name in {*more, *less}}
    ordered = sorted(values.items(), key=lambda one: (-abs(one[1][0] - one[1][1]), one[0]))
    for name, (here, there) in ordered:
        if abs(here - there) >= CALLS_MIN:
            yield clean(name), f"{here:,.2f}", f"{there:,.2f}"


def _remarks(reason: str, *, has_counts: bool, change: ProfileDifference | None) -> Iterator[str]:
    if reason:
        yield f"System calls were not counted: {clean(reason)}."
    elif not has_counts:
        yield "System calls, segments and bytes per request are the same in both."
    if change is None:
        yield BY_FUNCTION
    elif not any(row.is_certain for row in change.functions):
        yield "Samples of both prove a difference of no function."


# Marks a comment, so that a later one replaces it.
MARKER = "<!-- jissoku -->"

# GitHub rejects longer ones.
LENGTH_MAX = 65_000

WORDS = {
    BoundStatus.KEPT: "kept",
    BoundStatus.EXCEEDED: "exceeded, proven",
    BoundStatus.UNDECIDED: "undecided",
}


def bound_sentence(found: BoundResult) -> str:
    """As in `cost(head) > 1.01 x cost(base): kept; 0.998 x [0.994, 1.002] at 20,000/s`."""
    value = f"; {ratio(found.ratio)}" if found.ratio else ""
    load = f" at {load_mark(found.load)}" if found.load else ""
    more = f"; {found.reason}" if found.reason else ""
    if found.blocks_needed:
        more += f"; about {more_blocks(found.blocks_needed)} would decide"
    return f"{found.text}: {WORDS[found.status]}{value}{load}{more}"


def comment(
    summary: Summary,
    found: Sequence[BoundResult],
    trials_sha256: str = "",
    known: Causes | None = None,
) -> str:
    """Markdown of one run: bounds, verdicts, the A/A control, and the rest folded.

    Args:
        summary: Of the run.
        found: Its bounds.
        trials_sha256: Of the trials' file, which is kept elsewhere; empty: it is not named.
        known: Why an arm that exceeds its bound uses more CPU time, as far as it was looked for.
    """
    text = "\n".join(_comment(sanitized(summary), found, trials_sha256, known)) + "\n"
    if len(text) > LENGTH_MAX:
        text = text[: LENGTH_MAX - 100].rpartition("\n")[0] + "\n\n</details>\n"
    return text


def _comment(
    summary: Summary, found: Sequence[BoundResult], trials_sha256: str, known: Causes | None
) -> Iterator[str]:
    yield MARKER
    yield f"**{escape(_verdict(found) or summary.headline)}**"
    yield ""
    if found:
        yield from table_lines(_bounds(found))
    against = [one for one in verdicts.against(summary, Metric.COST) if one.ratio]
    if against:
        rows = [
            (one.arm, ratio(one.ratio), str(one.verdict), _blocks(one), load_mark(one.load))
            for one in against
        ]
        header = ("target", f"CPU time per {summary.run.baseline}'s", "verdict", "blocks", "load")
        yield from table_lines(Table(header=header, rows=tuple(rows)))
    for one in summary.aa_control:
        if one.ratio:
            yield (
                f"Equal arms, in the same trials ({escape(load_mark(one.load))}):"
                f" {escape(ratio(one.ratio))}."
            )
            yield ""
    if known is not None:
        yield from _causes(known)
    yield "<details><summary>Every target, and how it was measured</summary>"
    yield ""
    yield from table_lines(tables.facts(summary))
    yield f"{escape(method.describe_load(summary.run))}; {method.trials(summary)}."
    yield ""
    yield from (f"- {name}: {escape(value)}" for name, value in method.machine(summary.run))
    yield ""
    yield "`jissoku report FOLDER` rebuilds every report from the records."
    if trials_sha256:
        yield f"SHA-256 of their `trials.jsonl`: `{trials_sha256}`."
    yield ""
    yield "</details>"


def _causes(known: Causes) -> Iterator[str]:
    for table in (known.counts, known.functions):
        if table.rows:
            yield from table_lines(table)
    for remark in known.remarks:
        yield escape(remark)
        yield ""


def _blocks(one: Comparison) -> str:
    return str(one.ratio.blocks) if one.ratio else "0"


def _verdict(found: Sequence[BoundResult]) -> str:
    """The first of the worst bounds, as a headline."""
    for status in (BoundStatus.EXCEEDED, BoundStatus.UNDECIDED, BoundStatus.KEPT):
        for one in found:
            if one.status is status:
                return bound_sentence(one)
    return ""


def _bounds(found: Sequence[BoundResult]) -> Table:
    rows = tuple(
        (one.text, WORDS[one.status], ratio(one.ratio), one.reason or "-") for one in found
    )
    return Table(header=("fails if", "result", "ratio", "reason"), rows=rows)


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
        + f"<system-out>{xml_escape(summary.headline)}</system-out>\n</testsuite>\n"
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
