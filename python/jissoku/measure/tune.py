"""Tuning: each knob alone, all together, all but each, and the accepted ones on fresh blocks.

Counters come first, in separate trials. Of many knobs a screening design excludes those that surely
have no effect. Then three campaigns, each with its records in a separate folder: `alone` relative
to the unchanged configuration, `without` relative to all knobs together, and `proof`, which decides
on blocks that no choice was based on. Knobs that are judged by the rate at full load follow
(`jissoku.measure.full_load`).
"""

from collections.abc import Sequence

from jissoku import records
from jissoku.design import variants
from jissoku.design.sampling_plan import SamplingPlan
from jissoku.design.variants import BASELINE, KNOBS_MIN, PROVEN, Combination
from jissoku.errors import TargetError
from jissoku.inference import ablation
from jissoku.inference.ablation import USER_US, KnobEvidence, trial_counters
from jissoku.measure import full_load
from jissoku.measure.compare import compare
from jissoku.measure.counting import count_arm
from jissoku.measure.progress import ProgressListener
from jissoku.measure.tuning_target import TuningConfig, TuningTarget
from jissoku.model import (
    Comparison,
    CounterReadings,
    Decision,
    Knob,
    KnobResult,
    Objective,
    Run,
    Trial,
    TrialKind,
    TuningResult,
)
from jissoku.model.updated import updated

# Blocks of a screening design: each knob is on in half of all runs, so two suffice.
SCREEN_BLOCKS = 2


def tune(target: TuningTarget, config: TuningConfig, listener: ProgressListener) -> TuningResult:
    """Tests every knob, and confirms the accepted ones together.

    Raises:
        TargetError: The unchanged target does not answer.
        InputError: The folder holds a run already or cannot be written.
    """
    return _Tuner(target, config, listener).run()


