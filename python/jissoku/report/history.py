"""Results across runs: as text, as boards, and as static pages."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise

from jissoku.errors import InputError
from jissoku.model import history
from jissoku.model.wording import capitalised, plural
from jissoku.report import page, plots
from jissoku.report.format import TIMES, Table, clean, filled, load_mark, times_mark
from jissoku.report.plots import Row
from jissoku.report.svg import Chart, even_labels, scale
from jissoku.request import ComparisonRequest, command_line

MINUS = "\N{MINUS SIGN}"
KEY_LENGTH = 8
DATE_LENGTH = 16


# Runs that were written to a folder of the user's choice are in no list by themselves.
ELSEWHERE = "Runs elsewhere (--out DIR/NAME): jissoku history --records DIR."


def runs_text(runs: Sequence[history.IndexedRun]) -> str:
    """A line for each run, the newest last, with its headline below it."""
    if not runs:
        return f"There are no runs. {ELSEWHERE}\n"
    lines = []
    for run in runs:
        row = run.row
        head = f"{day(row.started_utc)}  {row.run[:KEY_LENGTH]}  {row.verb:<8} {shown_arms(run)}"
        lines += [f"{head}  ({row.workload_text})", f"    {run.folder}"]
        if row.headline:
            lines.append(f"    {row.headline}")
        if run.unfinished:
            lines.append(f"    incomplete: {run.unfinished}")
    # The name of a folder may be no text.
    return "\n".join((*map(clean, lines), ELSEWHERE)) + "\n"


def shown_arms(run: history.IndexedRun) -> str:
    """The arms that a run is about, without floor and A/A control."""
    return ", ".join(arm.arm for arm in run.arms if not (arm.is_floor or arm.is_control))


def history_text(target: str, found: Sequence[history.Series]) -> str:
    if not found:
        return (
            f"No run compares {target} with an arm whose program is known: `jissoku compare"
            f" {target}` makes one, with the floor beside it.\n"
        )
    return filled(
        "series.txt.j2",
        found=found,
        load=load_mark,
        sentence=change_sentence,
        day=day,
        multiple=multiple,
        answer=answer_text,
        pooled=pooled_sentence,
        tau=tau_sentence,
    )


def machines_text(found: Sequence[history.MachineRatio]) -> str:
    if not found:
        return "The target was measured on one class of machines only.\n"
    lines = []
    for one in found:
        lines.append(f"{one.target} / {one.anchor}, {load_mark(one.load)}, {one.workload_text}")
        lines += [f"  {multiple(ratio)}  {machine}" for machine, ratio in one.rows]
        lines += [f"  {sentence}" for sentence in machines_sentences(one)]
    return "\n".join(lines) + "\n"


def machines_sentences(one: history.MachineRatio) -> tuple[str, str]:
    """Rule 7: on how many machines the same is shown, and what is expected of another one."""
    above = sum(ratio.low > 0 for _, ratio in one.rows)
    below = sum(ratio.high < 0 for _, ratio in one.rows)
    word, shown = ("more", above) if above >= below else ("less", below)
    count = len(one.rows)
    if one.next_machine is None:
        ahead = f"{count} machines: no statement about another one"
    else:
        low, high = math.exp(one.next_machine.next_low), math.exp(one.next_machine.next_high)
        ahead = f"another machine: {low:.2f} to {high:.2f} {TIMES} (95 %)"
    return f"{word} than {one.anchor} on {shown} of {count} machines", ahead


def difference_text(found: history.RunDifference) -> str:
    """Two runs side by side, or why they are not comparable and the command that compares them."""
    return filled(
        "difference.txt.j2",
        found=found,
        day=day,
        key_length=KEY_LENGTH,
        command=command_line,
        commands=list(map(command_line, confirming_requests(found))),
        sentence=change_sentence,
        tau=tau_sentence(found.tau),
    )


def confirming_requests(found: history.RunDifference) -> tuple[ComparisonRequest, ...]:
    """Comparisons that measure what two runs leave open; none if nothing is open.

    Arms whose two programs cannot be named apart are measured by the run of all arms of both.
    """
    if found.obstacles:
        return (found.race,)
    return tuple(
        dict.fromkeys(
            change.confirmation.request if change.confirmation else found.race
            for change in found.changes
            if change.is_suspected
        )
    )


def change_sentence(one: history.ArmChange) -> str:
    """As in `nginx 1.22.1 -> 1.26.3, 5,000/s: -3.0 % [-5.1, -0.9] through go: suspected; ...`."""
    before, after = one.versions
    versions = f" {before} -> {after}" if before != after else ""
    if before == after and not one.is_same:
        versions = " (another program of the same version)"
    several = " over {} and {} occasions".format(*one.occasions) if sum(one.occasions) > 2 else ""
    return (
        f"{one.arm}{versions}, {load_mark(one.load)}: {percent(one.change)} through"
        f" {', '.join(one.anchors)}{several}: {change_word(one)}; {control_text(one)}"
    )


def answer_text(change: history.ArmChange, again: ComparisonRequest) -> str:
    """The command that proves a suspicion, or why there is none; `again` adds an occasion."""
    if change.confirmation is not None:
        return f"to confirm: {command_line(change.confirmation.request)}"
    line = command_line(again)
    return f"{no_confirmation(change)}, and cannot be measured together; another occasion: {line}"


def no_confirmation(change: history.ArmChange) -> str:
    """Why no command measures both programs of a change; empty if one does."""
    if change.confirmation is not None:
        return ""
    return "the program is the same" if change.is_same else "the two programs have no other names"


def change_word(one: history.ArmChange) -> str:
    if one.control is history.Control.MOVED and not one.is_same:
        return "no verdict"
    if one.is_suspected:
        return f"a change{' of the same program' if one.is_same else ''} is suspected"
    return "the same program" if one.is_same else "no change shown"


def control_text(one: history.ArmChange) -> str:
    if one.control is history.Control.ABSENT or one.control_change is None:
        return "unchecked, without a second unchanged arm"
    moved = percent(one.control_change)
    if one.control is history.Control.MOVED:
        return f"unchanged arms moved by {moved}, so the runs differ in kind"
    return f"unchanged arms moved by at most {moved}, as chance allows"


def pooled_sentence(pooled: history.PooledRatio | None) -> str:
    if pooled is None:
        return (
            "One occasion of this program in these surroundings: another one, after a restart or on"
            " another day, shows how far it holds."
        )
    mean, low, high = _factors(pooled)
    next_low, next_high = math.exp(pooled.next_low), math.exp(pooled.next_high)
    said = "each says so" if pooled.is_confirmed else "not each of them shows a difference"
    return (
        f"{pooled.occasions} occasions: {mean:.3f} {TIMES} [{low:.3f}, {high:.3f}], {said};"
        f" another one lies between {next_low:.2f} and {next_high:.2f} {TIMES} (95 %)."
    )


def tau_sentence(tau: history.Tau) -> str:
    """The variation of a ratio between occasions without a change."""
    share = f"{100 * tau.value:.1f} %"
    if not tau.pairs:
        return f"Between occasions a ratio of unchanged arms is assumed to vary by {share}."
    pairs = f"{tau.pairs} {plural(tau.pairs, 'pair')}"
    return f"Between occasions a ratio of unchanged arms varies by {share} ({pairs})."


def percent(change: history.Change) -> str:
    """As in `+1.8 % [+1.2, +2.4]`."""
    mean, low, high = (100 * math.expm1(value) for value in (change.mean, change.low, change.high))
    return f"{mean:+.1f} % [{low:+.1f}, {high:+.1f}]".replace("-", MINUS)


def multiple(change: history.Change) -> str:
    """As in `1.310 x [1.282, 1.339]`."""
    mean, low, high = _factors(change)
    return f"{mean:.3f} {TIMES} [{low:.3f}, {high:.3f}]"


def _factors(change: history.Change | history.PooledRatio) -> tuple[float, float, float]:
    """Mean, low and high, which are logarithms, as factors."""
    return math.exp(change.mean), math.exp(change.low), math.exp(change.high)


def day(started_utc: str) -> str:
    return started_utc[:DATE_LENGTH].replace("T", " ")


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A suspected change in a series, between two neighbouring points."""

    series: history.Series
    before: history.SeriesPoint
    point: history.SeriesPoint
    change: history.ArmChange

    @property
    def key(self) -> str:
        """12 hexadecimal digits: the same as long as the records are, whatever comes later."""
        one = self.series
        facts = (one.target, one.arm, one.anchor, one.load.text, one.workload_text, one.machine)
        text = "\n".join((*facts, self.point.runs[0]))
        return sha256(text.encode()).hexdigest()[:12]

    @property
    def is_known(self) -> bool:
        return bool(self.point.breaks) or not self.change.is_same

    @property
    def cause(self) -> str:
        """The time of the change, and the known changes at that time."""
        between = f"between {day(self.before.started_utc)} and {day(self.point.started_utc)}"
        known = [] if self.change.is_same else ["the target's program"]
        return f"{between}: {'; '.join([*known, *self.point.breaks]) or 'no known cause'}"

    @property
    def answer(self) -> str:
        return answer_text(self.change, self.series.race)


