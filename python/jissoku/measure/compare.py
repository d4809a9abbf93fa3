"""A run whose verdicts are looked for after every block, and that ends when they are there.

The cost of a request at the middle load comes first: three blocks of it are the first table. Then
come the other loads, with the arms that an undecided pair needs, then capacity and the closed loop,
and last the cross-checks.
"""

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from threading import Thread

from jissoku import inference
from jissoku.design import schedule
from jissoku.design.sampling_plan import SEARCH_S
from jissoku.design.schedule import MEDIUM, PlannedMeasurement, PlannedStart, PlannedTrial
from jissoku.errors import HostLost
from jissoku.inference import ablation
from jissoku.inference.bounds import bound_results, bounded_arms
from jissoku.inference.checks import trial_checks
from jissoku.inference.compare import Question
from jissoku.inference.decision import METRIC_NAMES, WITHOUT_FORECAST
from jissoku.inference.limits import server_limits
from jissoku.measure.comparison import CompareConfig, run_header
from jissoku.measure.comparison_run import ComparisonRun, Groups, named
from jissoku.measure.progress import ProgressListener, RecordedProgress
from jissoku.measure.trial import OutOfTime, Servers, TrialRunner
from jissoku.model import Comparison, Condition, Load, LoadLevel, Method, Metric, Trial, TrialKind
from jissoku.model.summary import BoundStatus
from jissoku.model.updated import updated
from jissoku.model.wording import plural
from jissoku.records import RunWriter
from jissoku.records.run_folder import EventWriter
from jissoku.system.cores import pin_process
from jissoku.system.interruption import Interrupted, Interruption

# Blocks of each load before anything can be decided, and of the first table.
FIRST_BLOCKS = 3

# In a limited time a pair that needs more blocks than the run may have is given up after this many:
# before, its spread is too uncertain.
BLOCKS_FOR_FORECAST = 5

# Parts of a limited time at whose ends costs, and all but the cross-checks, are left as they are.
# Blocks before any pair is decided may take all of it: without them nothing can be said.
COSTS_UNTIL, SEARCHES_UNTIL = 0.8, 0.97

# A further load adds about this part of a block at one load, whose targets have to start anyway.
FURTHER_LOAD = 0.6

# The first start of all arms is given up after this many failures, and each arm is started alone.
FIRST_STARTS_MAX = 4

# The trials that costs are compared by; without common trials those of each arm in the closed loop.
COST_KINDS = {
    Method.TIME_SLICED: TrialKind.TIME_SLICED,
    Method.PAIRED: TrialKind.PAIRED,
    Method.SINGLE: TrialKind.CLOSED_LOOP,
}