class _Tuner:
    def __init__(
        self, target: TuningTarget, config: TuningConfig, listener: ProgressListener
    ) -> None:
        self.target = target
        self.config = config
        self.progress = listener
        self.knobs = tuple(knob for knob in target.knobs if knob.objective is Objective.COST)
        self.names = tuple(knob.name for knob in self.knobs)
        self.workload = config.workload
        self.trials: list[Trial] = []

    def run(self) -> TuningResult:
        """Runs all steps in order."""
        text = TuningResult(
            target=self.target.name,
            path=self.config.workload.path,
            jissoku=self.config.version,
            seed=self.config.seed,
            results=(),
            skipped=self.target.skipped,
            sandbox=self.target.sandbox,
        )
        if self.names:
            text = self._by_cost(text)
        return full_load.tune(self.target, self.config, text, self.progress)

    def _by_cost(self, text: TuningResult) -> TuningResult:
        self.progress.note("Counting what a request does, with each knob.")
        counts = {name: self._count(knobs) for name, knobs in self._combinations_counted()}
        if len(self.names) >= KNOBS_MIN:
            finished, out = self._screened(counts)
            text = updated(text, results=out, finished=finished)
            if not finished or not self.names:
                return text
        finished, alone = self._campaign(
            "alone", variants.one_at_a_time_and_all(self.names), self.config.plan
        )
        # The load and the cost of each arm alone are known: these blocks have pairs only.
        brief = updated(self.config.plan, closed_loop_blocks=0, fixed_rate_blocks=0)
        without: dict[str, Comparison] = {}
        if finished and len(self.names) > 1:
            finished, without = self._campaign("without", variants.leave_one_out(self.names), brief)
        found = [self._findings(knob, counts, alone, without) for knob in self.knobs]
        results = ablation.decide_knobs(found)
        text = updated(
            text,
            results=(*results, *text.results),
            all_together=alone.get(variants.ALL),
            finished=finished,
        )
        return self._confirmed(text) if finished else text

    def _screened(self, counts: dict[str, CounterReadings]) -> tuple[bool, tuple[KnobResult, ...]]:
        """Excludes knobs without an effect; the rest is tested as without screening."""
        fit = tuple(name for name in self.names if counts[name].requests)
        combinations = variants.screening_runs(fit)
        self.progress.note(f"A first look at {len(fit)} knobs in {len(combinations)} runs.")
        brief = updated(
            self.config.plan,
            blocks=SCREEN_BLOCKS,
            blocks_max=SCREEN_BLOCKS,
            blocks_step=0,
            closed_loop_blocks=1,
            fixed_rate_blocks=0,
            cross_check_blocks=0,
        )
        run, trials, finished = self._run("screen", combinations, brief)
        self._keep_loads(run)
        switched = {one.name: one.knobs for one in combinations if one.knobs}
        effects = ablation.effects(run, trials, switched, fit)
        out = ablation.screened_out(self.knobs, counts, effects, run.minimum_effect)
        gone = {result.knob.name for result in out}
        self.knobs = tuple(knob for knob in self.knobs if knob.name not in gone)
        self.names = tuple(knob.name for knob in self.knobs)
        return finished, out

    def _confirmed(self, text: TuningResult) -> TuningResult:
        accepted = tuple(r.knob.name for r in text.results if r.decision is Decision.ACCEPTED)
        if not accepted:
            return text
        self.progress.note(f"Proving {', '.join(accepted)} together on fresh blocks.")
        fresh = updated(self.config, seed=self.config.seed + 1)
        self.config = fresh
        finished, found = self._campaign("proof", variants.confirmation(accepted), fresh.plan)
        bundle = found.get(PROVEN)
        same = ablation.same_answers(self.trials, (BASELINE, PROVEN))
        is_proven = bundle is not None and same and ablation.is_confirmed(bundle)
        return updated(
            text,
            combined=bundle,
            proven=is_proven,
            kept=accepted if is_proven else (),
            diff=self.target.diff(accepted) if is_proven else "",
            finished=finished,
        )

    def _combinations_counted(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(BASELINE, ()), *((name, (name,)) for name in self.names)]

    def _findings(
        self,
        knob: Knob,
        counts: dict[str, CounterReadings],
        alone: dict[str, Comparison],
        without: dict[str, Comparison],
    ) -> KnobEvidence:
        arm = variants.name_alone(knob.name)
        return KnobEvidence(
            knob=knob,
            alone=alone[arm],
            leave_one_out=without.get(variants.name_leave_one_out(knob.name)),
            base=self._with_trials(counts[BASELINE], BASELINE),
            switched=self._with_trials(counts[knob.name], arm),
            same_answers=ablation.same_answers(self.trials, (BASELINE, arm)),
        )

    def _with_trials(self, counts: CounterReadings, arm: str) -> CounterReadings:
        """Counters of separate trials, and those of the paired trials.

        The kernel divides CPU time between user space and itself by ticks of 10 ms, of which an arm
        at a light load may have none: what it uses in user space is that of its closed loop.
        """
        paired = trial_counters(self.trials, TrialKind.PAIRED, arm)
        closed = trial_counters(self.trials, TrialKind.CLOSED_LOOP, arm)
        user_us = {name: us for name, us in closed.items() if name == USER_US}
        return updated(counts, per_request=counts.per_request | paired | user_us)

    def _campaign(
        self, name: str, combinations: Sequence[Combination], effort: SamplingPlan
    ) -> tuple[bool, dict[str, Comparison]]:
        """Runs one campaign; whether it finished, and the comparisons with the baseline."""
        run, trials, finished = self._run(name, combinations, effort)
        self._keep_loads(run)
        return finished, ablation.against_baseline(run, trials)

    def _run(
        self, name: str, combinations: Sequence[Combination], effort: SamplingPlan
    ) -> tuple[Run, Sequence[Trial], bool]:
        config = updated(self.config, workload=self.workload, plan=effort)
        question = config.compare_config(name, self.target, combinations)
        finished = compare(question, self.progress)
        run, trials = records.read(question.folder)
        self.trials.extend(trials)
        return run, trials, finished

    def _keep_loads(self, run: Run) -> None:
        """The load chosen first is kept, so that all effects refer to one load."""
        if run.loads and not self.config.loads:
            self.config = updated(self.config, loads=run.loads[-1:])

    def _count(self, knobs: tuple[str, ...]) -> CounterReadings:
        """Counts in a separate trial; a target that does not answer has no counters."""
        config = self.config
        seed = f"{config.seed}/{knobs}"
        try:
            return count_arm(self.target.prepared(knobs), config.workload, config.cores, seed)
        except TargetError as error:
            if not knobs:
                said = f"{self.target.name}: {error}\n{error.stderr}"
                raise TargetError(said.rstrip()) from error
            return CounterReadings(requests=0, syscalls_reason=str(error))