def suspicions(found: Sequence[history.Series]) -> tuple[Suspicion, ...]:
    """Every suspected change, those with a known cause first, then by time."""
    every = [
        Suspicion(series, before, point, point.since)
        for series in found
        for before, point in pairwise(series.points)
        if point.since and point.since.is_suspected
    ]
    return tuple(sorted(every, key=lambda one: (not one.is_known, one.point.started_utc)))


def divided(
    found: Sequence[Suspicion], dismissed: Mapping[str, history.Dismissal]
) -> tuple[tuple[Suspicion, ...], tuple[tuple[Suspicion, history.Dismissal], ...]]:
    """Open suspicions, and dismissed ones, each with its reason."""
    return (
        tuple(one for one in found if one.key not in dismissed),
        tuple((one, dismissed[one.key]) for one in found if one.key in dismissed),
    )


def with_key(found: Sequence[Suspicion], key: str) -> Suspicion:
    """The suspicion of a key; an InputError if there is none."""
    for one in found:
        if one.key == key:
            return one
    raise InputError(f"no suspected change has the key {key!r}: jissoku history --changes")


def suspicion_text(one: Suspicion) -> str:
    """The change, its known causes, the command that would confirm it, and its key."""
    dismiss = f"to dismiss: jissoku history --dismiss {one.key} --reason TEXT"
    return f"{change_sentence(one.change)}\n    {one.cause}\n    {one.answer}\n    {dismiss}"


