"""A campaign: a pilot determines the loads that each arm reaches, then blocks of trials follow.

A block is, in random order: one start of all arms, measured in slices at each load (or paired
trials of similar arms), and in some blocks each arm alone at each load, in the closed loop, and in
a search for its capacity.
"""

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from jissoku import inference, model
from jissoku.design import schedule
from jissoku.design.sampling_plan import WINDOW_REQUESTS, SamplingPlan
from jissoku.design.schedule import PlannedMeasurement, PlannedStart, PlannedTrial
from jissoku.measure import trial as trials
from jissoku.measure.comparison import CompareConfig, external
from jissoku.measure.loadgen import TrialTiming
from jissoku.measure.progress import ProgressListener
from jissoku.model import plural, updated
from jissoku.records import RunWriter

# Arms that are measured together, by the kind of their trials.
Groups = dict[model.TrialKind, Sequence[tuple[str, ...]]]

# Time in which the idle targets are observed before the first request of a trial, in nanoseconds.
IDLE_WATCH_NS = 200_000_000

GRID_LEVELS = (model.LoadLevel.LIGHT, model.LoadLevel.MEDIUM, model.LoadLevel.HEAVY)

# An arm without a valid trial among this many has none to come.
WRONG_MAX = 3

# An arm that answers more than this part of the requests in its only trial is measured again: the
# window may have been disturbed. With less, another trial would take more than twice its time.
SINGLE_TRIAL_MAX = 0.5

# The part of the rates that arms reach which the load of two builds, or of a server and its knobs,
# may be: a short closed loop promises rates that are not held, near full load costs vary, and what
# costs something would not reach it.
ONE_LOAD_ROOM = 0.6

# The closed loop of the pilot, which determines the loads that an arm reaches.
PILOT_BLOCK = 0


def repeated_checks(
    run: model.Run, plan: SamplingPlan, found: Sequence[model.Comparison], first: int
) -> list[PlannedStart]:
    """The starts of further blocks of every cross-check, from index `first` on.

    Of the arms and loads of the comparisons in `found` alone. A check has few blocks, and two that
    lie close together by chance contradict a right ratio: in 39 runs of one program with 2 % more
    work two checks did. What a method really does wrong is still there when it is measured again.
    """
    names = {name for one in found for name in (one.arm, one.against)}
    arms = tuple(arm.name for arm in run.arms if arm.name in names)
    loads = tuple(load for load in run.loads if any(one.load == load for one in found))
    kinds: Groups = {
        model.TrialKind.TIME_SLICED: [arms],
        model.TrialKind.FIXED_RATE: [(name,) for name in arms],
    }
    only_checks = run.method is model.Method.TIME_SLICED
    blocks = range(first, first + plan.repeated_check_blocks) if arms and loads else ()
    return [
        updated(
            start, only_checks=only_checks and start.planned.kind is model.TrialKind.TIME_SLICED
        )
        for index in blocks
        for start in schedule.block(index, loads, kinds, seed=run.seed)
    ]


def measurements(start: PlannedStart) -> Iterator[PlannedMeasurement]:
    for load in start.loads:
        if not start.only_checks:
            yield PlannedMeasurement(kind=start.planned.kind, load=load)
        if start.only_checks or start.is_check:
            yield PlannedMeasurement(kind=start.planned.kind, load=load, is_check=True)