class AnytimeRun(ComparisonRun):
    def run(self) -> None:
        # It takes a second, while the first targets start.
        Thread(target=inference.compute_looks, args=(self.plan.horizon,), daemon=True).start()
        self._took_s: dict[TrialKind, float] = {}
        self._reported: set[Question] = set()
        self._has_table = False
        self._block_s = 0.0
        self.first_closed_loop = 0
        # The numbers of blocks at which each load is likely to be decided.
        self._goals: dict[Load, int] = {}
        self._lacking: dict[Question, int] = {}
        first = self._begin()
        for stage in (partial(self._measure_costs, first), self._measure_capacities, self._check):
            if self.is_over():
                self.progress.note("No pair is left that could be decided: the run ends here.")
                return
            stage()

    def _begin(self) -> int:
        """Determines the loads; returns the index of the first block that is still to be measured.

        The warm-ups of all arms on one start say which loads each of them reaches, and the first
        block is measured on that start.
        """
        if self.config.given_loads is not None:
            self.set_loads(self.config.given_loads)
            return 0
        if self.is_sliced and self._first_start():
            self._report()
            return 1
        self.first_closed_loop = 1
        if not self.is_over():
            self.pilot()
        return 0

    def _first_start(self) -> bool:
        (kind, (names,)), *_ = [*self.groups(0)] or [(TrialKind.TIME_SLICED, [()])]
        order = random.Random(f"{self.config.seed}/block/0")
        arms = list(names)
        order.shuffle(arms)
        asked = PlannedTrial(block=0, kind=kind, arms=tuple(arms), seed=order.getrandbits(31))
        for _ in range(FIRST_STARTS_MAX):
            planned = self.usable(asked)
            if planned is None:
                return False
            self.progress.begins(f"starting {named(planned)} to choose the loads")
            with self.started(planned) as servers:
                servers.warm_up(planned, self.config.workload, self.plan)
                if servers.failure is None and not self.header.loads:
                    self.add_capacities(servers.rates)
                    self._say_limits(servers)
                    self.set_loads(None)
                    if not self.header.loads:
                        return False
                part = PlannedMeasurement(kind=kind, load=self._main_load())
                if self.measure(servers, planned, part) and not self.finds_busy_arms():
                    return True
        return bool(self.header.loads)

    def _say_limits(self, servers: Servers) -> None:
        seen = [updated(t, failed_checks=trial_checks(t)) for t in servers.warmups.values()]
        for found in server_limits(seen, inference.ranked_arms(self.header)):
            self.progress.note(f"{found.arm} {found.text}. To do: {found.remedy}.")

    def _main_load(self) -> Load:
        """The middle load, which the first table is of."""
        loads = [load for load in self.header.loads if self.is_common(load)] or self.header.loads
        middle = [load for load in loads if load.level is LoadLevel.MEDIUM]
        if middle:
            return middle[0]
        if loads:
            return loads[len(loads) // 2]
        return Load(rate_rps=MEDIUM * len(self.config.cores.server), level=LoadLevel.MEDIUM)

    def _measure_costs(self, first: int) -> None:
        index = first
        while loads := self._loads_left(index):
            kinds = self._cost_kinds(index, loads)
            steps = list(schedule.block(index, loads, kinds, seed=self.config.seed))
            began_s, until = self.elapsed_s(), self._costs_until(index)
            done = sum(self._timed(step, until) for step in steps)
            if len(loads) == 1:
                self._block_s = self.elapsed_s() - began_s
            if done == 0 or done < len(steps):
                break
            index += 1
            self._report()
        self.wanted = {}

    def _costs_until(self, index: int) -> float:
        """The part of a limited time that ends before a block of costs does."""
        if index < FIRST_BLOCKS:
            # The time of a tuning is the lab's own choice: every knob has its first look.
            return 1.0 if self.config.aim is None else math.inf
        return COSTS_UNTIL if self._reported else 1.0

    def _cost_kinds(self, index: int, loads: Sequence[Load]) -> Groups:
        kinds: Groups = {}
        for kind, groups in self.groups(index):
            if kind is TrialKind.TIME_SLICED and not self.is_sliced:
                continue  # That is a cross-check.
            kinds[kind] = [needed for group in groups if (needed := self._needed(group, loads))]
        if self.busy:
            kinds[TrialKind.FIXED_RATE] = self.alone
        if self._repeats_closed_loop and index >= self.first_closed_loop:
            alone = self.alone
            if self.config.aim is not None:
                alone = [one for one in alone if self._needed(one, loads)]
            kinds[TrialKind.CLOSED_LOOP] = alone
        return kinds

    @property
    def _repeats_closed_loop(self) -> bool:
        """Whether each block measures the closed loop, because a value of it is asked for."""
        return self.plan.closed_loop_blocks >= self.plan.horizon

    def _needed(self, group: tuple[str, ...], loads: Sequence[Load]) -> tuple[str, ...]:
        """The arms of a group that a pair is undecided of; a control meets the baseline as long."""
        wanted = set().union(*(self.wanted.get(load, set(group)) for load in loads))
        if not self.is_sliced:
            return group if group[0] in wanted | {self.config.aa_control} else ()
        return tuple(name for name in group if name in wanted)

    def _loads_left(self, index: int) -> list[Load]:
        """The loads of the next block, with an undecided pair; sets the arms that each needs."""
        if not self._cost_kinds(index, self.header.loads):
            return []
        still_open = self._open()
        found = []
        for load in self.header.loads:
            blocks = self._blocks(load)
            here = [one for one in still_open if one[2] == load]
            arms = {name for arm, against, _ in here for name in (arm, against)}
            if not arms or blocks >= self.plan.horizon:
                self._goals[load] = blocks
                continue
            lacking = [self._lacking.get(one, FIRST_BLOCKS) for one in here]
            self._goals[load] = min(self.plan.horizon, blocks + max(lacking))
            extra = {self.config.floor, self.config.aa_control}
            self.wanted[load] = frozenset(arms | extra if blocks < FIRST_BLOCKS else arms)
            found.append(load)
        main = self._main_load()
        if main in found and (index < FIRST_BLOCKS or not self._has_time_for(found)):
            return [main]
        return found

    def _has_time_for(self, loads: Sequence[Load]) -> bool:
        others = [load for load in loads if self._blocks(load) < FIRST_BLOCKS]
        if not self.plan.seconds or not others:
            return True
        left_s = COSTS_UNTIL * self.plan.seconds - self.elapsed_s()
        return has_time_for(len(loads), min(map(self._blocks, others)), self._block_s, left_s)

    def _blocks(self, load: Load) -> int:
        """How many blocks of a load are measured, without cross-checks."""
        kind = COST_KINDS[self.header.method]
        return len(
            {
                trial.block
                for trial in self.trials
                if trial.kind is kind
                and trial.load_rps == load.rate_rps
                and (not self.is_sliced or trial.slice_ns == self.header.slice_ns)
            }
        )

    def _open(self) -> list[Question]:
        """What still has to be measured: of two builds of one program with bounds only these."""
        self._lacking = {}
        bounds = self._undecided_bounds() if self.config.bounds else []
        if self.config.bounds and self.config.one_load:
            return bounds
        return [*bounds, *self._undecided_pairs()]

    def _undecided_bounds(self) -> list[Question]:
        """The pairs of arms of bounds without an answer, at the load where those are decided."""
        heaviest = self.header.loads[-1:]
        found: dict[Question, int] = {}
        for one in bound_results(self.header, self.trials, self.config.bounds):
            if one.status is not BoundStatus.UNDECIDED:
                continue
            arms = bounded_arms(one.text)
            needed = one.blocks_needed or self.plan.horizon
            for asked in self._questions():
                if set(asked[:2]) <= arms and asked[2] in heaviest:
                    found[asked] = max(needed, found.get(asked, 0))
        self._lacking |= found
        return list(found)

    def _undecided_pairs(self) -> list[Question]:
        """Pairs and loads without an answer, of the arms that can have one.

        If there are none, what is left of a limited time goes to ratios that lack calm rotations.
        """
        if self.plan.precision:
            widths = inference.half_widths(self.header, self.trials)
            return [one for one in self._questions() if widths.get(one, 1e9) > self.plan.precision]
        found = self._verdicts()
        self._lacking |= {one: found[one].blocks_needed or self.plan.horizon for one in found}
        left = [
            one
            for one in self._questions()
            if not (self._is_answered(found.get(one)) or self._is_hopeless(found.get(one)))
        ]
        if left or not self.plan.seconds:
            return left
        return [one for one in self._questions() if inference.lacks_calm(found[one])]

    def _verdicts(self) -> Mapping[Question, Comparison]:
        if self.config.metric is Metric.COST:
            return inference.cost_verdicts(self.header, self.trials)
        found = ablation.rates_against_baseline(self.header, self.trials).values()
        return {(one.arm, one.against, one.load): one for one in found}

    def _is_answered(self, found: Comparison | None) -> bool:
        if found is None:
            return False
        aim = self.config.aim
        is_settled = found.is_decided if aim is None else ablation.is_settled(found, aim)
        return is_settled or found.verdict in WITHOUT_FORECAST

    def _is_hopeless(self, found: Comparison | None) -> bool:
        """Whether a limited time is better spent on others: the blocks of the run are too few."""
        if not self.plan.seconds or found is None or found.ratio is None:
            return False
        return found.is_out_of_reach and found.ratio.blocks >= BLOCKS_FOR_FORECAST

    def _questions(self) -> Iterator[Question]:
        for load in self.header.loads:
            here = {
                name
                for name in self.arms_reaching(load)
                if not self.is_gone(name) and name not in self.external
            }
            for arm, against in inference.pairs(self.header):
                if {arm, against} <= here:
                    yield arm, against, load

    def _report(self) -> None:
        found = self._verdicts()
        if self._blocks(self._main_load()) == FIRST_BLOCKS and not self._has_table:
            self._has_table = True
            self._show_first_table(found)
        new = [key for key, one in found.items() if one.is_decided and key not in self._reported]
        self._reported.update(new)
        for key in new:
            if key[1] == self.header.baseline:
                self.progress.verdict(f"{found[key].sentence}.")
        if new:
            asked = list(self._questions())
            decided = sum(self._is_answered(found.get(one)) for one in asked)
            self.progress.verdict(
                f"{decided} of {len(asked)} {plural(len(asked), 'comparison')} of cost"
                f" {plural(decided, 'is', 'are')} decided."
            )
        self.progress.values(self.header, self.trials)

    def _show_first_table(self, found: Mapping[Question, Comparison]) -> None:
        main, baseline = self._main_load(), self.header.baseline
        ratios = [
            f"{arm} {one.ratio.text}"
            for (arm, against, load), one in found.items()
            if (against, load) == (baseline, main) and one.ratio is not None
        ]
        if ratios:
            self.progress.verdict(
                f"After {FIRST_BLOCKS} blocks at {main.text}, multiples of"
                f" {METRIC_NAMES[self.config.metric]} of {baseline}: {', '.join(ratios)}."
            )

    def _measure_capacities(self) -> None:
        plan = self.plan
        searches = plan.capacity_blocks if self.config.objective is not None else 0
        if self._repeats_closed_loop:
            self.first_closed_loop = plan.closed_loop_blocks
        alone = plan.closed_loop_blocks - self.first_closed_loop
        for index in range(max(searches, plan.closed_loop_blocks if alone else 0)):
            if self.is_over():
                return
            is_searched = index < searches
            if not (is_searched or self._has_closed_loop(index)):
                continue
            kind = TrialKind.CAPACITY if is_searched else TrialKind.CLOSED_LOOP
            left_out = {self.config.floor} if is_searched else self._surely_useless()
            kinds: Groups = {kind: [arm for arm in self.alone if arm[0] not in left_out]}
            for step in schedule.block(index, (), kinds, seed=self.config.seed + 1):
                if not self._timed(step, SEARCHES_UNTIL):
                    return

    def _surely_useless(self) -> set[str]:
        """The arms of a tuning without proven savings; none if savings are not the aim."""
        if self.config.aim is None:
            return set()
        paying = [arm for (arm, *_), one in self._verdicts().items() if one.proven]
        wanted = {self.header.baseline, *paying} if paying else set()
        return set(self.config.names) - wanted

    def _check(self) -> None:
        plan, loads = self.plan, self.header.loads
        if inference.neighbours(self.trials).condition is not Condition.QUIET:
            self.progress.note(
                "Other programs run beside it: cross-checks need quiet cores and are left out."
            )
            return
        blocks = max(plan.cross_check_blocks, plan.fixed_rate_blocks)
        for index in range(blocks):
            kinds: Groups = {}
            sliced = dict(self.groups(index)).get(TrialKind.TIME_SLICED)
            if sliced and index < plan.cross_check_blocks and not self.config.is_closed:
                kinds[TrialKind.TIME_SLICED] = sliced
            is_paced = any(load.rate_rps for load in loads)
            if index < plan.fixed_rate_blocks and is_paced and not self.busy:
                kinds[TrialKind.FIXED_RATE] = self.alone
            for step in schedule.block(index, loads, kinds, seed=self.config.seed + 2):
                only = self.is_sliced and step.planned.kind is TrialKind.TIME_SLICED
                if not self._timed(updated(step, only_checks=only), 1.0):
                    return
        if not plan.seconds:
            self.repeat_checks(blocks)

    def _timed(self, step: PlannedStart, until: float) -> bool:
        """Runs a step if a limited time lasts for one more of its kind; whether it ran."""
        kind, began_s = step.planned.kind, self.elapsed_s()
        ends_s = began_s + self._took_s.get(kind, SEARCH_S)
        if self._is_limited and ends_s > until * self.plan.seconds:
            return False
        try:
            self.run_step(step)
        except OutOfTime:
            return False
        self._took_s[kind] = self.elapsed_s() - began_s
        return True

    @property
    def _is_limited(self) -> bool:
        """Whether a limited time ends what runs; the first good trial may take all of it."""
        return self.plan.seconds > 0 and any(trial.failure is None for trial in self.trials)

    def seconds_left(self) -> float:
        """Of a limited time; the first look at each knob of a tuning takes any."""
        is_any = not self._is_limited or self.config.aim is not None
        return math.inf if is_any else super().seconds_left()

    def trials_left(self) -> Mapping[TrialKind, int]:
        """Trials that follow if undecided pairs take as many blocks as they say."""
        plan, names, loads = self.plan, len(self.config.names), self.header.loads
        done = Counter(trial.kind for trial in self.trials if trial.attempt == 0)
        costs = sum(
            max(0, self._goals.get(load, FIRST_BLOCKS) - self._blocks(load)) for load in loads
        )
        checks = len(loads) * plan.cross_check_blocks
        is_paced = any(load.rate_rps for load in loads)
        alone = names * len(loads) * plan.fixed_rate_blocks if is_paced else 0
        closed = names * plan.closed_loop_blocks - done[TrialKind.CLOSED_LOOP]
        found = {
            TrialKind.FIXED_RATE: alone - done[TrialKind.FIXED_RATE],
            TrialKind.CLOSED_LOOP: names * costs if self._repeats_closed_loop else closed,
        }
        # Arms that are alike have a trial for each pair.
        arms = set(self.config.names) & set().union(*self.wanted.values())
        pairs = (len(arms) or names) - 1 if self.header.method is Method.PAIRED else 1
        found.setdefault(COST_KINDS[self.header.method], costs * pairs)
        if self.config.objective is not None:
            searches = names * plan.capacity_blocks
            found[TrialKind.CAPACITY] = searches - done[TrialKind.CAPACITY]
        if done[TrialKind.FIXED_RATE] < alone:
            found[TrialKind.TIME_SLICED] = found.get(TrialKind.TIME_SLICED, 0) + checks
        return {kind: max(0, count) for kind, count in found.items()}


def has_time_for(loads: int, blocks: int, block_s: float, left_s: float) -> bool:
    """Whether the time left is enough for the first verdicts at some loads.

    The further ones have some blocks already; `block_s` is the duration of one at one load.
    """
    each_s = block_s * (1 + FURTHER_LOAD * (loads - 1))
    return (FIRST_BLOCKS - blocks) * each_s <= left_s


def compare(
    config: CompareConfig, listener: ProgressListener, seen: list[Trial] | None = None
) -> bool:
    """Runs a campaign, with its records in the configured folder; False if it was interrupted.

    HostLost: the host of the targets is gone; the trials until then are recorded.
    `seen` receives its trials, with the paths of this machine that records leave out.
    """
    run = run_header(config)
    with (
        Interruption() as interruption,
        pin_process(config.cores.generator),
        RunWriter(config.folder, run) as store,
        EventWriter(config.folder) as events,
    ):
        runner = TrialRunner(
            config.arms_prepared, config.cores, interruption, note=listener.note, host=config.host
        )
        order = AnytimeRun if config.plan.horizon else ComparisonRun
        campaign = order(config, run, runner, store, RecordedProgress(listener, events))
        try:
            campaign.run()
        except OutOfTime:
            return True
        except (Interrupted, HostLost) as error:
            blocks = len({trial.block for trial in campaign.trials})
            is_lost = isinstance(error, HostLost)
            reason = "the host of its targets was lost" if is_lost else "it was interrupted"
            store.stop_early(f"{reason} in block {blocks}")
            if is_lost:
                raise
            return False
        finally:
            if seen is not None:
                seen += campaign.trials
    return True