def dismissed_text(one: Suspicion, dismissed: history.Dismissal) -> str:
    sentence = change_sentence(one.change)
    return f"Dismissed: {sentence}\n    {day(dismissed.dismissed_utc)}: {dismissed.reason}"


BOARDS_LEAD = (
    "CPU time per request as a multiple of an arm that stays the same. Each table is one question:"
    " workload, rate, class of machine and anchor are the same in all its rows, and different in"
    " every other table."
)

BOARD_HEADER = ("target", "multiple, newest occasion", "version", "occasions", "newest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Targets of one question, the lowest multiple first; its title is unique.

    The order is no ranking, because only a run of both shows whether two rows differ.
    """

    title: str
    series: tuple[history.Series, ...]

    @property
    def is_of_one_target(self) -> bool:
        return len(self.series) == 1

    @property
    def table(self) -> Table:
        newest = [(one, one.points[-1], str(len(one.points))) for one in self.series]
        rows = (
            (one.arm, multiple(last.ratio), last.version, count, day(last.started_utc))
            for one, last, count in newest
        )
        return Table(header=BOARD_HEADER, rows=tuple(rows))


def boards(series: Sequence[history.Series]) -> tuple[Board, ...]:
    """A board for each question, those with most targets first."""
    found: dict[tuple[str, int | None], list[history.Series]] = defaultdict(list)
    for one in series:
        found[one.question, one.load.rate_rps].append(one)
    groups = [
        tuple(sorted(group, key=lambda one: one.points[-1].ratio.mean)) for group in found.values()
    ]
    titles = _titles([group[0] for group in groups])
    every = [Board(title=t, series=group) for t, group in zip(titles, groups, strict=True)]
    return tuple(sorted(every, key=lambda one: (-len(one.series), one.title)))


def _titles(firsts: Sequence[history.Series]) -> list[str]:
    """A title for each question; those that would be equal say more, and are numbered at last."""
    titles = [
        f"{one.workload_text}, {load_mark(one.load)}, multiple of {one.anchor} ({one.machine_text})"
        for one in firsts
    ]
    counts = Counter(titles)
    titles = [
        f"{title}, {one.anchor_version}, {one.method} trials" if counts[title] > 1 else title
        for title, one in zip(titles, firsts, strict=True)
    ]
    counts, seen = Counter(titles), Counter[str]()
    numbered = []
    for title in titles:
        seen[title] += 1
        numbered.append(f"{title}, {seen[title]}" if counts[title] > 1 else title)
    return numbered


# Longer series are shown by their newest points.
POINTS_MAX = 60

# Changes of the surroundings in a sentence.
BREAKS_MAX = 3


def runs_html(
    runs: Sequence[history.IndexedRun], series: Sequence[history.Series], command: str
) -> str:
    """What may be said across runs, and all of them, newest first; `command` rebuilds the pages."""
    return page.render(
        "history.html.j2",
        figures=(),
        heading="Runs and targets",
        lead=BOARDS_LEAD,
        links=[
            ("The board", "index.html"),
            *((name, target_file(name)) for name in sorted({one.target for one in series})),
        ],
        parts=[(one.title, one.table) for one in boards(series)],
        changes=[_suspicion(one) for one in suspicions(series)],
        runs=_runs(runs),
        command=command,
    )


def target_html(
    target: str, series: Sequence[history.Series], runs: Sequence[history.IndexedRun], command: str
) -> str:
    """A target's page: a chart for each series, the results across runs, and its runs."""
    figures = [series_figure(one, number) for number, one in enumerate(series)]
    return page.render(
        "history.html.j2",
        figures=tuple(figures),
        heading=target,
        lead=(
            "Each row is an occasion: runs of one boot without a long pause. A change between two"
            " occasions is a suspicion at most; the command below it measures both together."
        ),
        links=[("The board", "index.html"), ("All runs", "runs.html")],
        sections=list(zip(figures, map(series_sentences, series), strict=True)),
        runs=_runs(runs),
        command=command,
    )


def target_file(target: str) -> str:
    """The file of a target's page; a name that is not a valid file name is hashed."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", target)
    suffix = "" if plain == target else "-" + sha256(target.encode()).hexdigest()[:8]
    return f"target-{plain}{suffix}.html"


def report_file(run: str) -> str:
    return f"run-{run[:16]}.html"


def series_figure(one: history.Series, number: int) -> Chart:
    """A row for each occasion; `number` distinguishes figures of a page."""
    points = one.points[-POINTS_MAX:]
    factors = [_factors(point.ratio) for point in points]
    axis = even_labels(scale([end for _, *ends in factors for end in ends], times_mark))
    rows = [
        Row(
            name=f"{day(point.started_utc)} {point.version}",
            label=multiple(point.ratio),
            marks=plots.dot(axis, *factor),
            style="c0",
            tooltip=f"{point.version}: {multiple(point.ratio)}",
            since="; ".join(point.breaks),
        )
        for point, factor in zip(points, factors, strict=True)
    ]
    is_broken = any(point.breaks for point in points[1:])
    heading = plots.heading(
        "series",
        arm=one.arm,
        anchor=one.anchor,
        load=load_mark(one.load),
        workload=one.workload_text,
        machine=one.machine_text,
        breaks=" A dotted line: something besides the target changed." if is_broken else "",
    )
    numbers = Table(
        header=("occasion", "version", "multiple", "runs", "changed besides the target"),
        rows=tuple(map(_occasion_row, points)),
    )
    return plots.row_chart(heading._replace(name=f"series-{number}"), rows, axis, numbers)


def _occasion_row(point: history.SeriesPoint) -> tuple[str, ...]:
    keys = ", ".join(key[:KEY_LENGTH] for key in point.runs)
    changed = "; ".join(point.breaks) or "-"
    return (day(point.started_utc), point.version, multiple(point.ratio), keys, changed)


def series_sentences(one: history.Series) -> list[str]:
    """Suspected changes with known causes, tested changes, and pooled results."""
    tested = [point.since for point in one.points if point.since]
    return [
        *(sentence for found in suspicions([one]) for sentence in _suspicion(found)),
        *(f"{change_sentence(since)}." for since in tested if not since.is_suspected),
        *_breaks(one),
        pooled_sentence(one.pooled),
        tau_sentence(one.tau),
    ]


def _breaks(one: history.Series) -> list[str]:
    """Rule 8: what else changed, the newest ones."""
    points = [point for point in one.points if point.breaks]
    if not points:
        return []
    listed = [
        f"{'; '.join(point.breaks)} ({day(point.started_utc)})" for point in points[-BREAKS_MAX:]
    ]
    earlier = f", and {len(points) - BREAKS_MAX} more before" if len(points) > BREAKS_MAX else ""
    return [f"Changed besides the target: {', '.join(listed)}{earlier}."]


def _suspicion(one: Suspicion) -> tuple[str, str]:
    return f"{change_sentence(one.change)}; {one.cause}.", capitalised(one.answer)


def _runs(runs: Sequence[history.IndexedRun]) -> list[tuple[str, str, str, str, str]]:
    """(date, file of the report, key, arms, headline), newest first."""
    return [
        (
            day(run.row.started_utc),
            report_file(run.row.run),
            run.row.run[:KEY_LENGTH],
            shown_arms(run),
            f"{run.row.headline} {f'Incomplete: {run.unfinished}.' if run.unfinished else ''}",
        )
        for run in reversed(runs)
    ]
