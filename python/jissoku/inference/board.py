"""Which run shows each target on a board: the newest one of its kind, by rules without figures."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from jissoku.model.history import BoardRun, IndexedRun

# Runs that test the lab, and say nothing about a target; the first one in older records.
SELF_TESTS = frozenset({"doctor", "self-test"})

# By key of a run its arms with a cost, and whether one of their costs is at a rate.
Costs = Mapping[str, Mapping[str, bool]]


def board_runs(
    runs: Sequence[IndexedRun], costs: Costs, kind_of: Callable[[str], str]
) -> dict[str, tuple[BoardRun, ...]]:
    """By kind the runs that show its targets, those with most of them first.

    A target is shown by a run at a rate rather than a closed loop, beside other targets rather than
    alone, and mostly beside its own kind; of such runs by the newest one. The workloads of an
    experiment are one measurement, which its first workload shows.
    """
    known = {
        run.row.run: run
        for run in sorted(runs, key=_age)
        if run.row.verb not in SELF_TESTS and costs.get(run.row.run)
    }
    targets = {
        key: {one.target for one in run.arms if one.arm in costs[key] and not one.is_control}
        for key, run in known.items()
    }
    begun: dict[tuple[str, ...], str] = {}
    for run in known.values():
        begun.setdefault(_measurement(run), run.row.started_utc)
    places = {key: place for place, key in enumerate(known)}

    def preference(key: str, target: str) -> tuple[bool, bool, bool, str, int]:
        run, members = known[key], targets[key]
        own = sum(kind_of(one) == kind_of(target) for one in members)
        return (
            any(costs[key].get(arm.arm, False) for arm in run.arms if arm.target == target),
            len(members) > 1,
            2 * own >= len(members),
            begun[_measurement(run)],
            -places[key],
        )

    shown: dict[tuple[str, str], list[str]] = defaultdict(list)
    for target in sorted(set[str]().union(*targets.values())):
        having = (key for key, members in targets.items() if target in members)
        best = max(having, key=lambda key: preference(key, target))
        shown[kind_of(target), best].append(target)
    by_kind: dict[str, list[BoardRun]] = defaultdict(list)
    for (kind, key), names in shown.items():
        # Other runs with two of a run's targets, or with its only one; newest first.
        again = tuple(
            known[other]
            for other in reversed(known)
            if other != key and len(targets[key] & targets[other]) >= min(2, len(targets[key]))
        )
        by_kind[kind].append(BoardRun(run=known[key], targets=tuple(names), again=again))
    return {
        kind: tuple(sorted(one, key=lambda it: (len(it.targets), _age(it.run)), reverse=True))
        for kind, one in by_kind.items()
    }


def _age(run: IndexedRun) -> tuple[str, str]:
    return run.row.started_utc, run.row.run


def _measurement(run: IndexedRun) -> tuple[str, ...]:
    """Equal of the workloads of one experiment."""
    if run.row.experiment:
        return run.row.experiment, str(Path(run.folder).parent)
    return (run.row.run,)
