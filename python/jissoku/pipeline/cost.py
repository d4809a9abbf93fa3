"""What a request costs one load generator, against another: rounds of cells, kept as they go."""

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from jissoku.calibrate.cost import Calls, Cell, Cells, CostRecord, Figure, Pair, Side, write_cost
from jissoku.calibrate.duet import Census, Duets
from jissoku.calibrate.solo import Solos
from jissoku.calibrate.tool import Found
from jissoku.interruption import Interrupted, Interruption
from jissoku.model import Cores, Estimate
from jissoku.observe.cores import pinned
from jissoku.observe.machine import machine
from jissoku.observe.memory import everyone, members
from jissoku.observe.strace import Trace, absent
from jissoku.stats import estimate

# A pair that is void is repeated so often; the machine may have been busy.
ATTEMPTS = 2

# With fewer ticks than this the split into user and kernel time would be guesswork.
TICKS_MIN = 20

# Starting and ending an oracle and two generators, beside the window; or one that is traced.
OVERHEAD_S = 4.5
CALLS_OVERHEAD_S = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be measured.

    Attributes:
        founds: The generator, and the one that it is held against; they may be the same.
        rounds: Pairs of each cell.
        folder: Where the record goes.
    """

    founds: tuple[Found, Found]
    cells: Cells
    rounds: int
    cores: Cores
    folder: Path
    version: str


class Listener(Protocol):
    """Hears of progress."""

    def begins(self, what: str, done: int, total: int, seconds_left: float) -> None:
        """Hears of a pair that begins."""

    def measured(self, pair: Pair) -> None:
        """Hears of a pair that has ended."""

    def counted(self, calls: Calls) -> None:
        """Hears of system calls that were counted."""


def measure(plan: Plan, listener: Listener) -> CostRecord:
    """Runs every round; the record on disk has each pair as soon as it has ended.

    Raises:
        InputError: The folder cannot be written.
        CalibrationError: The oracle broke.
    """
    cells = [it for it in plan.cells.cell if _unable(it, plan.founds) is None]
    record = with_figures(_begun(plan), plan.founds)
    total = plan.rounds * len(cells)
    calls_s = 0.0 if absent() else 2 * len(cells) * (plan.cells.window_s + CALLS_OVERHEAD_S)
    with Interruption() as interruption, pinned(plan.cores.stopwatch):
        duets = Duets(
            plan.founds,
            plan.cores,
            Census(everyone, _family),
            interruption.waits_for,
            interruption.check,
        )
        try:
            for done in range(total):
                turn, number = divmod(done, len(cells))
                seconds_left = (total - done) * (plan.cells.window_s + OVERHEAD_S) + calls_s
                listener.begins(cells[number].name, done, total, seconds_left)
                for _ in range(ATTEMPTS):
                    # Who is first changes from round to round, and from cell to cell within one.
                    first = (turn + number) % 2
                    pair = duets.run(cells[number], plan.cells.window_s, turn, first)
                    interruption.check()
                    listener.measured(pair)
                    record = msgspec.structs.replace(record, pairs=(*record.pairs, pair))
                    if not pair.void:
                        break
                record = with_figures(record, plan.founds)
                write_cost(plan.folder, record)
            for calls in _calls(plan, cells, interruption):
                listener.counted(calls)
                record = msgspec.structs.replace(record, calls=(*record.calls, calls))
                write_cost(plan.folder, record)
        except Interrupted:
            return record
    record = msgspec.structs.replace(record, is_finished=True)
    write_cost(plan.folder, record)
    return record


def _calls(plan: Plan, cells: Sequence[Cell], interruption: Interruption) -> Iterator[Calls]:
    """A window of its own for each tool under each load; none where nobody can count."""
    if absent():
        return
    solos = Solos(plan.cores, _family, Trace, interruption.waits_for, interruption.check)
    founds = {found.tool.name: found for found in plan.founds}
    for cell in cells:
        for found in founds.values():
            calls = solos.run(found, cell, plan.cells.window_s)
            interruption.check()
            yield calls


def with_figures(record: CostRecord, founds: tuple[Found, Found]) -> CostRecord:
    """The record with what its pairs come to."""
    figures = []
    for cell in record.cells:
        unable = _unable(cell, founds)
        pairs = [pair for pair in record.pairs if pair.cell == cell.name]
        figures.append(Figure(cell=cell.name, unable=unable) if unable else figure(cell, pairs))
    names = [cell.name for cell in record.cells if _unable(cell, founds) is None]
    return msgspec.structs.replace(
        record, figures=tuple(figures), overall=overall(names, record.pairs)
    )


def figure(cell: Cell, pairs: Sequence[Pair]) -> Figure:
    """What the pairs of one cell come to."""
    counted = [pair for pair in pairs if not pair.void]
    found = Figure(
        cell=cell.name,
        pairs=len(counted),
        void=len(pairs) - len(counted),
        apart=sum(pair.are_rates_apart for pair in counted),
    )
    if not counted:
        return found
    sides = [[pair.sides[place] for pair in counted] for place in (0, 1)]
    seconds = sum(pair.window_ns for pair in counted) / 1e9
    cost_ns = [math.exp(_mean([math.log(it.cost_ns) for it in side])) for side in sides]
    rates_rps = [sum(it.answers for it in side) / seconds for side in sides]
    return msgspec.structs.replace(
        found,
        ratio=estimate.level([pair.log_ratio for pair in counted]),
        cost_ns=(cost_ns[0], cost_ns[1]),
        rates_rps=(rates_rps[0], rates_rps[1]),
        user_fractions=(_user_fraction(sides[0]), _user_fraction(sides[1])),
    )


def overall(names: Sequence[str], pairs: Sequence[Pair]) -> Estimate | None:
    """The geometric mean over cells of equal weight; a round is a block if each cell counted."""
    rounds: dict[int, dict[str, float]] = {}
    for pair in pairs:
        if not pair.void:
            rounds.setdefault(pair.round, {})[pair.cell] = pair.log_ratio
    whole = [_mean(list(logs.values())) for logs in rounds.values() if len(logs) == len(names)]
    return estimate.level(whole)


def _user_fraction(sides: Sequence[Side]) -> float | None:
    user, system = (sum(side.ticks[place] for side in sides) for place in (0, 1))
    return user / (user + system) if user + system >= TICKS_MIN else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _unable(cell: Cell, founds: tuple[Found, Found]) -> str | None:
    return next((why for it in founds if (why := cell.unable(it.tool))), None)


def _family(root: int) -> set[int]:
    return members(root, everyone())


def _begun(plan: Plan) -> CostRecord:
    here = machine()
    tool, against = plan.founds
    return CostRecord(
        tool=tool.tool.name,
        against=against.tool.name,
        versions=(tool.version, against.version),
        jissoku=plan.version,
        started_utc=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        machine=f"{here.cpu_model}, kernel {here.kernel}",
        transport="unix" if "unix" in plan.cells.cell[0].ask else "tcp",
        rounds=plan.rounds,
        window_s=plan.cells.window_s,
        is_finished=False,
        cells=plan.cells.cell,
        calls_reason=absent(),
    )
