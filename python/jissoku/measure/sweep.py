"""A sweep: blocks in which every target runs once at every level, in random order.

As a campaign with one more factor and without paired trials: the change of a target with the level
is measured, and all levels are measured within one block.
"""

from collections import Counter
from dataclasses import dataclass
from functools import partial

from jissoku.design import schedule as plan
from jissoku.design.schedule import PlannedTrial
from jissoku.errors import InputError, JissokuError
from jissoku.measure.comparison import RunConfig
from jissoku.measure.progress import ProgressListener, RecordedProgress
from jissoku.measure.trial import FAILURES_MAX, TrialLoop, TrialRunner, TrialTiming, run_trial
from jissoku.model import Axis, Sweep, Trial, TrialKind, Workload
from jissoku.model.updated import updated
from jissoku.records import RunWriter, write_sweep
from jissoku.records.run_folder import EventWriter
from jissoku.system.cores import pin_process
from jissoku.system.interruption import Interrupted, Interruption
from jissoku.targets.placeholders import placeholders

# The closed loops of the pilot, which determine the offered rates.
PILOT_BLOCK = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepConfig(RunConfig):
    """Configuration of a sweep.

    Attributes:
        sweep: Without levels the lab chooses them, for rates after a pilot.
    """

    sweep: Sweep
    window: TrialTiming
    verb: str = "sweep"


def run_sweep(config: SweepConfig, listener: ProgressListener) -> bool:
    """Runs a sweep, with its records in the configured folder; False if it was interrupted."""
    if config.sweep.axis is Axis.WORKERS:
        _must_take_workers(config)
    run = config.header(config.sweep.blocks)
    with (
        Interruption() as interruption,
        pin_process(config.cores.generator),
        RunWriter(config.folder, run) as store,
        EventWriter(config.folder) as events,
    ):
        write_sweep(config.folder, config.sweep)
        try:
            _SweepRun(config, interruption, store, RecordedProgress(listener, events)).run()
        except Interrupted:
            store.stop_early("it was interrupted")
            return False
    return True


class _SweepRun:
    """The state of one sweep: the recorded trials, and the remaining targets."""

    def __init__(
        self,
        config: SweepConfig,
        interruption: Interruption,
        store: RunWriter,
        listener: ProgressListener,
    ) -> None:
        self.config = config
        self.axis = config.sweep.axis
        self.interruption = interruption
        self.progress = listener
        self.failures: Counter[tuple[str, int | None]] = Counter()
        self.benches: dict[int, TrialRunner] = {}
        window_s = (config.window.warmup_ns + config.window.window_ns) / 1e9
        self.loop = TrialLoop(store, listener, window_s)
        self.trials = self.loop.trials
        # The trials that are planned, and their levels; None: a closed loop of the pilot.
        self.steps: list[tuple[PlannedTrial, int | None]] = []

    def run(self) -> None:
        config = self.config
        levels = config.sweep.levels or self._piloted()
        self.steps = [
            (one.planned, one.level)
            for index in range(config.sweep.blocks)
            for one in plan.level_block(index, config.names, levels, self._kind, seed=config.seed)
        ]
        minutes = self.loop.seconds({self._kind: len(self.steps)}) / 60
        self.progress.note(
            f"{len(levels)} levels of {self.axis}, {', '.join(f'{n:,}' for n in levels)}, in"
            f" {config.sweep.blocks} blocks: about {max(1, round(minutes))} min."
        )
        self._run_steps()

    @property
    def _kind(self) -> TrialKind:
        return TrialKind.FIXED_RATE if self.axis is Axis.RATE else TrialKind.CLOSED_LOOP

    def _piloted(self) -> tuple[int, ...]:
        """Levels of rate: fractions of the slowest target's rate in a closed loop."""
        kind, seed = TrialKind.CLOSED_LOOP, self.config.seed
        pilot = plan.level_block(PILOT_BLOCK, self.config.names, (0,), kind, seed=seed)
        self.steps = [(one.planned, None) for one in pilot]
        self._run_steps()
        capacities = plan.capacities_of(self.trials)
        if not capacities:
            first = next((t.failure.reason for t in self.trials if t.failure), "no trial counts")
            raise JissokuError(f"no target could be measured in a closed loop: {first}")
        return plan.rates_of(capacities)

    def _run_steps(self) -> None:
        """Runs each trial, repeated if disturbed, and records every attempt."""
        while self.steps:
            planned, level = self.steps.pop(0)
            cell = planned.arms[0], level
            if self.failures[cell] >= FAILURES_MAX:
                continue
            trial = self.loop.run(
                planned.kind,
                partial(self._trial, planned, level),
                partial(self._trials_left, planned.kind),
            )
            self.failures[cell] += trial.failure is not None

    def _trial(self, planned: PlannedTrial, level: int | None) -> Trial:
        workload, window = self._workload(level), self.config.window
        trial = run_trial(self._bench(level), planned, workload, window)
        return updated(trial, level=level)

    def _trials_left(self, kind: TrialKind) -> dict[TrialKind, int]:
        return {kind: len(self.steps)}

    def _workload(self, level: int | None) -> Workload:
        work = updated(self.config.workload, rate_rps=level if self.axis is Axis.RATE else None)
        if level is not None and self.axis is Axis.CONNECTIONS:
            return updated(work, connections=level)
        return work

    def _bench(self, level: int | None) -> TrialRunner:
        """The trial runner, the same for all levels unless the level is a number of workers."""
        cores, workers = self.config.cores, None
        key = 0
        if self.axis is Axis.WORKERS and level is not None:
            # As many cores as workers, because more workers than cores would measure the scheduler.
            cores = updated(cores, server=cores.server[:level])
            key = workers = level
        if key not in self.benches:
            self.benches[key] = TrialRunner(
                self.config.arms_prepared, cores, self.interruption, workers=workers
            )
        return self.benches[key]


def _must_take_workers(question: SweepConfig) -> None:
    for arm in question.arms_prepared:
        prepared = arm.prepared
        words = [config.text for config in prepared.config]
        if prepared.start is not None:
            words += [*prepared.start.command, *prepared.start.environment.values()]
        if "workers" not in placeholders(words):
            raise InputError(
                f"{arm.arm.name} takes no number of workers: its command must say where"
                " {workers} goes"
            )
