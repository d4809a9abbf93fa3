"""Tuning: each knob alone, all together, all but each, and the accepted ones on fresh blocks.

Counters come first, in separate trials. Of many knobs a screening design excludes those that surely
have no effect. Then three campaigns, each with its records in a separate folder: `alone` relative
to the unchanged configuration, `without` relative to all knobs together, and `proof`, which decides
on blocks that no choice was based on. Knobs that are judged by the rate at full load follow
(`tune_full_load`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jissoku import records
from jissoku.design import variants
from jissoku.design.sampling_plan import SamplingPlan
from jissoku.design.variants import BASELINE, KNOBS_MIN, PROVEN, Combination
from jissoku.errors import TargetError
from jissoku.inference import ablation
from jissoku.inference.ablation import USER_US, KnobEvidence, trial_counters
from jissoku.measure.compare import compare
from jissoku.measure.comparison import CompareConfig
from jissoku.measure.counting import count_arm
from jissoku.measure.progress import ProgressListener
from jissoku.measure.selection import recorded
from jissoku.measure.trial import PreparedArm
from jissoku.model import (
    Comparison,
    CoreAssignment,
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
from jissoku.request import ExplanationRequest, TuningRequest
from jissoku.system.cores import available_cores
from jissoku.targets.prepare import PreparedTarget

# A single check, after enough blocks for the variation of trials that run one after the other.
FULL_LOAD_BLOCKS_MIN = 12

# Blocks of a screening design: each knob is on in half of all runs, so two suffice.
SCREEN_BLOCKS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningTarget:
    """The target of a tuning, and its knobs.

    Attributes:
        skipped: Knobs that are not tested, each with the reason.
        prepared: Prepares the target with these knobs switched.
        diff: The change from the unchanged configuration to one with these knobs switched.
    """

    name: str
    knobs: tuple[Knob, ...]
    prepared: Callable[[tuple[str, ...]], PreparedTarget]
    diff: Callable[[tuple[str, ...]], str]
    skipped: dict[str, str] = field(default_factory=dict)
    sandbox: tuple[str, ...] = ()


def _measured(
    config: CompareConfig,
    name: str,
    target: TuningTarget,
    combinations: Sequence[Combination],
    listener: ProgressListener,
) -> tuple[bool, Run, tuple[Trial, ...]]:
    """Runs a campaign with its records in a folder of this name; whether it finished, and these."""
    arms = []
    for one in combinations:
        prepared = target.prepared(one.knobs)
        arms.append(PreparedArm(prepared.arm(one.name), prepared))
    config = updated(config, arms_prepared=tuple(arms), folder=config.folder / name)
    finished = compare(config, listener)
    run, trials = records.read(config.folder)
    return finished, run, tuple(trials)


def tune_full_load(
    target: TuningTarget, config: CompareConfig, text: TuningResult, listener: ProgressListener
) -> TuningResult:
    """Adds the results of these knobs to those of the others."""
    knobs = tuple(knob for knob in target.knobs if knob.objective is Objective.RATE)
    if not knobs or not text.finished:
        return text
    if len(available_cores()) < 2:
        alone = tuple(
            KnobResult(knob=knob, decision=Decision.UNDECIDED, sentence="there is one core only")
            for knob in knobs
        )
        return updated(text, results=(*text.results, *alone))
    return _FullLoadStage(target, config, listener).run(knobs, text)


class _FullLoadStage:
    def __init__(
        self, target: TuningTarget, config: CompareConfig, listener: ProgressListener
    ) -> None:
        self.target = target
        everything = available_cores()
        blocks = max(FULL_LOAD_BLOCKS_MIN, config.plan.blocks)
        self.config = updated(
            config,
            cores=CoreAssignment(server=everything, generator=everything, shared=True),
            workload=updated(config.workload, rate_rps=None),
            paired_trials=False,
            closed_loop=True,
            plan=updated(
                config.plan,
                blocks=blocks,
                blocks_max=blocks,
                blocks_step=0,
                closed_loop_blocks=blocks,
            ),
        )
        self.progress = listener

    def run(self, knobs: tuple[Knob, ...], text: TuningResult) -> TuningResult:
        names = tuple(knob.name for knob in knobs)
        self.progress.note(f"At full load, on shared cores: {', '.join(names)}.")
        combinations = variants.one_at_a_time(names)
        finished, run, trials = _measured(
            self.config, "full-load", self.target, combinations, self.progress
        )
        found = []
        for knob in knobs:
            arm = variants.name_alone(knob.name)
            evidence = KnobEvidence(
                knob=knob,
                alone=_rate(arm, run, trials),
                leave_one_out=None,
                base=ablation.counters(trials, BASELINE),
                switched=ablation.counters(trials, arm),
                same_answers=ablation.same_answers(trials, (BASELINE, arm)),
            )
            found.append(evidence)
        results = ablation.decide_knobs(found)
        text = updated(text, results=(*text.results, *results), finished=text.finished and finished)
        accepted = tuple(r.knob.name for r in results if r.decision is Decision.ACCEPTED)
        return self._proven(text, accepted) if finished and accepted else text

    def _proven(self, text: TuningResult, accepted: tuple[str, ...]) -> TuningResult:
        self.progress.note(f"Proving {', '.join(accepted)} at full load on fresh blocks.")
        config = updated(self.config, seed=self.config.seed + 2)
        combinations = variants.confirmation(accepted, text.kept)
        finished, run, trials = _measured(
            config, "full-load-proof", self.target, combinations, self.progress
        )
        bundle = _rate(PROVEN, run, trials)
        same = ablation.same_answers(trials, (BASELINE, PROVEN))
        kept = (*text.kept, *accepted) if same and ablation.is_confirmed(bundle) else text.kept
        return updated(
            text,
            full_load=bundle,
            kept=kept,
            proven=bool(kept),
            diff=self.target.diff(kept) if kept else "",
            finished=text.finished and finished,
        )


def _rate(arm: str, run: Run, trials: tuple[Trial, ...]) -> Comparison:
    found = ablation.rates_against_baseline(run, trials)[arm]
    return ablation.with_generator_doubt(found, ablation.generator_headroom(run, trials))


def tune(target: TuningTarget, config: CompareConfig, listener: ProgressListener) -> TuningResult:
    """Tests every knob, and confirms the accepted ones together."""
    return _Tuner(target, config, listener).run()


class _Tuner:
    def __init__(
        self, target: TuningTarget, config: CompareConfig, listener: ProgressListener
    ) -> None:
        self.target = target
        self.config = config
        self.progress = listener
        self.knobs = tuple(knob for knob in target.knobs if knob.objective is Objective.COST)
        self.names = tuple(knob.name for knob in self.knobs)
        self.trials: list[Trial] = []

    def run(self) -> TuningResult:
        asked = self.config.request
        assert asked is None or isinstance(asked, TuningRequest | ExplanationRequest), "it is tuned"
        text = TuningResult(
            target=self.target.name,
            path=self.config.workload.path,
            jissoku=self.config.version,
            seed=self.config.seed,
            results=(),
            skipped=self.target.skipped,
            sandbox=self.target.sandbox,
            request=asked and recorded(asked),
        )
        if self.names:
            text = self._by_cost(text)
        return tune_full_load(self.target, self.config, text, self.progress)

    def _by_cost(self, text: TuningResult) -> TuningResult:
        self.progress.note("Counting what a request does, with each knob.")
        counts = {BASELINE: self._count(())} | {name: self._count((name,)) for name in self.names}
        out = ablation.refuted(self.knobs, counts, BASELINE)
        self._leave_out(out)
        finished = True
        if len(self.names) >= KNOBS_MIN:
            finished, screened = self._screened(counts)
            out += screened
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
        """Excludes knobs without an effect; the rest is tested as without variants."""
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
        switched = {one.name: one.knobs for one in combinations if one.knobs}
        effects = ablation.effects(run, trials, switched, fit)
        out = ablation.screened_out(self.knobs, counts, effects, run.minimum_effect)
        self._leave_out(out)
        return finished, out

    def _leave_out(self, results: Sequence[KnobResult]) -> None:
        gone = {result.knob.name for result in results}
        self.knobs = tuple(knob for knob in self.knobs if knob.name not in gone)
        self.names = tuple(knob.name for knob in self.knobs)

    def _confirmed(self, text: TuningResult) -> TuningResult:
        accepted = tuple(r.knob.name for r in text.results if r.decision is Decision.ACCEPTED)
        if not accepted:
            return text
        self.progress.note(f"Proving {', '.join(accepted)} together on fresh blocks.")
        self.config = updated(self.config, seed=self.config.seed + 1)
        finished, found = self._campaign("proof", variants.confirmation(accepted), self.config.plan)
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
        return finished, ablation.against_baseline(run, trials)

    def _run(
        self, name: str, combinations: Sequence[Combination], effort: SamplingPlan
    ) -> tuple[Run, Sequence[Trial], bool]:
        """Runs one campaign; the load chosen first is kept, so that all effects are of one load."""
        config = updated(self.config, plan=effort)
        finished, run, trials = _measured(config, name, self.target, combinations, self.progress)
        self.trials.extend(trials)
        if run.loads and not self.config.loads:
            self.config = updated(self.config, loads=run.loads[-1:])
        return run, trials, finished

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
