"""The board: a card for each target with the figures of one run, which its figures link to."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jissoku.model.calibration import Scorecard
from jissoku.model.experiment import ClaimStatus, ExperimentResult
from jissoku.model.history import BoardRun, IndexedRun
from jissoku.model.recipe import TargetKind
from jissoku.model.run import Load
from jissoku.model.summary import ArmSummary, Estimate, LoadPoint, Summary
from jissoku.model.wording import DAY_LENGTH, SECOND_NS, join_names, plural
from jissoku.report import experiment, format as fmt, page, tables
from jissoku.report.history import report_file, target_file
from jissoku.request import command_line

# Commands and addresses, and recipes that this version does not have.
OTHER = "other"

# Kinds of targets, in this order, with the title of their section.
TITLES = {
    TargetKind.SERVER: "Servers",
    TargetKind.PROXY: "Proxies and gateways",
    TargetKind.APPLICATION_SERVER: "Application servers",
    OTHER: "Other programs",
}

# Of a description, up to the end of its first sentence.
SENTENCE = re.compile(r".*?\.(?=\s|$)")
SENTENCE_LENGTH = 130

# Classes and names of the answers to claims.
ANSWERS = {
    ClaimStatus.HOLDS: "holds",
    ClaimStatus.FAILS: "fails",
    ClaimStatus.UNDECIDED: "undecided",
    ClaimStatus.NOT_TESTABLE: "absent",
}

# Other runs of the same targets that are listed.
AGAIN_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRun:
    shown: BoardRun
    summary: Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownExperiment:
    file: str
    result: ExperimentResult


def board_html(
    kinds: Mapping[str, Sequence[ShownRun]],
    experiments: Sequence[ShownExperiment],
    generators: Sequence[tuple[Scorecard, str]] = (),
    *,
    runs: int,
    command: str,
) -> str:
    """The front page; `runs` is how many there are, and `command` rebuilds all pages.

    Load generators are given with the files of their scorecards.
    """
    sections = [
        (kind.replace(" ", "-"), title, [_race(one) for one in kinds[kind]])
        for kind, title in TITLES.items()
        if kinds.get(kind)
    ]
    return page.render(
        "board.html.j2",
        sheets=("report.css", "board.css"),
        figures=(),
        sections=sections,
        experiments=[_experiment(one) for one in experiments],
        generators=[(card, file, page.totals(card)) for card, file in generators],
        runs=runs,
        command=command,
    )


def _race(found: ShownRun) -> dict[str, object]:
    """The values of a run: heading, facts, cards, and targets whose card is elsewhere."""
    run, summary, load = found.shown.run, found.summary, found.summary.main_load
    points = [point for one in summary.arm_summaries for point in one.points]
    shown = [one.cost_ns.high for one in points if one.cost_ns and one.load == load]
    by_target: dict[str, list[ArmSummary]] = {}
    names = [arm.name for arm in summary.run.arms]
    for one in sorted(summary.arm_summaries, key=lambda known: names.index(known.arm.name)):
        if one.arm.name != summary.run.aa_control:
            by_target.setdefault(one.arm.target, []).append(one)
    longest = max(shown, default=0.0)
    cards = []
    for target in sorted(found.shown.targets, key=lambda name: _place(by_target[name], load)):
        arms = by_target.pop(target)
        version, about = arms[0].arm.version or "version not known", arms[0].arm.description
        cards.append(
            {
                "target": target,
                "file": target_file(target),
                "version": fmt.clean(version),
                "about": _first_sentence(fmt.clean(about)),
                "lines": [_line(one, summary, longest) for one in arms],
            }
        )
    other = [
        (one.arm.name, target_file(one.arm.target), _micro(point.cost_ns)[0], _rank(point))
        for arms in by_target.values()
        for one in arms
        if (point := _shown_point(one, load)) and point.load == load
    ]
    return {
        "id": report_file(run.row.run).removesuffix(".html"),
        "file": report_file(run.row.run),
        "day": run.row.started_utc[:DAY_LENGTH],
        "title": f"{run.row.workload_text}, {load.text}" if load else run.row.workload_text,
        "facts": _facts(run),
        "command": command_of(run),
        "cards": cards,
        "is_alone": len(cards) == 1,
        "other": sorted(other, key=lambda one: (int(one[3] or 0), one[0])),
        "again": [
            (report_file(one.row.run), one.row.started_utc[:DAY_LENGTH], one.row.workload_text)
            for one in found.shown.again[:AGAIN_MAX]
        ],
        "more": len(found.shown.again) - AGAIN_MAX,
    }


def command_of(run: IndexedRun) -> str:
    row = run.row
    return f"jissoku run {row.experiment}" if row.experiment else command_line(row.asked)


def _facts(run: IndexedRun) -> tuple[str, ...]:
    row = run.row
    use = f"for the targets, {row.generator_cores} for the load generator"
    use = "shared with the load generator" if row.shared else use
    return (
        row.machine_text,
        f"Linux {row.kernel}",
        f"{row.server_cores} {plural(row.server_cores, 'core')} {use}, {row.condition}",
        f"{row.method} trials, {row.blocks} {plural(row.blocks, 'block')}",
    )


def _place(arms: Sequence[ArmSummary], load: Load | None) -> tuple[bool, float, str]:
    """Targets without a cost at the load are last."""
    costs = [
        point.cost_ns.value for one in arms if (point := one.at(load)) is not None and point.cost_ns
    ]
    return not costs, min(costs, default=0.0), arms[0].arm.target


def _first_sentence(text: str) -> str:
    """Of a long one, what stands before its colon, or its first words."""
    plain = " ".join(text.replace("`", "").split())
    found = SENTENCE.match(plain)
    sentence = found[0] if found else plain
    if len(sentence) > SENTENCE_LENGTH and ": " in sentence[:SENTENCE_LENGTH]:
        return sentence.partition(":")[0] + "."
    if len(sentence) <= SENTENCE_LENGTH:
        return sentence
    return sentence[:SENTENCE_LENGTH].rpartition(" ")[0].rstrip(",;") + " \N{HORIZONTAL ELLIPSIS}"


def _shown_point(known: ArmSummary, load: Load | None) -> LoadPoint | None:
    """The figures at a load; of an arm that does not reach it, at its heaviest one with a cost."""
    costs = [one for one in known.points if one.cost_ns]
    return next((one for one in costs if one.load == load), costs[-1] if costs else None)


def _line(known: ArmSummary, summary: Summary, longest: float) -> dict[str, object]:
    """An arm's figures at one load, which is named if it is not that of the other cards.

    Figures beside the cost are (name, value, its interval or remark); the bar's ends are
    percentages of the longest one of the run.
    """
    point = _shown_point(known, summary.main_load)
    is_main = point is None or point.load == summary.main_load
    others = [one.at(point.load) for one in summary.arm_summaries] if point else []
    cost = point.cost_ns if point else None
    bar = None
    if cost and is_main:
        ends = {"value": cost.value, "low": cost.low, "high": cost.high}
        bar = {name: f"{100 * end / longest:.1f}" for name, end in ends.items()}
    return {
        "arm": fmt.clean(known.arm.name),
        "rank": _rank(point),
        "of": sum(one is not None and one.rank is not None for one in others),
        "load": "" if point is None or is_main else point.load.text,
        "bar": bar,
        "cost": _micro(cost)[0],
        "interval": _micro(cost)[1],
        "figures": list(_figures(known, point, summary)),
    }


def _rank(point: LoadPoint | None) -> str:
    return "" if point is None or point.rank is None else str(point.rank)


def _micro(cost: Estimate | None) -> tuple[str, str]:
    """CPU per request with its unit, and the interval; without a value, a dash."""
    value, _, interval = fmt.micro(cost).removesuffix(" s").partition(" ")
    if cost is None:
        return value, ""
    unit = "\N{MICRO SIGN}s" if cost.value < SECOND_NS else "s"
    return f"{value} {unit}", interval


def _figures(
    known: ArmSummary, point: LoadPoint | None, summary: Summary
) -> Iterator[tuple[str, str, str]]:
    if point is not None:
        if point.relative_cost is not None and known.arm.name != summary.unit:
            value, _, interval = point.relative_cost.text.partition(" ")
            yield f"vs {fmt.unit_name(summary)}", f"{value} {fmt.TIMES}", interval
        latency = tables.percentile(point, "p99")
        if latency != fmt.NOTHING:
            yield "p99 latency", latency, ""
    if known.capacity_rps:
        value, _, interval = fmt.interval(known.capacity_rps).partition(" ")
        yield "capacity (1/s)", value, interval
    if known.rate_rps:
        yield f"closed loop ({known.bottleneck})", fmt.rate(known.rate_rps.value), ""
    if known.rss_bytes:
        yield "memory", fmt.size(known.rss_bytes), ""


def _experiment(found: ShownExperiment) -> dict[str, object]:
    result = found.result
    counts = Counter(one.status for one in result.claims)
    header = result.header
    return {
        "file": found.file,
        "title": fmt.clean(header.experiment.title),
        "headline": experiment.headline(result),
        "answers": [(ANSWERS[one], counts[one]) for one in ANSWERS if counts[one]],
        "day": header.started_utc[:DAY_LENGTH],
        "machine": fmt.clean(header.machine.cpu_model),
        "command": f"jissoku run {header.experiment.name}",
        "workloads": join_names(header.workloads),
    }


def experiment_file(name: str, run: str) -> str:
    """The file of an experiment's report, which has the key of its first run."""
    return f"experiment-{Path(target_file(name)).stem.removeprefix('target-')}-{run[:8]}.html"
