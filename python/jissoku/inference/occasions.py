"""Runs grouped by occasion or day: tau, and what disturbed trials, on a class of machines."""

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from operator import itemgetter

from jissoku.inference.across_runs import common_loads, unchanged_differences
from jissoku.inference.pooling import LogRatio, tau_of_unchanged
from jissoku.model.history import IndexedRun, RunRow
from jissoku.model.history_answer import MachineDay, Tau

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
