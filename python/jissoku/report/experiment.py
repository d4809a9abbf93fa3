"""An experiment's answer made readable: the claims first, then what they rest on."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
from markupsafe import Markup
from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

from jissoku.model import Summary
from jissoku.model.experiment import Answered, Beside, ClaimAnswer, Outcome, Tested
from jissoku.report import experiment_chart as chart, format as fmt, method, palette, tables
from jissoku.report.html import environment, script_json
from jissoku.report.json import rounded
from jissoku.report.markdown import escape, table_lines
from jissoku.report.scrub import scrubbed
from jissoku.report.tables import Table

SCHEMA = "jissoku.outcome/1"

WIDTH = 100

# Columns whose cells are sentences, which need no name before them.
TOLD_BARE = {"why", "remark"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One workload as a page shows it."""

    name: str
    asked: str
    trials: str
    headline: str
    ranking: Table
    flags: tuple[str, ...]


def headline(outcome: Outcome) -> str:
    """How many claims hold, and how many do not."""
    counts = dict.fromkeys(Answered, 0)
    for claim in outcome.claims:
        counts[claim.answer] += 1
    told = [f"{count} {_verb(one, count)}" for one, count in counts.items() if count]
    total = len(outcome.claims)
    begun = "" if outcome.is_finished else "Not run to its end. "
    return f"{begun}Of {total} {'claim' if total == 1 else 'claims'}: {', '.join(told)}."


def _verb(answer: Answered, count: int) -> str:
    """One holds, two hold."""
    several = {Answered.HOLDS: "hold", Answered.FAILS: "do not hold"}
    return str(answer) if count == 1 else several.get(answer, str(answer))


def claims(outcome: Outcome) -> Table:
    """One row per claim."""
    rows = tuple(
        (known.claim.name, known.claim.text, str(known.answer), "; ".join(evidence(known)))
        for known in outcome.claims
    )
    return Table(header=("claim", "what it says", "answer", "what it rests on"), rows=rows)


def evidence(known: ClaimAnswer) -> Iterator[str]:
    """What an answer rests on, part by part."""
    for test in known.tests:
        yield _tested(test)
    yield from known.remarks


def _tested(test: Tested) -> str:
    text = test.text
    if test.measured:
        bound = "" if test.bound is None else f" against {test.bound:,.6g}"
        text += f": {_measured(test)}{bound}"
    if test.answer is not Answered.HOLDS:
        text += f", {test.answer}"
    if test.blocks_needed is not None:
        text += f" ({test.blocks_needed} more blocks would decide)"
    elif test.answer is Answered.UNDECIDED and test.value is not None and not test.remarks:
        text += " (no affordable number of blocks would decide)"
    return text + "".join(f" ({remark})" for remark in test.remarks)


def _measured(test: Tested) -> str:
    """A ratio as it is; anything larger with thousands set apart."""
    if test.value is None or test.value.value < 1000:
        return test.measured
    value = test.value
    low, high = fmt.significant(value.low, 4), fmt.significant(value.high, 4)
    return f"{fmt.significant(value.value, 4)} [{low}, {high}]"


def published(outcome: Outcome) -> Table:
    """What was published, and ours, both as ratios to their table's first row."""
    header = ("server", "published", "ratio then", "ours", "ratio now", "remark")
    return Table(header=header, rows=tuple(map(_published, outcome.beside)))


def _published(found: Beside) -> tuple[str, ...]:
    row = found.published
    unit = {"rate": fmt.rate, "p50": fmt.duration, "p99": fmt.duration, "cost": fmt.duration}
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


def absent(outcome: Outcome) -> Table:
    """Servers that are not here: those nobody can have, and those this machine lacks."""
    rows = [
        (one.name, one.reason, one.stand_in or fmt.NOTHING)
        for one in outcome.header.experiment.absent
    ]
    rows += [
        (one.name, f"{one.reason}; to add it: {one.remedy}", fmt.NOTHING)
        for one in outcome.header.missing
    ]
    rows += [
        (f"workload {name}", reason, fmt.NOTHING)
        for name, reason in outcome.header.left_out.items()
    ]
    return Table(header=("not here", "why", "in its place"), rows=tuple(rows))


def _parts(outcome: Outcome) -> tuple[Part, ...]:
    return tuple(_part(name, summary) for name, summary in outcome.summaries.items())


def _part(name: str, summary: Summary) -> Part:
    shared = " Servers and stopwatch shared their cores." if summary.run.cores.shared else ""
    return Part(
        name=name,
        asked=f"{method.asked(summary.run)}.{shared}",
        trials=method.trials(summary),
        headline=_how_it_ended(summary),
        ranking=tables.ranking(summary),
        flags=tuple(f"{flag.weight}: {flag.title}. {flag.text}" for flag in summary.flags),
    )


