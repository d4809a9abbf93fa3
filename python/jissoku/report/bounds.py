"""Bounds of continuous integration: sentences, comments in Markdown, causes, other formats."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape as xml_escape, quoteattr

from jissoku.model import Arm, Load, summary as model
from jissoku.model.profile import ProfileDifference
from jissoku.model.wording import needed_text
from jissoku.report import method, tables
from jissoku.report.explanation import CALLS_MIN
from jissoku.report.format import Table, clean, filled, load_mark, ratio, rounded, sanitized
from jissoku.report.profile import difference_cells

# Rows of functions.
FUNCTIONS_MAX = 8

FUNCTION_COLUMNS = (
    "µs per request", "95 % interval", "of all", "before", "after", "function", "in",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Causes:
    """Differences of two arms: counts per request, CPU time of functions, or why none is known."""

    counts: Table
    functions: Table
    remarks: tuple[str, ...]


def causes(
    arm: str,
    against: str,
    readings: Mapping[str, model.CounterReadings],
    change: ProfileDifference | None,
) -> Causes:
    """Differences of an arm that uses more, from readings and profiles of both."""
    more, less = readings[arm], readings[against]
    reason = more.syscalls_reason or less.syscalls_reason
    counts = () if reason else tuple(_different(more.per_request, less.per_request))
    functions = change.functions if change else ()
    certain = [difference_cells(row) for row in functions if row.is_certain]
    return Causes(
        counts=Table(header=("per request", clean(arm), clean(against)), rows=counts),
        functions=Table(
            header=FUNCTION_COLUMNS,
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
        yield "--profile breaks the difference down by function."
    elif not any(row.is_certain for row in change.functions):
        yield "Samples of both prove a difference of no function."


# Marks a comment, so that a later one replaces it.
MARKER = "<!-- jissoku -->"

# GitHub rejects longer ones.
LENGTH_MAX = 65_000

WORDS = {
    model.BoundStatus.KEPT: "kept",
    model.BoundStatus.EXCEEDED: "exceeded, proven",
    model.BoundStatus.UNDECIDED: "undecided",
}


def bound_sentence(found: model.BoundResult) -> str:
    """As in `cost(head) > 1.01 x cost(base): kept; 0.998 x [0.994, 1.002] at 20,000/s`."""
    value = f"; {ratio(found.ratio)}" if found.ratio else ""
    load = f" at {load_mark(found.load)}" if found.load else ""
    more = f"; {found.reason}" if found.reason else ""
    if needed := needed_text(found.blocks_needed, found.seconds_needed):
        more += f"; {needed} would decide this bound"
    return f"{found.text}: {WORDS[found.status]}{value}{load}{more}"


def comment(
    summary: model.Summary,
    found: Sequence[model.BoundResult],
    trials_sha256: str = "",
    known: Causes | None = None,
) -> str:
    """Markdown of one run; the trials' file, which is kept elsewhere, is named by its hash."""
    summary = sanitized(summary)
    rows = ((one.text, WORDS[one.status], ratio(one.ratio), one.reason or "-") for one in found)
    bounds = Table(header=("fails if", "result", "ratio", "reason"), rows=tuple(rows))
    against = Table(
        header=("target", f"CPU time per {summary.run.baseline}'s", "verdict", "blocks", "load"),
        rows=tuple(
            (c.arm, ratio(c.ratio), str(c.verdict), str(c.ratio.blocks), load_mark(c.load))
            for c in tables.against(summary, model.Metric.COST)
            if c.ratio
        ),
    )
    text = filled(
        "comment.md.j2",
        marker=MARKER,
        headline=_verdict(found) or summary.headline,
        tables=(bounds, against),
        controls=[(load_mark(c.load), ratio(c.ratio)) for c in summary.aa_control if c.ratio],
        causes=known,
        facts=tables.facts(summary),
        asked=method.describe_load(summary.run),
        trials=method.trials(summary),
        machine=method.machine(summary.run),
        trials_sha256=trials_sha256,
    )
    if len(text) > LENGTH_MAX:
        text = text[: LENGTH_MAX - 100].rpartition("\n")[0] + "\n\n</details>\n"
    return text


