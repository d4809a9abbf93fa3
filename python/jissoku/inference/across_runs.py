"""Comparisons across two runs, their limits, and the occasions that runs belong to.

Cost across runs is compared only relative to arms that are the same program in both: differences
between the runs affect these, too, and cancel in the ratio. The rules are numbered as in
docs/history.md.
"""

import datetime as dt
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, combinations, pairwise
from operator import attrgetter, itemgetter
from typing import NamedTuple

import msgspec

from jissoku.inference.pooling import LogRatio, log_ratio, pair_ratio, tau_of_unchanged
from jissoku.model import Load, Origin
from jissoku.model.history import (
    ArmChange,
    ArmRow,
    Confirmation,
    Control,
    IndexedRun,
    MachineDay,
    RunDifference,
    RunRow,
    Tau,
)
from jissoku.model.run import short_version
from jissoku.model.updated import updated
from jissoku.request import ComparisonRequest

# Of a run, beside its arms.
SURROUNDINGS = ("machine_label", "kernel", "governor", "turbo", "clocksource", "jissoku")
_of_row = attrgetter(*SURROUNDINGS)

# Significance level of a change at a known boundary, such as a change of version.
SUSPICION_ALPHA = 0.01

# Significance level of a change of unchanged arms.
CONTROL_ALPHA = 0.05


def obstacles(first: IndexedRun, second: IndexedRun) -> tuple[str, ...]:
    """Rule 1: why two runs are not comparable, a clause each; empty if they are."""
    return tuple(_obstacles(first, second))


def _obstacles(first: IndexedRun, second: IndexedRun) -> Iterator[str]:
    one, two = first.row, second.row
    if one.workload != two.workload:
        yield f"the workloads differ: {one.workload_text} and {two.workload_text}"
    if one.machine != two.machine:
        yield f"the machines differ: {one.machine_text} and {two.machine_text}"
    if (one.server_cores, one.generator_cores, one.shared) != (
        two.server_cores,
        two.generator_cores,
        two.shared,
    ):
        yield f"the cores differ: {_cores(first)} and {_cores(second)}"
    if one.method != two.method:
        yield f"the methods differ: {one.method} and {two.method} trials"
    if one.condition != two.condition:
        yield f"the conditions differ: {one.condition} and {two.condition} cores"
    if not common_loads(first, second):
        yield "they have no load in common"


def _cores(run: IndexedRun) -> str:
    row = run.row
    if row.shared:
        return f"{row.server_cores} shared by server and load generator"
    return f"{row.server_cores} for the server, {row.generator_cores} for the load generator"


def common_loads(first: IndexedRun, second: IndexedRun) -> tuple[Load, ...]:
    """Loads of both runs, by rate, the lightest first. Their names are the second run's."""
    rates = {load.rate_rps for load in first.loads}
    common = [load for load in second.loads if load.rate_rps in rates]
    return tuple(sorted(common, key=lambda load: load.rate_rps or math.inf))


def breaks(first: IndexedRun, second: IndexedRun) -> tuple[str, ...]:
    """Rule 8: changes other than those of the arms; points on both sides are never joined."""
    pairs = zip(SURROUNDINGS, surroundings(first), surroundings(second), strict=True)
    return tuple(
        f"{name.removesuffix('_label')} {_bare(name, before)} -> {_bare(name, after)}"
        for name, before, after in pairs
        if before != after
    )


def surroundings(run: IndexedRun) -> tuple[str, ...]:
    """What the cost of an arm depends on besides programs and the class of the machine."""
    found: tuple[str, ...] = _of_row(run.row)
    return found


def _bare(name: str, value: str) -> str:
    """A version without the program's name at its beginning."""
    return value.removeprefix(f"{name} ") or "unknown"


def unchanged_arms(first: IndexedRun, second: IndexedRun) -> tuple[tuple[str, str], ...]:
    """Arms that are the same program in both runs: (name in the first, name in the second).

    Without A/A controls, which are copies of the baseline.
    """
    known = {arm.program: arm.arm for arm in first.arms if arm.program and not arm.is_control}
    return tuple(
        (known[arm.program], arm.arm)
        for arm in second.arms
        if arm.program in known and not arm.is_control
    )


