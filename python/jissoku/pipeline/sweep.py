"""A sweep: blocks in which every target runs once at every level, in random order.

The story is a campaign's with one more thing to vary, and without duets: how one target changes
with the level is the question, and both ends of it are measured within one block.
"""

import dataclasses
import datetime as dt
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from jissoku import stats
from jissoku.design import levels as plan
from jissoku.design.schedule import Planned
from jissoku.errors import InputError, JissokuError
from jissoku.interruption import Interrupted, Interruption
from jissoku.model import (
    Axis,
    Consequence,
    Cores,
    Kind,
    Missing,
    Mode,
    Run,
    Sweep,
    Trial,
    Workload,
)
from jissoku.observe.cores import pinned
from jissoku.observe.machine import machine
from jissoku.pipeline.bench import Bench, Contestant, Window
from jissoku.pipeline.clock import Clock
from jissoku.pipeline.listener import Listener
from jissoku.records import Store, write_sweep
from jissoku.targets.placeholder import holes

# As in a campaign: a disturbed trial is run again, and who failed so often is left alone.
RERUNS_MAX = 2
FAILURES_MAX = 2

# The closed loops that tell which rates are worth offering.
PILOT_BLOCK = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Climbing:
    """What somebody wants to know.

    Attributes:
        sweep: Without levels the lab chooses them, for rates after a pilot.
        workload: What is asked at every level, but for what the level itself says.
    """

    contestants: tuple[Contestant, ...]
    missing: tuple[Missing, ...]
    sweep: Sweep
    workload: Workload
    mode: Mode
    window: Window
    seed: int
    cores: Cores
    folder: Path
    version: str

    @property
    def names(self) -> tuple[str, ...]:
        """Of the contestants, in order."""
        return tuple(contestant.arm.name for contestant in self.contestants)


def climb(question: Climbing, listener: Listener) -> bool:
    """Runs a sweep to its end or an interruption; its records stay in the question's folder.

    Returns:
        Whether it ran to its end; every trial that was finished is on disk either way.

    Raises:
        InputError: A target takes no number of workers although workers are swept, or the folder
            holds a run already or cannot be written.
        JissokuError: No target answered in the pilot, so that no rate is known.
    """
    if question.sweep.axis is Axis.WORKERS:
        _must_take_workers(question)
    run = _header(question)
    with (
        Interruption() as interruption,
        pinned(question.cores.stopwatch),
        Store(question.folder, run) as store,
    ):
        write_sweep(question.folder, question.sweep)
        try:
            _Session(question, interruption, store, listener).run()
        except Interrupted:
            return False
    return True


class _Session:
    """The state of one sweep: what was recorded, and who is still in it."""

    def __init__(
        self, question: Climbing, interruption: Interruption, store: Store, listener: Listener
    ) -> None:
        self.question = question
        self.axis = question.sweep.axis
        self.interruption = interruption
        self.store = store
        self.listener = listener
        self.trials: list[Trial] = []
        self.failures: Counter[tuple[str, int | None]] = Counter()
        self.benches: dict[int, Bench] = {}
        self.clock = Clock((question.window.warmup_ns + question.window.window_ns) / 1e9)
        self.planned = 0

    def run(self) -> None:
        """The pilot where one is needed, then every block."""
        question = self.question
        levels = question.sweep.levels or self._piloted()
        cells = len(question.names) * len(levels) * question.sweep.blocks
        self.planned = len(self.trials) + cells
        minutes = self.clock.seconds({self._kind: cells}) / 60
        self.listener.note(
            f"{len(levels)} levels of {self.axis}, {', '.join(f'{n:,}' for n in levels)}, in"
            f" {question.sweep.blocks} blocks: about {max(1, round(minutes))} min."
        )
        for index in range(question.sweep.blocks):
            for leveled in plan.block(
                index, question.names, levels, self._kind, seed=question.seed
            ):
                self._run(leveled.planned, leveled.level)

    @property
    def _kind(self) -> Kind:
        return Kind.SOLO_COST if self.axis is Axis.RATE else Kind.SOLO_RATE

    def _piloted(self) -> tuple[int, ...]:
        """Levels of rate: parts of what the slowest target answers in a closed loop.

        A trial that the machine disturbed tells this well enough.
        """
        self.planned = len(self.question.names)
        for leveled in plan.block(
            PILOT_BLOCK, self.question.names, (0,), Kind.SOLO_RATE, seed=self.question.seed
        ):
            self._run(leveled.planned, None)
        capacities = {
            lane.arm: lane.requests / lane.duration_ns * 1e9
            for trial in self.trials
            for lane in trial.lanes
        }
        if not capacities:
            first = next((t.failure.reason for t in self.trials if t.failure), "no trial counts")
            raise JissokuError(f"no target could be measured in a closed loop: {first}")
        return plan.rates_of(capacities)

    def _run(self, planned: Planned, level: int | None) -> None:
        """Runs one trial, again if the machine disturbed it, and records every attempt."""
        name = planned.arms[0]
        if self.failures[name, level] >= FAILURES_MAX:
            self.planned -= 1
            return
        for attempt in range(1 + RERUNS_MAX):
            self.clock.start()
            trial = self._bench(level).attempt(planned, self._workload(level), self.question.window)
            trial = dataclasses.replace(trial, index=len(self.trials), attempt=attempt, level=level)
            trial = dataclasses.replace(trial, gates=stats.gates(trial))
            self.clock.stop(planned.kind)
            self.store.add(trial)
            self.trials.append(trial)
            if trial.failure is not None:
                self.failures[name, level] += 1
            self.planned += attempt > 0
            left = max(0, self.planned - len(self.trials))
            seconds = self.clock.seconds({planned.kind: left})
            self.listener.trial(trial, len(self.trials), len(self.trials) + left, seconds)
            if not any(gate.consequence is Consequence.REJECT for gate in trial.gates):
                return

    def _workload(self, level: int | None) -> Workload:
        work = self.question.workload
        if level is None:
            return dataclasses.replace(work, rate_rps=None)
        if self.axis is Axis.CONNECTIONS:
            return dataclasses.replace(work, connections=level, rate_rps=None)
        if self.axis is Axis.RATE:
            return dataclasses.replace(work, rate_rps=level)
        return dataclasses.replace(work, rate_rps=None)

    def _bench(self, level: int | None) -> Bench:
        """The same bench for all levels, but where a level is a number of workers."""
        cores, workers = self.question.cores, None
        key = 0
        if self.axis is Axis.WORKERS and level is not None:
            # A worker without a core of its own would measure the scheduler: as many as there are.
            cores = dataclasses.replace(cores, server=cores.server[:level])
            key = workers = level
        if key not in self.benches:
            self.benches[key] = Bench(
                self.question.contestants, cores, self.interruption, workers=workers
            )
        return self.benches[key]


def _must_take_workers(question: Climbing) -> None:
    for contestant in question.contestants:
        prepared = contestant.prepared
        words = [config.text for config in prepared.config]
        if prepared.start is not None:
            words += [*prepared.start.command, *prepared.start.environment.values()]
        if "workers" not in holes(words):
            raise InputError(
                f"{contestant.arm.name} takes no number of workers: its command must say where"
                " {workers} goes"
            )


def _header(question: Climbing) -> Run:
    first = question.names[0]
    return Run(
        jissoku=question.version,
        started_utc=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        seed=question.seed,
        mode=question.mode,
        reference=first,
        baseline=first,
        floor="",
        arms=tuple(contestant.arm for contestant in question.contestants),
        workload=question.workload,
        machine=machine(),
        cores=question.cores,
        missing=question.missing,
    )
