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

from jissoku.inference.pooling import (
    LogRatio,
    log_ratio,
    pair_ratio,
    satterthwaite,
    tau_of_unchanged,
)
from jissoku.model.history import (
    ArmChange,
    Change,
    Confirmation,
    Control,
    IndexedRun,
    MachineDay,
    RunDifference,
    RunRow,
    Tau,
)
from jissoku.model.run import Load, Origin, short_version
from jissoku.model.updated import updated
from jissoku.model.wording import DAY_LENGTH
from jissoku.request import ComparisonRequest

# Of a run, beside its arms.
SURROUNDINGS = ("machine_label", "kernel", "governor", "turbo", "clocksource", "jissoku")
_of_row = attrgetter(*SURROUNDINGS)
_of_cores = attrgetter("server_cores", "generator_cores", "shared")

# Significance level of a change at a known boundary, such as a change of version.
SUSPICION_ALPHA = 0.01

# Significance level of a change of unchanged arms.
CONTROL_ALPHA = 0.05


def obstacles(first: IndexedRun, second: IndexedRun) -> tuple[str, ...]:
    """Rule 1: why two runs are not comparable, a clause each; empty if they are."""
    one, two = first.row, second.row
    differ = {
        "workloads": (one.workload != two.workload, one.workload_text, two.workload_text),
        "machines": (one.machine != two.machine, one.machine_text, two.machine_text),
        "cores": (_of_cores(one) != _of_cores(two), _cores(one), _cores(two)),
        "methods": (one.method != two.method, one.method, f"{two.method} trials"),
        "conditions": (one.condition != two.condition, one.condition, f"{two.condition} cores"),
    }
    found = [
        f"the {name} differ: {before} and {after}"
        for name, (is_other, before, after) in differ.items()
        if is_other
    ]
    if not common_loads(first, second):
        found.append("they have no load in common")
    return tuple(found)


def _cores(row: RunRow) -> str:
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
    found = []
    pairs = zip(SURROUNDINGS, surroundings(first), surroundings(second), strict=True)
    for name, *versions in pairs:
        if versions[0] != versions[1]:
            # Without the program's name at its beginning.
            before, after = (one.removeprefix(f"{name} ") or "unknown" for one in versions)
            found.append(f"{name.removesuffix('_label')} {before} -> {after}")
    return tuple(found)


def surroundings(run: IndexedRun) -> tuple[str, ...]:
    """What the cost of an arm depends on besides programs and the class of the machine."""
    found: tuple[str, ...] = _of_row(run.row)
    return found


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
    first: IndexedRun, second: IndexedRun, name: str, load: Load, tau: Tau
) -> ArmChange | None:
    """Rule 2: the change of an arm's cost from one run to another, relative to unchanged arms.

    None if no unchanged arm was measured with it at this load in both.
    """
    runs = first, second
    anchors = [
        pair
        for pair in unchanged_arms(first, second)
        if name not in pair
        and all(len(run.ratios(load, name, one)) >= 2 for run, one in zip(runs, pair, strict=True))
    ]
    before, after = first.arm(name), second.arm(name)
    if not anchors or before is None or after is None:
        return None
    ours, theirs = (
        _against(run, load, name, [pair[place] for pair in anchors])
        for place, run in enumerate(runs)
    )
    if ours is None or theirs is None:
        return None
    others = []
    for pair in anchors[1:]:
        earlier = pair_ratio(first, load, pair[0], anchors[0][0])
        later = pair_ratio(second, load, pair[1], anchors[0][1])
        if earlier is not None and later is not None:
            others.append(changed(earlier, later, tau))
    control, moved = most_moved(others)
    found = suspected(
        ArmChange(
            arm=name,
            load=load,
            versions=(before.version, after.version),
            change=changed(ours, theirs, tau, len(anchors)).change,
            anchors=tuple(pair[1] for pair in anchors),
            control=control,
            control_change=moved,
            is_same=before.program == after.program != "",
            is_suspected=False,
        )
    )
    return updated(found, is_suspected=found.is_suspected and not found.is_same)


def suspected(change: ArmChange) -> ArmChange:
    """With what the p-value says, before it is corrected for the number of tests."""
    is_sure = change.control is not Control.MOVED and change.change.p_value <= SUSPICION_ALPHA
    return updated(change, is_suspected=is_sure)


def most_moved(pairs: Sequence[LogRatio]) -> tuple[Control, Change | None]:
    """Rule 3: whether an unchanged pair changed by more than its interval, and the most changed.

    With several pairs the level is divided by their number (Bonferroni).
    """
    if not pairs:
        return Control.ABSENT, None
    most = min((one.change for one in pairs), key=lambda change: change.p_value)
    has_moved = most.p_value < CONTROL_ALPHA / len(pairs)
    return (Control.MOVED if has_moved else Control.UNMOVED), most


