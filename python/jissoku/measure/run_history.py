"""An open index of runs: lists, series and comparisons, each computed once."""

import weakref
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from jissoku.errors import JissokuError
from jissoku.history import queries
from jissoku.history.index import HistoryIndex, Present
from jissoku.inference.across_runs import (
    Occasion,
    first_of_occasions,
    machine_days,
    occasions,
    run_difference,
    started,
    tau_of_neighbours,
)
from jissoku.inference.series import finished_series, planned_series, series_plans
from jissoku.model.history import IndexedRun
from jissoku.model.history_answer import MachineDay, RunDifference, Series, Tau
from jissoku.model.updated import updated


@dataclass(frozen=True, slots=True)
class State:
    """What an index was opened over.

    Attributes:
        present: By key of a run its folder, and why it is unfinished.
        broken: Folders whose records cannot be read, a sentence each.
    """

    present: Present
    broken: tuple[str, ...]


class History:
    """An open index. What is computed from all runs is kept, so that a second question is fast.

    Attributes:
        index: Of these and other runs.
        session: A connection to it that shows the runs that were found.
        state: Its input.
        is_damaged: Whether something could not be read.
    """

    def __init__(self, index: HistoryIndex, state: State, before: "History | None" = None) -> None:
        """Opens the index.

        Args:
            index: Of these and other runs.
            state: What to show.
            before: A history of other runs: headers that it has read are not read again.

        Raises:
            JissokuError: The index is damaged.
        """
        self.index = index
        self.state = state
        with index.reading():
            self.session = index.connect(state.present)
        weakref.finalize(self, self.session.close)
        self.is_damaged = False
        self._before = before.headers_read if before else {}
        self._headers: tuple[IndexedRun, ...] | None = None
        self._by_key: dict[str, IndexedRun] = {}
        self._occasions: tuple[Occasion, ...] | None = None
        self._taus: dict[str, Tau] = {}
        self._series: dict[str, tuple[Series, ...]] = {}

    @property
    def broken(self) -> tuple[str, ...]:
        """Folders whose records cannot be read, a sentence each."""
        return self.state.broken

    @property
    def headers_read(self) -> Mapping[str, IndexedRun]:
        """By key the headers that were read so far: all, or none."""
        return self._by_key

    @contextmanager
    def reading(self) -> Iterator[None]:
        """The block reads of the database.

        Raises:
            JissokuError: The index is damaged, and was removed.
        """
        try:
            with self.index.reading():
                yield
        except JissokuError:
            self.is_damaged = True
            raise

    def runs(self) -> tuple[IndexedRun, ...]:
        """All runs, earliest first, with all their measurements: for few runs."""
        headers = self.headers()
        with self.reading():
            logs = queries.logs_of(self.session, self._by_key)
        return tuple(updated(run, logs=logs.get(run.row.run, {})) for run in headers)

    def headers(self) -> tuple[IndexedRun, ...]:
        """All runs, earliest first, without their measurements; read once."""
        if self._headers is None:
            self._headers = self._read_headers()
            self._by_key = {run.row.run: run for run in self._headers}
            self._before = {}
        return self._headers

    def targets(self) -> tuple[str, ...]:
        with self.reading():
            return queries.targets(self.session)

    def series(self, target: str) -> tuple[Series, ...]:
        """A target's cost over time, a series for each question; computed once."""
        if target not in self._series:
            self._series[target] = self._read_series(target)
        return self._series[target]

    def machine_days(self) -> tuple[MachineDay, ...]:
        """What disturbed trials, by day and class of machines, earliest first."""
        rows = [run.row for run in self.headers()]
        with self.reading():
            return tuple(machine_days(rows, queries.rejections(self.session)))

    def difference(self, first: str, second: str) -> RunDifference:
        """Compares two runs, given by key, relative to arms that are the same program in both.

        Raises:
            KeyError: There is no run of a key.
        """
        self.headers()
        earlier, later = sorted((self._by_key[first], self._by_key[second]), key=started)
        tau = self.tau(later.row.machine)
        measured = self._measured({first, second})
        return run_difference(measured[earlier.row.run], measured[later.row.run], tau)

    def tau(self, machine: str) -> Tau:
        """Rule 4, of a class of machines; computed once."""
        if machine not in self._taus:
            like = [found for found in self.occasions() if found[0].row.machine == machine]
            groups = first_of_occasions(like)
            keys = {run.row.run for group in groups for run in group}
            with self.reading():
                means = queries.means_of(self.session, keys)
            self._taus[machine] = tau_of_neighbours(
                [updated(run, means=means.get(run.row.run, {})) for run in group]
                for group in groups
            )
        return self._taus[machine]

    def occasions(self) -> tuple[Occasion, ...]:
        """All runs by occasion, without their measurements; grouped once."""
        if self._occasions is None:
            self._occasions = occasions(self.headers())
        return self._occasions

    def _read_series(self, target: str) -> tuple[Series, ...]:
        plans = series_plans(self.occasions(), target)
        arms = {plan.arm for plan in plans}
        units = {unit for plan in plans for unit in plan.units.values()}
        with self.reading():
            planned = planned_series(plans, queries.ratios_of(self.session, arms, units))
            needed = {key for one in planned for key in one.runs}
            means = queries.means_of(self.session, needed, units)
        taus = {plan.last[-1].row.machine for plan in plans}
        measured = {key: updated(self._by_key[key], means=means.get(key, {})) for key in needed}
        measured |= self._measured({key for one in planned for key in one.beside_changes})
        return finished_series(planned, measured, {one: self.tau(one) for one in taus})

    def _measured(self, keys: Collection[str]) -> dict[str, IndexedRun]:
        with self.reading():
            logs = queries.logs_of(self.session, keys)
        return {key: updated(self._by_key[key], logs=logs.get(key, {})) for key in keys}

    def _read_headers(self) -> tuple[IndexedRun, ...]:
        present, before = self.state.present, self._before
        new = present.keys() - before.keys()
        kept = [_placed(before[key], *present[key]) for key in present if key in before]
        with self.reading():
            fresh = queries.headers(self.session, present, new if kept else None) if new else ()
        return tuple(sorted([*kept, *fresh], key=lambda run: (run.row.started_utc, run.row.run)))


def _placed(run: IndexedRun, folder: str, unfinished: str) -> IndexedRun:
    if (run.folder, run.unfinished) == (folder, unfinished):
        return run
    return updated(run, folder=folder, unfinished=unfinished)
