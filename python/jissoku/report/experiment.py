"""Renders an experiment's result: the claims first, then their evidence."""

import textwrap
from collections.abc import Iterator, Sequence

import msgspec

from jissoku.model import more_blocks
from jissoku.model.experiment import (
    ClaimResult,
    ClaimStatus,
    ExperimentResult,
    InequalityResult,
    PublishedComparison,
)
from jissoku.report import experiment_chart as chart, format as fmt, method, page
from jissoku.report.experiment_chart import workload_sections
from jissoku.report.json import rounded
from jissoku.report.markdown import escape, table_lines
from jissoku.report.metric_words import WARNING
from jissoku.report.sanitize import sanitized
from jissoku.report.tables import Table

WIDTH = 100

# Metrics in nanoseconds.
TIMES = ("cost", "p50", "p95", "p99", "p999")

# Columns whose cells are sentences, which are shown without the column's name.
UNLABELLED_COLUMNS = {"why", "remark"}


def headline(outcome: ExperimentResult) -> str:
    counts = dict.fromkeys(ClaimStatus, 0)
    for claim in outcome.claims:
        counts[claim.status] += 1
    text = [f"{count} {_verb(one, count)}" for one, count in counts.items() if count]
    total = len(outcome.claims)
    begun = "" if outcome.is_finished else "Not run to its end. "
    return f"{begun}Of {total} {'claim' if total == 1 else 'claims'}: {', '.join(text)}."


def _verb(answer: ClaimStatus, count: int) -> str:
    several = {ClaimStatus.HOLDS: "hold", ClaimStatus.FAILS: "do not hold"}
    return str(answer) if count == 1 else several.get(answer, str(answer))


def claims(outcome: ExperimentResult) -> Table:
    """One row per claim."""
    rows = tuple(
        (known.claim.name, known.claim.text, str(known.status), "; ".join(evidence(known)))
        for known in outcome.claims
    )
    return Table(header=("claim", "what it says", "answer", "what it rests on"), rows=rows)


def evidence(known: ClaimResult) -> Iterator[str]:
    for test in known.inequalities:
        yield _inequality_text(test)
    yield from known.remarks


def _inequality_text(test: InequalityResult) -> str:
    text = test.text
    if test.measured:
        bound = "" if test.bound is None else f" against {test.bound:,.6g}"
        text += f": {_measured(test)}{bound}"
    if test.status is not ClaimStatus.HOLDS:
        text += f", {test.status}"
    if test.blocks_needed is not None:
        text += f" ({more_blocks(test.blocks_needed)} would decide)"
    elif test.status is ClaimStatus.UNDECIDED and test.value is not None and not test.remarks:
        text += " (no affordable number of blocks would decide)"
    # An answer that a check contradicts is undecided, with the reason in its remarks.
    is_decided = test.status in {ClaimStatus.HOLDS, ClaimStatus.FAILS}
    doubts = (
        f"{WARNING} {check.name} gives {fmt.ratio(check.ratio)}"
        for check in test.cross_checks
        if is_decided and not check.agrees
    )
    return text + "".join(f" ({remark})" for remark in (*test.remarks, *doubts))


def _measured(test: InequalityResult) -> str:
    """A ratio, or a larger value with thousands separators."""
    if test.value is None or test.value.value < 1000:
        return test.measured
    value = test.value
    low, high = fmt.significant(value.low, 4), fmt.significant(value.high, 4)
    return f"{fmt.significant(value.value, 4)} [{low}, {high}]"


def published(outcome: ExperimentResult) -> Table:
    """Published and measured values, both as ratios to their table's first row."""
    header = ("server", "published", "ratio then", "ours", "ratio now", "remark")
    return Table(header=header, rows=tuple(map(_published, outcome.published)))


def _published(found: PublishedComparison) -> tuple[str, ...]:
    row = found.published
    unit = {"rate": fmt.rate} | dict.fromkeys(TIMES, fmt.duration)
    metric = row.quantity.partition("(")[0]
    ours = fmt.NOTHING
    if found.ours is not None:
        ours = unit.get(metric, fmt.significant)(found.ours.value)
    remark = "; ".join(part for part in (row.note, found.remark) if part)
    name = f"{row.table}: {row.server}" if row.table else row.server
    return (
        name,
        f"{row.value:,g} {row.unit}",
        fmt.NOTHING if found.ratio is None else fmt.significant(found.ratio),
        ours,
        fmt.NOTHING if found.our_ratio is None else found.our_ratio.text,
        remark,
    )