def _verdict(found: Sequence[model.BoundResult]) -> str:
    """The first of the worst bounds, as a headline."""
    worst = (model.BoundStatus.EXCEEDED, model.BoundStatus.UNDECIDED, model.BoundStatus.KEPT)
    ordered = sorted(found, key=lambda one: worst.index(one.status))
    return bound_sentence(ordered[0]) if ordered else ""


# CPU nanoseconds per request of each block, by load and arm.
BlockCosts = Mapping[tuple[Load, str], Sequence[float]]


def benchstat(_: model.Summary, costs: BlockCosts, *__: object) -> str:
    """Go benchmark lines, one per block and arm; benchstat does not pair them by block.

    benchstat chooses by the keys `/arm` and `/load`. The load is last, because a number after the
    last hyphen of a name would be GOMAXPROCS.
    """
    lines = [
        f"BenchmarkCost/arm={_word(arm)}/load={_load(load)} 1 {value:.1f} cpu-ns/req"
        for (load, arm), values in costs.items()
        for value in values
    ]
    return "\n".join(["Unit cpu-ns/req better=lower", *lines]) + "\n"


def _costs(summary: model.Summary) -> Iterator[tuple[Arm, str, model.Estimate]]:
    for known in summary.arm_summaries:
        for point in known.points:
            if point.cost_ns is not None:
                yield known.arm, _load(point.load), point.cost_ns


def bencher(summary: model.Summary, *_: object) -> str:
    """Bencher Metric Format: value with both ends of the interval."""
    return _json({
        f"{arm.name} at {load}": {
            "cpu-ns-per-request": {
                "value": cost.value, "lower_value": cost.low, "upper_value": cost.high,
            },
        }
        for arm, load, cost in _costs(summary)
    })  # fmt: skip


def github_action_benchmark(summary: model.Summary, *_: object) -> str:
    """The format `customSmallerIsBetter` of github-action-benchmark."""
    entries = [
        {
            "name": f"{arm.name} at {load}",
            "unit": "CPU ns/request",
            "value": cost.value,
            "range": f"{cost.low:.0f}-{cost.high:.0f}",
            "extra": arm.version,
        }
        for arm, load, cost in _costs(summary)
    ]
    return _json(entries)


def otava(summary: model.Summary, *_: object) -> str:
    """CSV with one row per run, for Apache Otava: append the second line to its file."""
    cells = [
        ("time", summary.run.started_utc),
        ("commit", summary.run.labels.get("commit", "")),
        *((f"{a.name}_{load}_cpu_ns", f"{cost.value:.1f}") for a, load, cost in _costs(summary)),
    ]
    rows = zip(*cells, strict=True)
    return "".join(f"{','.join(cell.replace(',', ' ') for cell in row)}\n" for row in rows)


def junit(summary: model.Summary, _: BlockCosts, found: Sequence[model.BoundResult]) -> str:
    """JUnit XML, a test case per bound: exceeded is a failure, undecided is skipped."""
    tags = {model.BoundStatus.EXCEEDED: "failure", model.BoundStatus.UNDECIDED: "skipped"}
    counts, cases = Counter[str](), ""
    for one in found:
        inner = ""
        if tag := tags.get(one.status):
            counts[tag] += 1
            inner = f"<{tag} message={quoteattr(bound_sentence(one))}/>"
        cases += f'<testcase classname="jissoku" name={quoteattr(one.text)}>{inner}</testcase>\n'
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuite name="jissoku" tests="{len(found)}" failures="{counts["failure"]}"'
        f' skipped="{counts["skipped"]}">\n'
        f"{cases}<system-out>{xml_escape(summary.headline)}</system-out>\n</testsuite>\n"
    )


FORMATS: dict[str, Callable[[model.Summary, BlockCosts, Sequence[model.BoundResult]], str]] = {
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
