"""A campaign: a pilot finds a common rate, then blocks of trials run until it is enough."""

import dataclasses
import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from jissoku import stats
from jissoku.design.mode import Effort
from jissoku.design.rate import common_rates
from jissoku.design.schedule import Planned, Roles, block, roles
from jissoku.interruption import Interrupted, Interruption
from jissoku.model import SOLO_LOAD, Consequence, Cores, Kind, Missing, Mode, Run, Trial, Workload
from jissoku.observe.cores import pinned
from jissoku.observe.machine import machine
from jissoku.pipeline.bench import Bench, Contestant, Window
from jissoku.pipeline.clock import Clock
from jissoku.pipeline.listener import Listener
from jissoku.records import Store
from jissoku.targets.owner import owner

# A trial that the machine disturbed is run again this often; every attempt stays in the records.
RERUNS_MAX = 2

# An arm that failed so often is left out of what is still to come: its failure is told, the others'
# time is saved.
FAILURES_MAX = 2


class Pace(StrEnum):
    """How often duets and the solo trials beside them ask."""

    COMMON = "at one common rate"
    CLOSED = "as fast as they are answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What somebody wants to know.

    Attributes:
        contestants: The baseline first; the floor is among them unless it cannot be raced.
        floor: Name of the contestant that is the floor, or None.
        workload: Its rate is None when the lab is to choose the duets' rate.
        twin: Name of a contestant that is the baseline once more; it has duets, and no solo trials.
        pace: Whether duets are spaced evenly, or every connection asks as fast as it is answered.
        effort: The mode's, as the user changed it. Without solo blocks there is no pilot either,
            and the workload must have a rate.
        duets: Without them every arm is alone all the time: for questions that are not about cost.
    """

    contestants: tuple[Contestant, ...]
    floor: str | None
    missing: tuple[Missing, ...]
    workload: Workload
    mode: Mode
    effort: Effort
    seed: int
    cores: Cores
    folder: Path
    version: str
    pace: Pace = Pace.COMMON
    twin: str = ""
    duets: bool = True

    @property
    def is_paced(self) -> bool:
        """Whether there is a rate at which solo trials could ask, beside the closed loop."""
        return self.duets or self.workload.rate_rps is not None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the contestants, in order, without the twin."""
        names = (contestant.arm.name for contestant in self.contestants)
        return tuple(name for name in names if name != self.twin)


def compare(question: Question, listener: Listener) -> bool:
    """Runs a campaign to its end or an interruption; its records stay in the question's folder.

    Returns:
        Whether it ran to its end; every trial that was finished is on disk either way.

    Raises:
        InputError: The folder holds a run already or cannot be written.
    """
    run = _header(question)
    with (
        Interruption() as interruption,
        pinned(question.cores.stopwatch),
        Store(question.folder, run) as store,
    ):
        bench = Bench(question.contestants, question.cores, interruption)
        try:
            _Campaign(question, run, bench, store, listener).run()
        except Interrupted:
            return False
    return True


