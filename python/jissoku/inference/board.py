"""Which run shows each target on a board: the newest one of its kind, by rules without figures."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    found = _Candidates(runs, costs, kind_of)
    shown: dict[tuple[str, str], list[str]] = defaultdict(list)
    for target in sorted(found.by_target):
        best = max(found.by_target[target], key=lambda run: found.preference(run, target))
        shown[kind_of(target), best.row.run].append(target)
    by_kind: dict[str, list[BoardRun]] = defaultdict(list)
    for (kind, key), targets in shown.items():
        run = found.runs[key]
        again = tuple(found.again(run))
        by_kind[kind].append(BoardRun(run=run, targets=tuple(targets), again=again))
    return {
        kind: tuple(sorted(one, key=lambda it: (len(it.targets), _age(it.run)), reverse=True))
        for kind, one in by_kind.items()
    }


def _age(run: IndexedRun) -> tuple[str, str]:
    return run.row.started_utc, run.row.run


class _Candidates:
    """Runs with costs of targets, by target."""

    def __init__(
        self, runs: Sequence[IndexedRun], costs: Costs, kind_of: Callable[[str], str]
    ) -> None:
        self.runs = {
            run.row.run: run
            for run in runs
            if run.row.verb not in SELF_TESTS and costs.get(run.row.run)
        }
        self._costs = costs
        self._kind_of = kind_of
        self.by_target: dict[str, list[IndexedRun]] = defaultdict(list)
        self._begun: dict[tuple[str, ...], str] = {}
        self._targets: dict[str, frozenset[str]] = {}
        for run in sorted(self.runs.values(), key=_age):
            self._begun.setdefault(_measurement(run), run.row.started_utc)
            known = costs[run.row.run]
            targets = {one.target for one in run.arms if one.arm in known and not one.is_control}
            self._targets[run.row.run] = frozenset(targets)
            for target in targets:
                self.by_target[target].append(run)

    def preference(self, run: IndexedRun, target: str) -> tuple[bool, bool, bool, str, int]:
        """The highest one shows a target."""
        known = self._costs[run.row.run]
        members = self._targets[run.row.run]
        own = sum(self._kind_of(one) == self._kind_of(target) for one in members)
        return (
            any(known.get(arm.arm, False) for arm in run.arms if arm.target == target),
            len(members) > 1,
            2 * own >= len(members),
            self._begun[_measurement(run)],
            -self.by_target[target].index(run),
        )

    def again(self, run: IndexedRun) -> Iterator[IndexedRun]:
        """Other runs with two of a run's targets, or with its only one; newest first."""
        members = self._targets[run.row.run]
        for other in sorted(self.runs.values(), key=_age, reverse=True):
            common = members & self._targets[other.row.run]
            if other.row.run != run.row.run and len(common) >= min(2, len(members)):
                yield other


def _measurement(run: IndexedRun) -> tuple[str, ...]:
    """Equal of the workloads of one experiment."""
    if run.row.experiment:
        return run.row.experiment, str(Path(run.folder).parent)
    return (run.row.run,)