def _how_it_ended(summary: Summary) -> str:
    """Without duets nobody asked for a ranking by cost, and the rates are what there is."""
    rates = {s.arm.name: s.rate_rps for s in summary.standings if s.rate_rps is not None}
    ranked = any(known.rank is not None for known in summary.standings)
    if ranked or len(rates) < len(summary.standings):
        return summary.headline
    told = ", ".join(f"{name} {fmt.interval(rate, 'rate')}" for name, rate in rates.items())
    return f"Each alone, as fast as it answers: {told}."


def to_json(outcome: Outcome) -> str:
    """One object of schema `jissoku.outcome/1`; the workloads' own summaries are in it."""
    plain = {"schema": SCHEMA} | msgspec.to_builtins(scrubbed(outcome))
    plain["headline"] = headline(outcome)
    plain["summaries"] = {k: msgspec.to_builtins(v) for k, v in outcome.summaries.items()}
    text = msgspec.json.format(msgspec.json.encode(rounded(plain), order="deterministic"), indent=2)
    return text.decode() + "\n"


def to_text(outcome: Outcome) -> str:
    """For a terminal: claims with what they rest on, then published figures, then gaps."""
    return "\n".join(_text(scrubbed(outcome))).rstrip("\n") + "\n"


def _text(outcome: Outcome) -> Iterator[str]:
    experiment = outcome.header.experiment
    yield f"{experiment.name}: {experiment.title}"
    yield headline(outcome)
    yield ""
    for known in outcome.claims:
        yield from _wrapped(f"{known.claim.name}  {known.answer}: {known.claim.text}", "", "   ")
        for line in evidence(known):
            yield from _wrapped(line, "     ", "       ")
    yield ""
    for title, table in (("Then and now", published(outcome)), ("Not here", absent(outcome))):
        if table.rows:
            yield title
            for row in table.rows:
                cells = zip(table.header[1:], row[1:], strict=True)
                told = [
                    cell if name in TOLD_BARE else f"{name} {cell}"
                    for name, cell in cells
                    if cell not in {"", fmt.NOTHING}
                ]
                yield from _wrapped(f"{row[0]}: {', '.join(told)}", "  ", "    ")
            yield ""
    for part in _parts(outcome):
        yield from _wrapped(f"{part.name}: {part.asked} {part.headline}", "", "  ")


def _wrapped(text: str, first: str, rest: str) -> Sequence[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False
    )


def to_markdown(outcome: Outcome) -> str:
    """For a repository: records are kept beside it."""
    return "\n".join(_markdown(scrubbed(outcome))).rstrip("\n") + "\n"


def _markdown(outcome: Outcome) -> Iterator[str]:
    experiment = outcome.header.experiment
    yield f"# {escape(experiment.title)}"
    yield ""
    yield f"**{escape(headline(outcome))}**"
    yield ""
    for paragraph in experiment.essay.strip().split("\n\n"):
        yield escape(paragraph)
        yield ""
    if experiment.source:
        year = f" ({experiment.year})" if experiment.year else ""
        yield f"Original: {escape(experiment.source)}{year}."
        yield ""
    for title, table in (
        ("Claims", claims(outcome)),
        ("Then and now", published(outcome)),
        ("Not here", absent(outcome)),
    ):
        if table.rows:
            yield f"## {title}"
            yield ""
            yield from table_lines(table)
    for part in _parts(outcome):
        yield f"## {escape(part.name)}"
        yield ""
        yield escape(f"{part.asked} {part.trials}.")
        yield ""
        yield from table_lines(part.ranking)
        yield from (f"- {escape(flag)}" for flag in part.flags)
        yield ""
    for name, value in _machine(outcome):
        yield f"- {name}: {escape(value)}"


def _machine(outcome: Outcome) -> tuple[tuple[str, str], ...]:
    for summary in outcome.summaries.values():
        return method.machine(summary.run)
    return ()


def to_html(outcome: Outcome, *, library: str | None = None) -> str:
    """One page that needs nothing else.

    Args:
        outcome: What to show.
        library: The plotting library's source; plotly's own by default. Tests give a stand-in.
    """
    outcome = scrubbed(outcome)
    drawn = {one.name: one for one in (chart.claims(outcome), chart.published(outcome)) if one}
    source = (get_plotlyjs() if library is None else library) if drawn else ""
    return environment().get_template("experiment.html.j2").render(
        experiment=outcome.header.experiment,
        essay=outcome.header.experiment.essay.strip().split("\n\n"),
        headline=headline(outcome),
        claims=[(known, list(evidence(known))) for known in outcome.claims],
        published=published(outcome),
        absent=absent(outcome),
        parts=_parts(outcome),
        arms=_arms(outcome),
        machine=_machine(outcome),
        figures=drawn,
        data=script_json({
            "theme": palette.THEME,
            "figures": [{"name": one.name, "plot": one.plot} for one in drawn.values()],
        }),
        library=Markup(source),  # noqa: S704 - plotly's own
    )  # fmt: skip


def _arms(outcome: Outcome) -> list[tuple[str, str, str]]:
    found: dict[str, tuple[str, str, str]] = {}
    for summary in outcome.summaries.values():
        for arm in summary.run.arms:
            found.setdefault(arm.name, (arm.name, arm.version, arm.essay))
    return list(found.values())