@dataclass(eq=False)
class ComparisonRun:
    config: CompareConfig
    header: model.Run
    runner: trials.TrialRunner
    writer: RunWriter
    progress: ProgressListener

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self.runner.seconds_left = self.seconds_left
        self.failures: Counter[str] = Counter()
        # Arms that take time from others in slices; they are compared by trials of each arm alone.
        self.busy: set[str] = set()
        self.capacities: dict[str, float] = {}
        self.starts = 0
        # The pilot is the closed loop of the first block.
        self.first_closed_loop = 1
        plan = self.config.plan
        window_s = (plan.warmup_ns + plan.window_ns) / 1e9
        self.loop = trials.TrialLoop(self.writer, self.progress, window_s, plan.seconds)
        self.trials = self.loop.trials
        # What is planned: of the start that is measured, of its block, and of the run.
        self.parts: list[PlannedMeasurement] = []
        self.steps: list[PlannedStart] = []
        self.blocks_left = range(plan.blocks_max)
        self.external = external(self.config)
        # With looks after every block: the arms that a load still needs.
        self.wanted: dict[model.Load, frozenset[str]] = {}

    @property
    def is_sliced(self) -> bool:
        return self.header.method is model.Method.TIME_SLICED

    @property
    def alone(self) -> list[tuple[str, ...]]:
        return [(name,) for name in self.config.names]

    @property
    def plan(self) -> SamplingPlan:
        """How much is measured; an arm that is busy changes it."""
        return self.config.plan

    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def seconds_left(self) -> float:
        """Of a limited time, after which no load may end."""
        return self.plan.seconds - self.elapsed_s() if self.plan.seconds else math.inf

    def run(self) -> None:
        self.pilot()
        for index in range(self.plan.blocks_max):
            self.blocks_left = range(index + 1, self.plan.blocks_max)
            self.run_steps(self._block(index, self.header.loads))
        self.repeat_checks(self.plan.blocks_max)

    def pilot(self) -> None:
        config = self.config
        loads = config.given_loads
        if self.plan.closed_loop_blocks > 0 or loads is None:
            kinds: Groups = {model.TrialKind.CLOSED_LOOP: self.alone}
            self.run_steps(schedule.block(PILOT_BLOCK, (), kinds, seed=config.seed))
            self.add_capacities(schedule.capacities_of(self.trials))
        self.set_loads(loads)

    def set_loads(self, loads: tuple[model.Load, ...] | None) -> None:
        """Writes the loads into the header; None: those of the grid that enough arms reach."""
        config = self.config
        if loads is None:
            names = inference.ranked_arms(self.header)
            # A single load is one of all arms: of a server and its knobs, the slowest may be the
            # server as it is.
            needed = len(names) if config.one_load else 2
            cores = len(config.cores.server)
            room = ONE_LOAD_ROOM if config.one_load and not config.experiment else 1.0
            rates = {name: room * rate for name, rate in self.capacities.items()}
            loads = schedule.loads(rates, names, config.mode, cores, needed=needed)
            if config.one_load:  # The heaviest that every arm reaches, or else that two do.
                common = [load for load in loads if self.is_common(load)]
                loads = tuple((common or loads)[-1:])
        self.header = self.writer.update(updated(self.header, loads=loads))
        text = "; ".join(load.text for load in loads)
        self.progress.note(f"Loads: {text or 'none that two targets reach'}.")
        heaviest = loads[-1].level if loads and not config.one_load else model.LoadLevel.HEAVY
        if heaviest in GRID_LEVELS[:-1]:
            missing = " and no ".join(GRID_LEVELS[GRID_LEVELS.index(heaviest) + 1 :])
            self.progress.note(
                f"There is no {missing} load: fewer than two targets reach its rate."
            )
        for load in loads:
            if left_out := self._left_out(load):
                self.progress.note(f"Not at {load.text}: {', '.join(sorted(left_out))}.")

    def _left_out(self, load: model.Load) -> set[str]:
        return {*self.config.names} - {*self.arms_reaching(load)}

    def is_common(self, load: model.Load) -> bool:
        """Whether every arm reaches a load, of those that are compared."""
        return {*inference.ranked_arms(self.header)} <= {*self.arms_reaching(load)}

    def add_capacities(self, rates: Mapping[str, float]) -> None:
        """Keeps the best closed-loop rate of each arm, in requests per second.

        A short closed loop may be disturbed: an arm that a later one shows to be faster is measured
        at the loads that it was left out of.
        """
        left_out = {load: self._left_out(load) for load in self.header.loads}
        for name, rate in rates.items():
            self.capacities[name] = max(rate, self.capacities.get(name, 0.0))
        first = self.config.names[0]
        if self.config.aa_control and first in self.capacities:
            self.capacities[self.config.aa_control] = self.capacities[first]
        for load, names in left_out.items():
            if came := names - self._left_out(load):
                self.progress.note(f"At {load.text} after all: {', '.join(sorted(came))}.")

    def repeat_checks(self, first: int) -> None:
        """Further blocks of cross-checks, from an index on, where one does not agree."""
        found = inference.contradicted(self.header, self.trials)
        starts = repeated_checks(self.header, self.plan, found, first)
        if starts:
            pairs = sorted({f"{one.arm} / {one.against}" for one in found})
            blocks = self.plan.repeated_check_blocks
            self.progress.note(
                f"A cross-check does not agree for {', '.join(pairs)}: measuring"
                f" {blocks} more {plural(blocks, 'block')} of it."
            )
        self.run_steps(starts)

    def _block(self, index: int, loads: Sequence[model.Load]) -> Iterator[PlannedStart]:
        plan, alone = self.plan, self.alone
        kinds: Groups = dict(self.groups(index))
        if index < plan.fixed_rate_blocks and any(load.rate_rps for load in loads):
            kinds[model.TrialKind.FIXED_RATE] = alone
        if index < plan.capacity_blocks and self.config.objective is not None:
            kinds[model.TrialKind.CAPACITY] = [arm for arm in alone if arm[0] != self.config.floor]
        elif self._has_closed_loop(index):
            kinds[model.TrialKind.CLOSED_LOOP] = alone
        checks = self.is_sliced and index < plan.cross_check_blocks
        return schedule.block(index, loads, kinds, seed=self.config.seed, checks=checks)

    def _has_closed_loop(self, index: int) -> bool:
        return self.first_closed_loop <= index < self.plan.closed_loop_blocks

    def groups(self, index: int) -> Iterator[tuple[model.TrialKind, Sequence[tuple[str, ...]]]]:
        names = [arm.name for arm in self.config.arms if arm.name not in self.external]
        if not self.config.joint_trials or len(names) < 2:
            return
        if self.is_sliced:
            yield model.TrialKind.TIME_SLICED, [tuple(names)]
        elif self.header.method is model.Method.PAIRED:
            named = [name for name in names if name != self.config.aa_control]
            control = self.config.aa_control if self.plan.has_control(index) else ""
            yield model.TrialKind.PAIRED, schedule.baseline_first(named, control)
            if index < self.plan.cross_check_blocks and not self.config.is_closed:
                yield model.TrialKind.TIME_SLICED, [tuple(named)]

    def run_steps(self, steps: Iterable[PlannedStart]) -> None:
        self.steps = list(steps)
        while self.steps:
            self.run_step(self.steps.pop(0))

    def run_step(self, step: PlannedStart) -> None:
        """Starts the arms of a step and measures them at each load, with all arms that reach it."""
        planned = self.usable(step.planned)
        if planned is None:
            return
        workload = self.config.workload
        self.parts = left = list(self._parts(step))
        # One start more than failures can need: after the one that finds busy arms.
        for _ in range(trials.FAILURES_MAX + 2):
            self.progress.begins(f"starting {named(planned)}, block {planned.block + 1}")
            with self.started(planned) as servers:
                servers.warm_up(planned, workload, self.plan)
                if self.plan.horizon and self.config.given_loads is None:
                    self.add_capacities(servers.rates)
                while left:
                    part = left.pop(0)
                    if not self.measure(servers, planned, part):
                        break
                    if self.finds_busy_arms():
                        left.insert(0, part)
                        break
            planned = self.usable(step.planned)
            if not left or planned is None:
                return

    @contextmanager
    def started(self, planned: PlannedTrial) -> Iterator[trials.Servers]:
        with trials.started_servers(self.runner, planned, self.config.workload) as servers:
            self.starts += 1
            yield servers

    def _parts(self, step: PlannedStart) -> Iterator[PlannedMeasurement]:
        kind = step.planned.kind
        if kind is model.TrialKind.CAPACITY and self._has_closed_loop(step.planned.block):
            yield PlannedMeasurement(kind=model.TrialKind.CLOSED_LOOP)
        if kind in {model.TrialKind.CLOSED_LOOP, model.TrialKind.CAPACITY}:
            yield PlannedMeasurement(kind=kind)
            return
        yield from measurements(step)

    def finds_busy_arms(self) -> bool:
        last = self.trials[-1:]  # None before the first trial, of which too few arms were left.
        found = frozenset().union(*map(inference.busy_arms, last)) - self.busy
        if not found or not self.is_sliced:
            return False
        self.busy |= found
        plan = updated(self.plan, fixed_rate_blocks=self.plan.blocks_max)
        self.config = updated(self.config, plan=plan)
        self.progress.note(
            f"{', '.join(sorted(found))}: works while others are under load, so it is compared by"
            " trials of each target alone, in every block."
        )
        return True

    def is_gone(self, name: str) -> bool:
        """Whether an arm is measured no further: it failed too often, or answers wrongly."""
        if self.failures[name] >= trials.FAILURES_MAX:
            return True
        mine = [trial for trial in self.trials if name in trial.arms and trial.failure is None]
        wrong = sum(any(check.is_wrong_answer(name) for check in one.failed_checks) for one in mine)
        return wrong >= WRONG_MAX and not any(trial.is_valid_for(name) for trial in mine)

    def is_over(self) -> bool:
        gone = {name for name in self.config.names if self.is_gone(name)}
        return bool(gone) and not any(gone.isdisjoint(one) for one in inference.pairs(self.header))

    def usable(self, planned: PlannedTrial) -> PlannedTrial | None:
        """A step without arms that failed too often or take time from others; None if too few."""
        busy = self.busy if planned.kind is model.TrialKind.TIME_SLICED else ()
        arms = tuple(name for name in planned.arms if not self.is_gone(name) and name not in busy)
        return _with_arms(planned, arms)

    def measure(
        self, servers: trials.Servers, started: PlannedTrial, part: PlannedMeasurement
    ) -> bool:
        """Runs one trial, repeated if disturbed; whether the start can be used further."""
        names = started.arms
        if part.load is not None:
            reaching = set(self.arms_reaching(part.load))
            if part.kind.is_joint and not part.is_check and part.load in self.wanted:
                reaching &= self.wanted[part.load]
            names = tuple(name for name in started.arms if name in reaching)
        planned = _with_arms(updated(started, kind=part.kind), names)
        if planned is None:
            return True
        self.progress.begins(f"{_measuring(planned, part.load)}, block {planned.block + 1}")
        # A disturbed search is not repeated, because it takes too long.
        reruns = 0 if part.kind is model.TrialKind.CAPACITY else trials.RERUNS_MAX
        trial = self.loop.run(
            planned.kind,
            lambda: updated(self._trial(servers, planned, part), start_index=self.starts),
            self.trials_left,
            reruns,
        )
        if trial.failure is None:
            return True
        self.failures[trial.failure.arm] += 1
        if self.is_gone(trial.failure.arm):
            self.progress.note(f"{trial.failure.arm} failed again: it is measured no further.")
        return False

    def trials_left(self) -> Mapping[model.TrialKind, int]:
        """Trials that are planned, by kind, without reruns; at one load until they are known."""
        loads = self.header.loads or (model.FULL_LOAD,)
        later = (step for index in self.blocks_left for step in self._block(index, loads))
        gone = {name for name in self.config.names if self.is_gone(name)}
        steps = [step for step in (*self.steps, *later) if not gone.issuperset(step.planned.arms)]
        parts = (part for step in steps for part in self._parts(step))
        return Counter(part.kind for part in (*self.parts, *parts))

    def _trial(
        self, servers: trials.Servers, planned: PlannedTrial, part: PlannedMeasurement
    ) -> model.Trial:
        config, plan, load = self.config, self.plan, part.load
        if planned.kind is model.TrialKind.CAPACITY:
            assert config.objective is not None, "a search is planned with an objective only"
            first = self._first_rate(planned)
            return servers.search(planned, config.workload, config.objective, first)
        rate = None if load is None else load.rate_rps
        if planned.kind is model.TrialKind.PAIRED and rate is not None:
            rate = max(1, rate // model.SINGLE_RATE_FACTOR)
        workload = updated(config.workload, rate_rps=rate)
        if planned.kind is not model.TrialKind.TIME_SLICED or load is None:
            settle_ns = plan.settle_ns if planned.kind is model.TrialKind.FIXED_RATE else 0
            # In the closed loop as long as two answers on each connection take.
            turns_rps = self.capacities.get(planned.arms[0], 0.0) / workload.connections
            pace = rate if load is not None else WINDOW_REQUESTS * turns_rps / 2
            timing = TrialTiming(max(plan.warmup_ns, settle_ns), plan.window(planned.kind, pace))
            return servers.measure(planned, workload, timing)
        slices = plan.slice_length(load, is_check=part.is_check)
        span_ns = plan.active_ns(load, is_check=part.is_check) * len(planned.arms)
        timing = TrialTiming(plan.settle_ns, span_ns, slices.length_ns, IDLE_WATCH_NS)
        return updated(servers.measure(planned, workload, timing), slice_ns=slices.nominal_ns)

    def _first_rate(self, planned: PlannedTrial) -> int:
        (arm,) = planned.arms
        known = [t.capacity for t in self.trials if t.capacity and t.arms == (arm,)]
        met = [one.rate_rps for one in known if one.rate_rps]
        near = met[-1] if met else schedule.FIRST_OF_CLOSED_LOOP * self.capacities.get(arm, 1_000.0)
        return schedule.first_rate(near, planned.seed)

    def arms_reaching(self, load: model.Load) -> tuple[str, ...]:
        """The arms that are measured at a load: of a given one all but those found too slow."""
        slow = inference.unreached(self.trials, single_max=SINGLE_TRIAL_MAX)
        names = [a.name for a in self.config.arms if (a.name, load.rate_rps) not in slow]
        if load.level is model.LoadLevel.GIVEN:
            return tuple(names)
        return schedule.arms_reaching(load, self.capacities, names)


def _with_arms(planned: PlannedTrial, arms: tuple[str, ...]) -> PlannedTrial | None:
    """A trial of these arms; None if they are too few."""
    if len(arms) < (2 if planned.kind.is_joint else 1):
        return None
    return updated(planned, arms=arms)


def _measuring(planned: PlannedTrial, load: model.Load | None) -> str:
    if planned.kind is model.TrialKind.CAPACITY:
        return f"searching the capacity of {named(planned)}"
    where = "in a closed loop"
    if load is not None:
        where = f"at {load.rate_rps:,}/s" if load.rate_rps else f"at {load.text}"
    return f"measuring {named(planned)} {where}"


def named(planned: PlannedTrial) -> str:
    arms = planned.arms
    return " and ".join(arms) if len(arms) < 3 else f"{len(arms)} targets"
