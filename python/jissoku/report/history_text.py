"""Results across runs as text for a terminal or a file, and the tables of the static pages."""

import math
from collections.abc import Iterator, Sequence

from jissoku.model.history import IndexedRun
from jissoku.model.history_answer import (
    ArmChange,
    Change,
    Control,
    MachineRatio,
    PooledRatio,
    RunDifference,
    Series,
    Tau,
)
from jissoku.model.wording import plural
from jissoku.report.format import TIMES, load_mark
from jissoku.report.sanitize import clean
from jissoku.request import ComparisonRequest, command_line

MINUS = "\N{MINUS SIGN}"
KEY_LENGTH = 8
DATE_LENGTH = 16


def runs_text(runs: Sequence[IndexedRun]) -> str:
    """A line for each run, the newest last, with its headline below it."""
    lines = []
    for run in runs:
        row = run.row
        arms = ", ".join(arm.arm for arm in run.arms if not (arm.is_floor or arm.is_control))
        head = f"{day(row.started_utc)}  {row.run[:KEY_LENGTH]}  {row.verb:<8} {arms}"
        lines.append(f"{head}  ({row.workload_text})")
        lines.append(f"    {run.folder}")
        if row.headline:
            lines.append(f"    {row.headline}")
        if run.unfinished:
            lines.append(f"    incomplete: {run.unfinished}")
    # The name of a folder may be no text.
    return "\n".join(map(clean, lines)) + "\n"


def history_text(target: str, found: Sequence[Series]) -> str:
    if not found:
        return (
            f"No run compares {target} with an arm whose program is known: `jissoku compare"
            f" {target}` makes one, with the floor beside it.\n"
        )
    return "\n".join("\n".join(_series(one)) + "\n" for one in found)


def machines_text(found: Sequence[MachineRatio]) -> str:
    """A row for each class of machines."""
    if not found:
        return "The target was measured on one class of machines only.\n"
    lines = []
    for one in found:
        lines.append(f"{one.target} / {one.anchor}, {load_mark(one.load)}, {one.workload_text}")
        lines += [f"  {multiple(ratio)}  {machine}" for machine, ratio in one.rows]
        lines += [f"  {sentence}" for sentence in machines_sentences(one)]
    return "\n".join(lines) + "\n"


def machines_sentences(one: MachineRatio) -> tuple[str, str]:
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


def difference_text(found: RunDifference) -> str:
    """Two runs side by side, or why they are not comparable and the command that compares them."""
    return "\n".join(_difference(found)) + "\n"


def _series(one: Series) -> Iterator[str]:
    yield (
        f"{one.arm} / {one.anchor}: CPU time per request, {load_mark(one.load)},"
        f" {one.workload_text}, {one.machine_text}"
    )
    width = max(len(point.version) for point in one.points)
    for point in one.points:
        if point.since:
            yield f"    {change_sentence(point.since)}"
        if point.breaks:
            yield f"    -- {'; '.join(point.breaks)} --"
        count = len(point.runs)
        runs = f"{count} run{'s' if count > 1 else ''}"
        version = f"{point.version:<{width}}"
        yield f"  {day(point.started_utc)}  {version}  {multiple(point.ratio)}  {runs}"
        if point.since and point.since.is_suspected:
            yield f"    {answer_text(point.since, one.race)}"
    yield f"  {pooled_sentence(one.pooled)}"
    yield f"  {tau_sentence(one.tau)}"


def _difference(found: RunDifference) -> Iterator[str]:
    pair = zip(("Earlier", "Later"), found.runs, found.folders, found.unfinished, strict=True)
    for which, row, folder, unfinished in pair:
        yield f"{which}: {day(row.started_utc)}  {row.run[:KEY_LENGTH]}  {clean(folder)}"
        yield f"  {row.workload_text}; {row.machine_text}; {row.method} trials"
        if unfinished:
            yield f"  incomplete: {clean(unfinished)}"
    if found.breaks:
        yield f"Changed besides the targets: {'; '.join(found.breaks)}."
    for which, names in zip(("earlier", "later"), found.only, strict=True):
        if names:
            yield f"Only in the {which} run: {', '.join(names)}."
    if found.obstacles:
        yield f"Not comparable: {'; '.join(found.obstacles)}."
        yield f"This command compares them: {command_line(found.race)}"
        return
    yield f"The same program in both: {', '.join(found.unchanged)}."
    for change in sorted(found.changes, key=lambda one: one.is_same):
        yield f"  {change_sentence(change)}"
    yield tau_sentence(found.tau)
    if requests := confirming_requests(found):
        yield f"A suspicion is proven by a run of both: {'; '.join(map(command_line, requests))}"


