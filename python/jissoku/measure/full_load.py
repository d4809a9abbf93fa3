"""Knobs that are judged by the rate at full load, on all cores, which the load generator shares.

Each alone relative to the unchanged configuration, without paired trials, because two servers at
once would compete for the cores. Then the accepted ones in addition to those accepted before, on
new blocks. Both campaigns have the warning "shared cores".
"""

from jissoku import records
from jissoku.design import variants as plan
from jissoku.design.variants import BASELINE, PROVEN
from jissoku.inference import ablation
from jissoku.inference.ablation import KnobEvidence
from jissoku.measure.compare import compare
from jissoku.measure.compare_config import LoadMode
from jissoku.measure.progress import ProgressListener
from jissoku.measure.tuning_target import TuningConfig, TuningTarget
from jissoku.model import (
    Comparison,
    CoreAssignment,
    Decision,
    Knob,
    KnobResult,
    Objective,
    Run,
    Trial,
    TuningResult,
)
from jissoku.model.updated import updated
from jissoku.system.cores import available_cores

# A single check, after enough blocks for the variation of trials that run one after the other.
FULL_LOAD_BLOCKS_MIN = 12


def tune(
    target: TuningTarget, config: TuningConfig, text: TuningResult, listener: ProgressListener
) -> TuningResult:
    """Adds the results of these knobs to those of the others.

    Raises:
        InputError: The folder holds a run already or cannot be written.
    """
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
        self, target: TuningTarget, config: TuningConfig, listener: ProgressListener
    ) -> None:
        self.target = target
        everything = available_cores()
        blocks = max(FULL_LOAD_BLOCKS_MIN, config.plan.blocks)
        self.config = updated(
            config,
            cores=CoreAssignment(server=everything, generator=everything, shared=True),
            workload=updated(config.workload, rate_rps=None),
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
        """Tests each alone, then the accepted ones together with those accepted before."""
        names = tuple(knob.name for knob in knobs)
        self.progress.note(f"At full load, on shared cores: {', '.join(names)}.")
        finished, run, trials = self._campaign("full-load", plan.one_at_a_time(names))
        found = [self._findings(knob, run, trials) for knob in knobs]
        results = ablation.decide_knobs(found)
        text = updated(text, results=(*text.results, *results), finished=text.finished and finished)
        accepted = tuple(r.knob.name for r in results if r.decision is Decision.ACCEPTED)
        return self._proven(text, accepted) if finished and accepted else text

    def _proven(self, text: TuningResult, accepted: tuple[str, ...]) -> TuningResult:
        self.progress.note(f"Proving {', '.join(accepted)} at full load on fresh blocks.")
        self.config = updated(self.config, seed=self.config.seed + 2)
        combinations = plan.increment(text.kept, accepted)
        finished, run, trials = self._campaign("full-load-proof", combinations)
        bundle = self._comparison(PROVEN, run, trials)
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

    def _findings(self, knob: Knob, run: Run, trials: tuple[Trial, ...]) -> KnobEvidence:
        arm = plan.name_alone(knob.name)
        return KnobEvidence(
            knob=knob,
            alone=self._comparison(arm, run, trials),
            leave_one_out=None,
            base=ablation.counters(trials, BASELINE),
            switched=ablation.counters(trials, arm),
            same_answers=ablation.same_answers(trials, (BASELINE, arm)),
        )

    def _comparison(self, arm: str, run: Run, trials: tuple[Trial, ...]) -> Comparison:
        found = ablation.rates_against_baseline(run, trials)[arm]
        return ablation.with_generator_doubt(found, ablation.generator_headroom(run, trials))

    def _campaign(
        self, name: str, combinations: tuple[plan.Combination, ...]
    ) -> tuple[bool, Run, tuple[Trial, ...]]:
        config = updated(
            self.config.compare_config(name, self.target, combinations),
            paired_trials=False,
            load_mode=LoadMode.CLOSED,
        )
        finished = compare(config, self.progress)
        run, trials = records.read(config.folder)
        return finished, run, tuple(trials)
