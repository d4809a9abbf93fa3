"""Comparisons across two runs, and their limits.

Cost across runs is compared only relative to arms that are the same program in both: differences
between the runs affect these, too, and cancel in the ratio. The rules are numbered as in
docs/history.md.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from operator import attrgetter

from jissoku.inference.pooling import LogRatio, log_ratio, pair_ratio
from jissoku.model import Load
from jissoku.model.history import IndexedRun
from jissoku.model.history_answer import ArmChange, Control, Tau

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