def difference(
    first: IndexedRun, second: IndexedRun, names: tuple[str, str], load: Load, tau: Tau
) -> ArmChange | None:
    """Rule 2: the change of an arm's cost from one run to another, relative to unchanged arms.

    Args:
        first: The earlier run.
        second: The later run.
        names: The arm's name in each.
        load: A load of both runs.
        tau: Of this class of machines.

    Returns:
        None if no unchanged arm was measured with it at this load in both runs.
    """
    anchors = [
        pair
        for pair in unchanged_arms(first, second)
        if names[0] != pair[0]
        and names[1] != pair[1]
        and _met(first, load, names[0], pair[0])
        and _met(second, load, names[1], pair[1])
    ]
    ours = _against(first, load, names[0], [pair[0] for pair in anchors])
    theirs = _against(second, load, names[1], [pair[1] for pair in anchors])
    arms = first.arm(names[0]), second.arm(names[1])
    if ours is None or theirs is None or None in arms:
        return None
    control, moved = _control(first, second, anchors, load, tau)
    found = changed(ours, theirs, tau, len(anchors)).change
    before, after = (arm for arm in arms if arm is not None)
    is_same = before.program == after.program != ""
    is_sure = control is not Control.MOVED and found.p_value <= SUSPICION_ALPHA
    return ArmChange(
        arm=names[1],
        load=load,
        versions=(before.version, after.version),
        change=found,
        anchors=tuple(pair[1] for pair in anchors),
        control=control,
        control_change=moved.change if moved else None,
        is_same=is_same,
        is_suspected=is_sure and not is_same,
    )


def changed(first: LogRatio, second: LogRatio, tau: Tau, anchors: int = 1) -> LogRatio:
    """The change of a log ratio, widened by the variation of unchanged arms between occasions.

    tau^2 is the variance of a ratio, half of it each arm's; the mean over several anchors has the
    arm's half once and the anchors' halves averaged. Degrees of freedom by Welch and Satterthwaite.
    """
    between = tau.value**2 * (1 + 1 / anchors)  # Half of it in each of two runs, twice.
    parts = [
        (first.variance, first.freedom),
        (second.variance, second.freedom),
        (between, tau.freedom),
    ]
    variance = sum(part for part, _ in parts)
    spread = sum(part**2 / freedom for part, freedom in parts)
    freedom = variance**2 / spread if spread > 0 else math.inf
    return LogRatio(second.mean - first.mean, variance, freedom)


def unchanged_differences(
    first: IndexedRun, second: IndexedRun, load: Load
) -> tuple[LogRatio, ...]:
    """Changes of unchanged pairs, with the variance of their measurement only (for rule 4).

    Helmert contrasts: each arm against the mean of those before it, scaled to the variance of a
    pair. Arms vary independently of each other, so the contrasts do, too; pairs with one arm in
    common would not.
    """
    found, names = [], list[tuple[str, str]]()
    for pair in unchanged_arms(first, second):
        candidates = [*names, pair]
        before, after = (
            _contrast(run, load, [one[place] for one in candidates])
            for place, run in enumerate((first, second))
        )
        if before is not None and after is not None:
            found.append(changed(before, after, Tau(value=0.0, pairs=0)))
        if not names or (before is not None and after is not None):
            names.append(pair)
    return tuple(found)


def _contrast(run: IndexedRun, load: Load, arms: Sequence[str]) -> LogRatio | None:
    """The last arm's log cost less the mean of the others', scaled to the variance of a pair.

    The weights sum to 0, so the variance follows from those of the pairs: it is the sum of
    -weight_i weight_j variance_ij over all pairs.

    Returns:
        None with one arm, or if two arms have no common trials.
    """
    others = len(arms) - 1
    if others < 1:
        return None
    scale = math.sqrt(2 / (1 + 1 / others))
    weights = [-scale / others] * others + [scale]
    pairs = {
        (i, j): pair_ratio(run, load, arms[i], arms[j])
        for i, j in combinations(range(len(arms)), 2)
    }
    known = {key: value for key, value in pairs.items() if value is not None}
    if len(known) < len(pairs):
        return None
    return LogRatio(
        mean=sum(weights[i] * known[i, others].mean for i in range(others)),
        variance=max(
            0.0, sum(-weights[i] * weights[j] * one.variance for (i, j), one in known.items())
        ),
        freedom=min(one.freedom for one in known.values()),
    )