def unobtainable(outcome: ExperimentResult) -> Table:
    """Servers that were not measured: unobtainable ones, and those missing here."""
    rows = [
        (one.name, one.reason, one.substitute or fmt.NOTHING)
        for one in outcome.header.experiment.unobtainable
    ]
    rows += [
        (one.name, f"{one.reason}; to add it: {one.install_hint}", fmt.NOTHING)
        for one in outcome.header.unavailable
    ]
    rows += [
        (f"workload {name}", reason, fmt.NOTHING) for name, reason in outcome.header.skipped.items()
    ]
    return Table(header=("not here", "why", "in its place"), rows=tuple(rows))


def to_json(outcome: ExperimentResult) -> str:
    """One object of schema `jissoku.outcome/1`; the workloads' own summaries are in it."""
    plain = msgspec.to_builtins(sanitized(outcome))
    plain["headline"] = headline(outcome)
    plain["summaries"] = {k: msgspec.to_builtins(v) for k, v in outcome.summaries.items()}
    text = msgspec.json.format(msgspec.json.encode(rounded(plain), order="deterministic"), indent=2)
    return text.decode() + "\n"


def to_text(outcome: ExperimentResult) -> str:
    """For a terminal: claims with their evidence, then published values, then missing servers."""
    return "\n".join(_text(sanitized(outcome))).rstrip("\n") + "\n"


def _text(outcome: ExperimentResult) -> Iterator[str]:
    experiment = outcome.header.experiment
    yield f"{experiment.name}: {experiment.title}"
    yield headline(outcome)
    yield ""
    for known in outcome.claims:
        yield from _wrapped(f"{known.claim.name}  {known.status}: {known.claim.text}", "", "   ")
        for line in evidence(known):
            yield from _wrapped(line, "     ", "       ")
    yield ""
    for title, table in (
        ("Published vs measured", published(outcome)),
        ("Not tested", unobtainable(outcome)),
    ):
        if table.rows:
            yield title
            for row in table.rows:
                cells = zip(table.header[1:], row[1:], strict=True)
                text = [
                    cell if name in UNLABELLED_COLUMNS else f"{name} {cell}"
                    for name, cell in cells
                    if cell not in {"", fmt.NOTHING}
                ]
                yield from _wrapped(f"{row[0]}: {', '.join(text)}", "  ", "    ")
            yield ""
    for part in workload_sections(outcome):
        yield from _wrapped(f"{part.name}: {part.workload_text} {part.headline}", "", "  ")


def _wrapped(text: str, first: str, rest: str) -> Sequence[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False
    )


def to_markdown(outcome: ExperimentResult) -> str:
    """For a repository, next to the records."""
    return "\n".join(_markdown(sanitized(outcome))).rstrip("\n") + "\n"


def _markdown(outcome: ExperimentResult) -> Iterator[str]:
    experiment = outcome.header.experiment
    yield f"# {escape(experiment.title)}"
    yield ""
    yield f"**{escape(headline(outcome))}**"
    yield ""
    for paragraph in experiment.description.strip().split("\n\n"):
        yield escape(paragraph)
        yield ""
    if experiment.source:
        year = f" ({experiment.year})" if experiment.year else ""
        yield f"Original: {escape(experiment.source)}{year}."
        yield ""
    for title, table in (
        ("Claims", claims(outcome)),
        ("Published vs measured", published(outcome)),
        ("Not tested", unobtainable(outcome)),
    ):
        if table.rows:
            yield f"## {title}"
            yield ""
            yield from table_lines(table)
    for part in workload_sections(outcome):
        yield f"## {escape(part.name)}"
        yield ""
        yield escape(f"{part.workload_text} {part.trials}.")
        yield ""
        for title, numbers in part.tables:
            yield f"**{escape(title)}**"
            yield ""
            yield from table_lines(numbers)
        yield from (f"- {escape(warning)}" for warning in part.warnings)
        yield ""
    for name, value in _machine(outcome):
        yield f"- {name}: {escape(value)}"


def _machine(outcome: ExperimentResult) -> tuple[tuple[str, str], ...]:
    for summary in outcome.summaries.values():
        return method.machine(summary.run)
    return ()


def to_html(outcome: ExperimentResult) -> str:
    """One self-contained page."""
    outcome = sanitized(outcome)
    figures = [one for one in (chart.claims(outcome), chart.published(outcome)) if one]
    return page.render(
        "experiment.html.j2",
        figures=figures,
        experiment=outcome.header.experiment,
        description=outcome.header.experiment.description.strip().split("\n\n"),
        headline=headline(outcome),
        claims=[(known, list(evidence(known))) for known in outcome.claims],
        published=published(outcome),
        absent=unobtainable(outcome),
        parts=workload_sections(outcome),
        arms=_arms(outcome),
        machine=_machine(outcome),
    )


def _arms(outcome: ExperimentResult) -> list[tuple[str, str, str]]:
    found: dict[str, tuple[str, str, str]] = {}
    for summary in outcome.summaries.values():
        for arm in summary.run.arms:
            found.setdefault(arm.name, (arm.name, arm.version, arm.description))
    return list(found.values())
