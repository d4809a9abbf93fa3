"""Bounds as sentences, and as Markdown for a job's summary or a comment on a pull request."""

from collections.abc import Iterator, Sequence

from jissoku.model import Comparison, Metric, Summary, more_blocks
from jissoku.model.bound import BoundResult, BoundStatus
from jissoku.report import method, tables, verdicts
from jissoku.report.causes import Causes
from jissoku.report.format import load_mark, ratio
from jissoku.report.markdown import escape, table_lines
from jissoku.report.sanitize import sanitized
from jissoku.report.tables import Table

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