def _met(run: IndexedRun, load: Load, arm: str, other: str) -> bool:
    return len(run.ratios(load, arm, other)) >= 2


def _against(run: IndexedRun, load: Load, arm: str, anchors: Sequence[str]) -> LogRatio | None:
    """ln(cost / geometric mean of the anchors' costs), block by block.

    Taken block by block, the anchors' common part is counted once.
    """
    if not anchors:
        return None
    sides = [run.ratios(load, arm, anchor) for anchor in anchors]
    blocks = set.intersection(*(set(side) for side in sides))
    return log_ratio([sum(side[block] for side in sides) / len(sides) for block in sorted(blocks)])


def _control(
    first: IndexedRun,
    second: IndexedRun,
    anchors: Sequence[tuple[str, str]],
    load: Load,
    tau: Tau,
) -> tuple[Control, LogRatio | None]:
    """Rule 3: whether the change of a second unchanged pair is within its interval.

    With several pairs the level is divided by their number (Bonferroni).
    """
    found: list[LogRatio] = []
    for pair in anchors[1:]:
        before = pair_ratio(first, load, pair[0], anchors[0][0])
        after = pair_ratio(second, load, pair[1], anchors[0][1])
        if before is not None and after is not None:
            found.append(changed(before, after, tau))
    if not found:
        return Control.ABSENT, None
    most = min(found, key=lambda one: one.change.p_value)
    has_moved = most.change.p_value < CONTROL_ALPHA / len(found)
    return (Control.MOVED if has_moved else Control.UNMOVED), most


# A longer pause begins another occasion, even without a reboot.
PAUSE = dt.timedelta(hours=6)

Occasion = tuple[IndexedRun, ...]


def occasions(runs: Iterable[IndexedRun]) -> tuple[Occasion, ...]:
    """Groups of runs of one machine class and boot without a long pause, earliest first.

    Without runs that ended early: their values may have been why.
    """
    # Of many runs, times are parsed once each.
    whole = (run for run in runs if not run.unfinished)
    timed = sorted(
        ((run.row.machine, started(run), run.row.run, run) for run in whole),
        key=itemgetter(0, 1, 2),
    )
    found: list[list[IndexedRun]] = []
    ends: list[dt.datetime] = []
    for _, start, _, run in timed:
        if found and _is_same(found[-1][-1], run) and start - ends[-1] <= PAUSE:
            found[-1].append(run)
            ends[-1] = start
        else:
            found.append([run])
            ends.append(start)
    return tuple(sorted(map(tuple, found), key=lambda group: started(group[0])))


def started(run: IndexedRun) -> dt.datetime:
    """The start of a run; the earliest possible time if the record has none."""
    try:
        found = dt.datetime.fromisoformat(run.row.started_utc)
    except ValueError:
        return dt.datetime.min.replace(tzinfo=dt.UTC)
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def first_of_occasions(found: Iterable[Occasion]) -> tuple[tuple[IndexedRun, ...], ...]:
    """Comparable runs, one of each occasion, because runs of one occasion are not independent.

    The choice does not depend on the measured values.
    """
    comparable: dict[tuple[object, ...], list[IndexedRun]] = defaultdict(list)
    for occasion in found:
        seen: set[tuple[object, ...]] = set()
        for run in occasion:
            key = comparison_key(run)
            if key not in seen:
                seen.add(key)
                comparable[key].append(run)
    return tuple(map(tuple, comparable.values()))