class _Campaign:
    """The state of one campaign: who is still in it, and what has been recorded."""

    def __init__(
        self, question: Question, run: Run, bench: Bench, store: Store, listener: Listener
    ) -> None:
        self.question = question
        self.header = run
        self.bench = bench
        self.store = store
        self.listener = listener
        self.effort = question.effort
        self.window = Window(self.effort.warmup_ns, self.effort.window_ns)
        self.trials: list[Trial] = []
        self.failures: Counter[str] = Counter()
        self.rates: Mapping[tuple[str, str], int] = {}
        self.clock = Clock((self.effort.warmup_ns + self.effort.window_ns) / 1e9)

    def run(self) -> None:
        """Runs everything, in the order of the story."""
        roles = _roles(self.question)
        if self.effort.solo_blocks:
            alone = dataclasses.replace(roles, duets=())
            for planned in self._block(0, alone, [Kind.SOLO_RATE]):
                self._run(planned, roles, 0)
        self.rates = self._duet_rates(roles)
        self._tell_rates()
        for index in self._indices():
            for planned in self._block(index, roles, self._solos(index)):
                self._run(planned, roles, index)

    def _block(self, index: int, roles: Roles, solos: Sequence[Kind]) -> Iterator[Planned]:
        return block(index, roles, solos, self.question.names, seed=self.question.seed)

    def _indices(self) -> Iterator[int]:
        """Block indices, until the answer is precise enough or the mode's end is reached."""
        effort = self.effort
        for index in range(effort.blocks_max):
            beyond = index - effort.blocks
            is_look = effort.blocks_step and beyond >= 0 and beyond % effort.blocks_step == 0
            if is_look and effort.half_width is not None:
                if stats.is_enough(self.header, self.trials, effort.half_width):
                    return
                self.listener.note(f"{index} blocks were not enough for every pair; going on.")
            yield index

    def _run(self, planned: Planned, roles: Roles, index: int) -> None:
        """Runs one planned trial, again if the machine disturbed it, and records every attempt."""
        if any(self.failures[name] >= FAILURES_MAX for name in planned.arms):
            return
        for attempt in range(1 + RERUNS_MAX):
            self.clock.start()
            trial = self.bench.attempt(planned, self._workload(planned), self.window)
            trial = dataclasses.replace(trial, index=len(self.trials), attempt=attempt)
            trial = dataclasses.replace(trial, gates=stats.gates(trial))
            self.clock.stop(planned.kind)
            self.store.add(trial)
            self.trials.append(trial)
            if trial.failure is not None:
                self.failures[trial.failure.arm] += 1
            left = self._left(roles, index)
            total = len(self.trials) + sum(left.values())
            self.listener.trial(trial, len(self.trials), total, self.clock.seconds(left))
            if not any(gate.consequence is Consequence.REJECT for gate in trial.gates):
                return

    def _solos(self, index: int) -> list[Kind]:
        if index >= self.effort.solo_blocks:
            return []
        is_paced = self.question.is_paced and index < self.effort.solos_paced
        paced = [Kind.SOLO_COST] if is_paced else []
        # The pilot was the first block's closed loop.
        return [*paced, Kind.SOLO_RATE] if index else paced

    def _duet_rates(self, roles: Roles) -> Mapping[tuple[str, str], int]:
        work = self.question.workload
        if work.rate_rps is not None:
            return dict.fromkeys(roles.duets, max(1, work.rate_rps // SOLO_LOAD))
        if self.question.pace is Pace.CLOSED or work.pipeline > 1:
            return {}  # A burst cannot be spaced evenly: its duets are a closed loop, too.
        capacities = {
            lane.arm: lane.requests / lane.duration_ns * 1e9
            for trial in self.trials
            for lane in trial.lanes
        }
        if roles.baseline in capacities:
            capacities[self.question.twin] = capacities[roles.baseline]
        return common_rates(capacities, roles.duets)

    def _tell_rates(self) -> None:
        rates = sorted(set(self.rates.values()), reverse=True)
        if rates:
            told = " and ".join(f"{SOLO_LOAD * rate:,}" for rate in rates)
            self.listener.note(f"The cores get {told} requests a second, in a duet half from each.")

    def _workload(self, planned: Planned) -> Workload:
        """The question's workload, at the rate that this trial needs."""
        if planned.kind is Kind.SOLO_RATE:
            rate = None
        elif planned.kind is Kind.DUET:
            first, second = planned.arms
            rate = self.rates.get((first, second)) or self.rates.get((second, first))
        else:
            mine = [rate for pair, rate in self.rates.items() if planned.arms[0] in pair]
            rate = SOLO_LOAD * max(mine) if mine else self.question.workload.rate_rps
        return dataclasses.replace(self.question.workload, rate_rps=rate)

    def _left(self, roles: Roles, index: int) -> dict[Kind, int]:
        """Trials still to come at block `index`; reruns and early ends are not foreseen."""
        names = {name for name in self.question.names if self.failures[name] < FAILURES_MAX}
        duets = sum(set(pair) <= names for pair in roles.duets)
        blocks = max(self.effort.blocks, index + 1)
        foreseen = {Kind.DUET: duets * blocks}
        solos = len(names) * min(self.effort.solo_blocks, blocks)
        foreseen[Kind.SOLO_RATE] = solos
        paced = self.effort.solos_paced if self.question.is_paced else 0
        foreseen[Kind.SOLO_COST] = len(names) * min(paced, blocks)
        done = Counter(trial.kind for trial in self.trials if trial.attempt == 0)
        return {kind: max(0, count - done[kind]) for kind, count in foreseen.items()}


def _roles(question: Question) -> Roles:
    """Who meets whom; a server whose process is not to be found cannot be watched in a duet."""
    chosen = roles(question.names, floor=question.floor, twin=question.twin)
    strangers = {
        contestant.arm.name
        for contestant in question.contestants
        if contestant.prepared.address is not None and owner(contestant.prepared.address) is None
    }
    watched = tuple(p for p in chosen.duets if question.duets and not strangers & set(p))
    return dataclasses.replace(chosen, duets=watched)


def _header(question: Question) -> Run:
    chosen = roles(question.names, floor=question.floor)
    return Run(
        jissoku=question.version,
        started_utc=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        seed=question.seed,
        mode=question.mode,
        reference=chosen.reference,
        baseline=chosen.baseline,
        floor=question.floor or "",
        arms=tuple(contestant.arm for contestant in question.contestants),
        workload=question.workload,
        machine=machine(),
        cores=question.cores,
        missing=question.missing,
        twin=question.twin,
    )