def confirming_requests(found: RunDifference) -> tuple[ComparisonRequest, ...]:
    """Comparisons that measure what two runs leave open; none if nothing is open.

    Arms whose two programs cannot be named apart are measured by the run of all arms of both.
    """
    if found.obstacles:
        return (found.race,)
    suspected = [change for change in found.changes if change.is_suspected]
    requests = [
        change.confirmation.request if change.confirmation else found.race for change in suspected
    ]
    return tuple(dict.fromkeys(requests))


def change_sentence(one: ArmChange) -> str:
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


def answer_text(change: ArmChange, again: ComparisonRequest) -> str:
    """The command that proves a suspicion, or why there is none; `again` adds an occasion."""
    if change.confirmation is not None:
        return f"to confirm: {command_line(change.confirmation.request)}"
    line = command_line(again)
    return f"{no_confirmation(change)}, and cannot be measured together; another occasion: {line}"


def no_confirmation(change: ArmChange) -> str:
    """Why no command measures both programs of a change; empty if one does."""
    if change.confirmation is not None:
        return ""
    return "the program is the same" if change.is_same else "the two programs have no other names"


def change_word(one: ArmChange) -> str:
    if one.control is Control.MOVED and not one.is_same:
        return "no verdict"
    if one.is_suspected:
        return f"a change{' of the same program' if one.is_same else ''} is suspected"
    return "the same program" if one.is_same else "no change shown"


def control_text(one: ArmChange) -> str:
    if one.control is Control.ABSENT or one.control_change is None:
        return "unchecked, without a second unchanged arm"
    moved = percent(one.control_change)
    if one.control is Control.MOVED:
        return f"unchanged arms moved by {moved}, so the runs differ in kind"
    return f"unchanged arms moved by at most {moved}, as chance allows"


def pooled_sentence(pooled: PooledRatio | None) -> str:
    """The pooled result of all occasions of the newest version."""
    if pooled is None:
        return (
            "One occasion of this program in these surroundings: another one, after a restart or on"
            " another day, shows how far it holds."
        )
    mean, low, high, next_low, next_high = (
        math.exp(value)
        for value in (pooled.mean, pooled.low, pooled.high, pooled.next_low, pooled.next_high)
    )
    said = "each says so" if pooled.is_confirmed else "not each of them shows a difference"
    return (
        f"{pooled.occasions} occasions: {mean:.3f} {TIMES} [{low:.3f}, {high:.3f}], {said};"
        f" another one lies between {next_low:.2f} and {next_high:.2f} {TIMES} (95 %)."
    )


def tau_sentence(tau: Tau) -> str:
    """The variation of a ratio between occasions without a change."""
    share = f"{100 * tau.value:.1f} %"
    if tau.pairs:
        return (
            f"Between occasions a ratio of unchanged arms varies by {share} ({tau.pairs}"
            f" {plural(tau.pairs, 'pair')})."
        )
    return f"Between occasions a ratio of unchanged arms is assumed to vary by {share}."


def percent(change: Change) -> str:
    """As in `+1.8 % [+1.2, +2.4]`."""
    mean, low, high = (100 * math.expm1(value) for value in (change.mean, change.low, change.high))
    return f"{mean:+.1f} % [{low:+.1f}, {high:+.1f}]".replace("-", MINUS)


def multiple(change: Change) -> str:
    """As in `1.310 x [1.282, 1.339]`."""
    mean, low, high = (math.exp(value) for value in (change.mean, change.low, change.high))
    return f"{mean:.3f} {TIMES} [{low:.3f}, {high:.3f}]"


def day(started_utc: str) -> str:
    """Date and time to the minute."""
    return started_utc[:DATE_LENGTH].replace("T", " ")