def observed_tau(runs: Iterable[IndexedRun]) -> Tau:
    """Rule 4: from unchanged pairs between neighbouring occasions of comparable runs."""
    return tau_of_neighbours(first_of_occasions(occasions(runs)))


def tau_of_neighbours(comparable: Iterable[Sequence[IndexedRun]]) -> Tau:
    """The same from what `first_of_occasions` gives."""
    differences: list[LogRatio] = []
    freedom = 0.0
    for group in comparable:
        found = [
            changes
            for before, after in pairwise(group)
            for load in common_loads(before, after)[-1:]
            if (changes := unchanged_differences(before, after, load))
        ]
        together = list(chain.from_iterable(found))
        differences += together
        if found:
            freedom += len(together) * _share_of_neighbours(len(found))
    return tau_of_unchanged(differences, freedom)


def _share_of_neighbours(count: int) -> float:
    """Degrees of freedom per difference of neighbours in a row of `count` differences.

    Neighbouring differences share an occasion, so their correlation is -1/2. The sum of squares of
    n of them has the variance of 2 n^2 / (3 n - 1) independent squares (von Neumann, 1941).
    """
    return 2 * count / (3 * count - 1)


def comparison_key(run: IndexedRun) -> tuple[object, ...]:
    """Runs with equal keys are comparable at the loads that they share (rule 1)."""
    row = run.row
    cores = (row.server_cores, row.generator_cores, row.shared)
    return (row.machine, row.workload, cores, row.method, row.condition)


def _is_same(before: IndexedRun, after: IndexedRun) -> bool:
    return (
        before.row.machine == after.row.machine
        and before.row.boot == after.row.boot
        and before.row.kernel == after.row.kernel  # Older records name no boot.
    )


DAY_LENGTH = len("2026-11-23")


def machine_days(
    runs: Sequence[RunRow], rejections: Sequence[tuple[str, str, int]]
) -> Iterator[MachineDay]:
    """Each day and class of machines that has a run, earliest first.

    Args:
        runs: All, earliest first.
        rejections: Key of a run, name of a check, and how many of the run's trials it rejected.
    """
    by_day: dict[tuple[str, str], list[RunRow]] = defaultdict(list)
    for row in runs:
        by_day[row.started_utc[:DAY_LENGTH], row.machine].append(row)
    by_run: dict[str, Counter[str]] = defaultdict(Counter)
    for run, check, count in rejections:
        by_run[run][check] += count
    for (day, machine), rows in by_day.items():
        checks = sum((by_run[row.run] for row in rows), Counter[str]())
        yield MachineDay(
            machine=machine,
            machine_text=rows[-1].machine_text,
            day=day,
            runs=len(rows),
            trials=sum(row.trials for row in rows),
            rejected=sum(row.trials_rejected for row in rows),
            checks=dict(sorted(checks.items(), key=lambda one: (-one[1], one[0]))),
            noise_floor=latest_noise_floor(rows),
        )


def latest_noise_floor(rows: Sequence[RunRow]) -> float | None:
    """That of the last run, of those that are earliest first, for which one was known."""
    known = [row.noise_floor for row in rows if row.noise_floor is not None]
    return known[-1] if known else None


# Fields of a request that name arms.
KINDS = ("arms", "cmd", "url")


def run_difference(first: IndexedRun, second: IndexedRun, tau: Tau) -> RunDifference:
    """All arms of two runs by the rules of docs/history.md.

    Args:
        first: The earlier run.
        second: The later one.
        tau: Of their class of machines.
    """
    reasons = list(obstacles(first, second))
    unchanged = unchanged_arms(first, second)
    if not unchanged:
        reasons.append("no arm is the same program in both")
    pairs = _named_alike(first, second)
    changes = [
        _with_confirmation(change, first, second)
        for load in common_loads(first, second)
        for pair in pairs
        if not reasons and (change := difference(first, second, pair, load, tau))
    ]
    if not (reasons or changes):
        reasons.append("no arm met an unchanged one at a common load in both")
    names = [{arm.arm for arm in run.arms} for run in (first, second)]
    return RunDifference(
        runs=(first.row, second.row),
        folders=(first.folder, second.folder),
        obstacles=tuple(reasons),
        breaks=breaks(first, second),
        unchanged=tuple(pair[1] for pair in unchanged),
        only=(tuple(sorted(names[0] - names[1])), tuple(sorted(names[1] - names[0]))),
        changes=tuple(changes),
        tau=tau,
        race=race([first, second]),
        loads=(first.loads, second.loads),
        unfinished=(first.unfinished, second.unfinished),
    )


