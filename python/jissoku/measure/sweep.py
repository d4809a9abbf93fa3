"""A sweep: blocks in which every target runs once at every level, in random order.

As a campaign with one more factor and without paired trials: the change of a target with the level
is measured, and all levels are measured within one block.
"""

from collections import Counter
from dataclasses import dataclass
from functools import partial

from jissoku.design import schedule as plan
from jissoku.design.schedule import PlannedTrial
from jissoku.errors import HostLost, InputError, JissokuError
from jissoku.measure.comparison import RunConfig
from jissoku.measure.loadgen import TrialTiming
from jissoku.measure.progress import ProgressListener, RecordedProgress
from jissoku.measure.trial import FAILURES_MAX, TrialLoop, TrialRunner, started_servers
from jissoku.model import Axis, Sweep, Trial, TrialKind, Workload, updated
from jissoku.records import RunWriter, write_sweep
from jissoku.records.run_folder import EventWriter
from jissoku.system.cores import pin_process
from jissoku.system.interruption import Interrupted, Interruption
from jissoku.targets.placeholders import placeholders

# The closed loops of the pilot, which determine the offered rates.
PILOT_BLOCK = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepConfig(RunConfig):
    """Without levels the lab chooses them; those of rates follow from a pilot."""

    sweep: Sweep
    window: TrialTiming
    verb: str = "sweep"


def run_sweep(config: SweepConfig, listener: ProgressListener) -> bool:
    """Runs a sweep, with its records in the configured folder; False if it was interrupted.

    HostLost: the host of the targets is gone; the trials until then are recorded.
    """
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
        except HostLost:
            store.stop_early("the host of its targets was lost")
            raise
    return True


@dataclass(eq=False)
class _SweepRun:
    config: SweepConfig
    interruption: Interruption
    writer: RunWriter
    progress: ProgressListener

    def __post_init__(self) -> None:
        self.axis, window = self.config.sweep.axis, self.config.window
        self.failures: Counter[tuple[str, int | None]] = Counter()
        self.benches: dict[int | None, TrialRunner] = {}
        window_s = (window.warmup_ns + window.window_ns) / 1e9
        self.loop = TrialLoop(self.writer, self.progress, window_s)
        self.trials = self.loop.trials
        # The trials that are planned, and their levels; None: a closed loop of the pilot.
        self.steps: list[tuple[PlannedTrial, int | None]] = []

    def run(self) -> None:
        config = self.config
        levels = config.sweep.levels or self._piloted()
        self.steps = [
            step
            for index in range(config.sweep.blocks)
            for step in plan.level_block(index, config.names, levels, self._kind, seed=config.seed)
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
        kind, seed = TrialKind.CLOSED_LOOP, self.config.seed
        pilot = plan.level_block(PILOT_BLOCK, self.config.names, (0,), kind, seed=seed)
        self.steps = [(planned, None) for planned, _ in pilot]
        self._run_steps()
        capacities = plan.capacities_of(self.trials)
        if not capacities:
            first = next((t.failure.reason for t in self.trials if t.failure), "no trial counts")
            raise JissokuError(f"no target could be measured in a closed loop: {first}")
        return plan.rates_of(capacities)

    def _run_steps(self) -> None:
        while self.steps:
            planned, level = self.steps.pop(0)
            cell = planned.arms[0], level
            if self.failures[cell] >= FAILURES_MAX:
                continue
            trial = self.loop.run(
                planned.kind,
                partial(self._trial, planned, level),
                partial(lambda kind: {kind: len(self.steps)}, planned.kind),
            )
            self.failures[cell] += trial.failure is not None

    def _trial(self, planned: PlannedTrial, level: int | None) -> Trial:
        workload = self._workload(level)
        with started_servers(self._bench(level), planned, workload) as servers:
            trial = servers.measure(planned, workload, self.config.window)
            servers.stop()
        if servers.failure is not None and trial.failure is None:
            trial = updated(trial, measurements=(), conditions=None, failure=servers.failure)
        return updated(trial, level=level)

    def _workload(self, level: int | None) -> Workload:
        work = updated(self.config.workload, rate_rps=level if self.axis is Axis.RATE else None)
        if level is not None and self.axis is Axis.CONNECTIONS:
            return updated(work, connections=level)
        return work

    def _bench(self, level: int | None) -> TrialRunner:
        cores, workers = self.config.cores, level if self.axis is Axis.WORKERS else None
        if workers is not None:
            # As many cores as workers, because more workers than cores would measure the scheduler.
            cores = updated(cores, server=cores.server[:workers])
        if workers not in self.benches:
            self.benches[workers] = TrialRunner(
                self.config.arms_prepared,
                cores,
                self.interruption,
                workers=workers,
                host=self.config.host,
            )
        return self.benches[workers]


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