def changed(first: LogRatio, second: LogRatio, tau: Tau, anchors: int = 1) -> LogRatio:
    """The change of a log ratio, widened by the variation of unchanged arms between occasions.

    tau^2 is the variance of a ratio, half of it each arm's; the mean over several anchors has the
    arm's half once and the anchors' halves averaged.
    """
    between = tau.value**2 * (1 + 1 / anchors)  # Half of it in each of two runs, twice.
    parts = [
        (first.variance, first.freedom),
        (second.variance, second.freedom),
        (between, tau.freedom),
    ]
    variance = sum(part for part, _ in parts)
    return LogRatio(second.mean - first.mean, variance, satterthwaite(parts))


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

    The weights sum to 0, so the variance is the sum of -weight_i weight_j variance_ij over all
    pairs. None with one arm, or if two arms have no common trials.
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


def _against(run: IndexedRun, load: Load, arm: str, anchors: Sequence[str]) -> LogRatio | None:
    """ln(cost / geometric mean of the anchors' costs): by block, so that they count once."""
    sides = [run.ratios(load, arm, anchor) for anchor in anchors]
    blocks = set.intersection(*(set(side) for side in sides))
    return log_ratio([sum(side[block] for side in sides) / len(sides) for block in sorted(blocks)])


# A longer pause begins another occasion, even without a reboot.
PAUSE = dt.timedelta(hours=6)

Occasion = tuple[IndexedRun, ...]


def occasions(runs: Iterable[IndexedRun]) -> tuple[Occasion, ...]:
    """Groups of runs of one machine class and boot without a long pause, earliest first.

    Without runs that ended early: their values may have been why.
    """
    # Each time is parsed once, also among many runs.
    whole = (run for run in runs if not run.unfinished)
    timed = sorted(
        ((run.row.machine, started(run), run.row.run, run) for run in whole),
        key=itemgetter(0, 1, 2),
    )
    found: list[list[IndexedRun]] = []
    last: tuple[object, dt.datetime] | None = None
    for _, start, _, run in timed:
        # Older records name no boot.
        place = run.row.machine, run.row.boot, run.row.kernel
        if last is not None and place == last[0] and start - last[1] <= PAUSE:
            found[-1].append(run)
        else:
            found.append([run])
        last = place, start
    return tuple(sorted(map(tuple, found), key=lambda group: started(group[0])))


def started(run: IndexedRun) -> dt.datetime:
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
        first: dict[tuple[object, ...], IndexedRun] = {}
        for run in occasion:
            first.setdefault(comparison_key(run), run)
        for key, run in first.items():
            comparable[key].append(run)
    return tuple(map(tuple, comparable.values()))


def observed_tau(runs: Iterable[IndexedRun]) -> Tau:
    """Rule 4: from unchanged pairs between neighbouring occasions of comparable runs."""
    return tau_of_neighbours(first_of_occasions(occasions(runs)))


def tau_of_neighbours(comparable: Iterable[Sequence[IndexedRun]]) -> Tau:
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
            # Neighbouring differences share an occasion, so their correlation is -1/2. The sum of
            # squares of n of them has the variance of 2 n^2 / (3 n - 1) independent squares (von
            # Neumann, 1941).
            freedom += len(together) * (2 * len(found) / (3 * len(found) - 1))
    return tau_of_unchanged(differences, freedom)


def comparison_key(run: IndexedRun) -> tuple[object, ...]:
    """Runs with equal keys are comparable at the loads that they share (rule 1)."""
    row = run.row
    return (row.machine, row.workload, _of_cores(row), row.method, row.condition)


def machine_days(
    runs: Sequence[RunRow], rejections: Sequence[tuple[str, str, int]]
) -> Iterator[MachineDay]:
    """Each day and class of machines that has a run, earliest first.

    `rejections`: key of a run, name of a check, and how many of the run's trials it rejected.
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
    """The noise floor of the latest run that has one; `rows` are ordered by time."""
    known = [row.noise_floor for row in rows if row.noise_floor is not None]
    return known[-1] if known else None


# Fields of a request that name arms.
KINDS = ("arms", "cmd", "url")


def run_difference(first: IndexedRun, second: IndexedRun, tau: Tau) -> RunDifference:
    """All arms of two runs, the earlier one first, by the rules of docs/history.md."""
    reasons = list(obstacles(first, second))
    unchanged = unchanged_arms(first, second)
    if not unchanged:
        reasons.append("no arm is the same program in both")
    before, after = ([arm.arm for arm in run.arms if not arm.is_control] for run in (first, second))
    changes = [
        updated(change, confirmation=confirmation(first, second, name))
        if change.is_suspected
        else change
        for load in common_loads(first, second)
        for name in after
        if name in before and not reasons
        if (change := difference(first, second, name, load, tau))
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
            arm.arm: given.get(arm.arm)
            or _Word("arms", arm.arm if arm.arm == arm.target else f"{arm.arm}={arm.target}")
            for arm in run.arms
            if not (arm.is_floor or arm.is_control) and (not wanted or arm.target in wanted)
        }
    return _asked(runs[-1], arms.values())


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
    field: str
    text: str


def _given(run: IndexedRun) -> dict[str, _Word]:
    found = {}
    for field in KINDS:
        for text in getattr(run.row.asked, field):
            name, equals, _ = text.partition("=")
            # `granian@2.7.1` is the arm granian-2.7.1.
            found[name if equals else text.replace("@", "-")] = _Word(field, text)
    return found


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