def race(runs: Sequence[IndexedRun], targets: Iterable[str] = ()) -> ComparisonRequest:
    """Measures arms of several runs together, asked as the last run was, without its bounds."""
    wanted = set(targets)
    arms: dict[str, _Word] = {}
    for run in runs:
        given = _given(run)
        arms |= {
            arm.arm: given.get(arm.arm) or _Word("arms", _recipe_word(arm))
            for arm in run.arms
            if not (arm.is_floor or arm.is_control) and (not wanted or arm.target in wanted)
        }
    return _asked(runs[-1], arms.values())


def _with_confirmation(change: ArmChange, first: IndexedRun, second: IndexedRun) -> ArmChange:
    if not change.is_suspected:
        return change
    return updated(change, confirmation=confirmation(first, second, change.arm))


def confirmation(earlier: IndexedRun, later: IndexedRun, name: str) -> Confirmation | None:
    """The run of both programs of an arm that changed.

    A recipe's target is named with its versions; a command is compared with itself at the earlier
    run's commit, where both runs have the label `commit`.
    """
    before, after = earlier.arm(name), later.arm(name)
    if before is None or after is None or before.program == after.program:
        return None
    if after.origin == Origin.RECIPE:
        versions = short_version(before.version), short_version(after.version)
        if versions[0] == versions[1]:
            return None
        arms = f"{name}-{versions[0]}", f"{name}-{versions[1]}"
        pairs = zip(arms, versions, strict=True)
        words = [_Word("arms", f"{arm}={after.target}@{version}") for arm, version in pairs]
        return Confirmation(request=_asked(later, words), arms=arms)
    commits = [msgspec.json.decode(one.row.labels).get("commit") for one in (earlier, later)]
    if after.origin == Origin.COMMAND and None not in commits and commits[0] != commits[1]:
        found = _given(later).get(name) or _Word("cmd", f"{name}=COMMAND")
        command = found.text.partition("=")[2]
        request = updated(
            _asked(later, [_Word("cmd", f"head={command}")]),
            baseline=commits[0],
            build=later.row.asked.build,
        )
        return Confirmation(request=request, arms=("base", "head"))
    return None


class _Word(NamedTuple):
    """An arm as it is given: a field of a request, and its text."""

    field: str
    text: str


def _given(run: IndexedRun) -> dict[str, _Word]:
    """The arms that a run was asked for by name, by the name that they have in it."""
    found = {}
    for field in KINDS:
        for text in getattr(run.row.asked, field):
            name, equals, _ = text.partition("=")
            # `granian@2.7.1` is the arm granian-2.7.1.
            found[name if equals else text.replace("@", "-")] = _Word(field, text)
    return found


def _recipe_word(arm: ArmRow) -> str:
    return arm.arm if arm.arm == arm.target else f"{arm.arm}={arm.target}"


def _asked(run: IndexedRun, words: Collection[_Word]) -> ComparisonRequest:
    """What a run was asked, of other arms, without what was asked about its own."""
    arms, cmd, url = (tuple(one.text for one in words if one.field == field) for field in KINDS)
    return updated(
        run.row.asked,
        arms=arms,
        cmd=cmd,
        url=url,
        group="",
        label=(),
        baseline=None,
        build="",
        fail_if=(),
        confirm=False,
        profile=False,
    )


def _named_alike(first: IndexedRun, second: IndexedRun) -> tuple[tuple[str, str], ...]:
    known = {arm.arm for arm in first.arms if not arm.is_control}
    return tuple(
        (arm.arm, arm.arm) for arm in second.arms if arm.arm in known and not arm.is_control
    )
