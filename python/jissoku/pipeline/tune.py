"""Tuning: each knob alone, all together, all but each, and the accepted ones on fresh blocks.

Counters come first, in trials of their own. Of many knobs a screening design leaves out those that
surely do not pay. Then three campaigns, each with its records in a folder
of its own: `alone` against the configuration as it is, `without` against all knobs together, and
`proof`, which chose nothing and has the last word. Knobs that are judged by the rate at full load
follow (`jissoku.pipeline.full_load`).
"""

import dataclasses
from collections.abc import Sequence

from jissoku import records
from jissoku.design import ablation as plan, screening
from jissoku.design.ablation import AS_IT_IS, PROVEN, Combination
from jissoku.design.mode import Effort
from jissoku.design.screening import KNOBS_MIN
from jissoku.errors import TargetError
from jissoku.model import (
    SOLO_LOAD,
    Comparison,
    Counts,
    Decision,
    Judged,
    Kind,
    Knob,
    Remedy,
    Run,
    Trial,
    Tuning,
)
from jissoku.pipeline import full_load
from jissoku.pipeline.campaign import compare
from jissoku.pipeline.listener import Listener
from jissoku.pipeline.observation import count
from jissoku.pipeline.tuned import Conduct, Subject
from jissoku.stats import ablation, screening as screened, trial_counters
from jissoku.stats.ablation import Findings

# Of a screening design: each knob is on in half of all runs, so two are many.
SCREEN_BLOCKS = 2


def tune(subject: Subject, conduct: Conduct, listener: Listener) -> Tuning:
    """Tries every knob, and proves those that pay together.

    Raises:
        TargetError: The target does not answer as it is, before anything was switched.
        InputError: The folder holds a run already or cannot be written.
    """
    return _Tuner(subject, conduct, listener).run()


class _Tuner:
    """One tuning, from its first counter to its last block."""

    def __init__(self, subject: Subject, conduct: Conduct, listener: Listener) -> None:
        self.subject = subject
        self.conduct = conduct
        self.listener = listener
        self.knobs = tuple(knob for knob in subject.knobs if knob.judged is Judged.COST)
        self.names = tuple(knob.name for knob in self.knobs)
        self.workload = conduct.workload
        self.trials: list[Trial] = []

    def run(self) -> Tuning:
        """Runs everything, in the order of the story."""
        told = Tuning(
            target=self.subject.name,
            path=self.conduct.workload.path,
            jissoku=self.conduct.version,
            seed=self.conduct.seed,
            remedies=(),
            skipped=self.subject.skipped,
            sandbox=self.subject.sandbox,
        )
        if self.names:
            told = self._by_cost(told)
        return full_load.tune(self.subject, self.conduct, told, self.listener)

    def _by_cost(self, told: Tuning) -> Tuning:
        self.listener.note("Counting what a request does, with each knob.")
        counts = {name: self._count(knobs) for name, knobs in self._watched()}
        if len(self.names) >= KNOBS_MIN:
            finished, out = self._screened(counts)
            told = dataclasses.replace(told, remedies=out, finished=finished)
            if not finished or not self.names:
                return told
        finished, alone = self._campaign("alone", plan.alone(self.names), self.conduct.effort)
        self._keep_rate()
        # The rate is known and so is every arm alone: these blocks hold duets only.
        brief = dataclasses.replace(self.conduct.effort, solo_blocks=0)
        without: dict[str, Comparison] = {}
        if finished and len(self.names) > 1:
            paced = brief if self.workload.rate_rps else self.conduct.effort
            finished, without = self._campaign("without", plan.without(self.names), paced)
        found = [self._findings(knob, counts, alone, without) for knob in self.knobs]
        remedies = ablation.decide(found)
        told = dataclasses.replace(
            told,
            remedies=(*remedies, *told.remedies),
            all_together=alone.get(plan.ALL),
            finished=finished,
        )
        return self._proven(told) if finished else told

    def _screened(self, counts: dict[str, Counts]) -> tuple[bool, tuple[Remedy, ...]]:
        """Leaves out what surely does not pay; the rest is tried as if there had been no look."""
        fit = tuple(name for name in self.names if counts[name].requests)
        combinations = screening.combinations(fit)
        self.listener.note(f"A first look at {len(fit)} knobs in {len(combinations)} runs.")
        brief = dataclasses.replace(
            self.conduct.effort,
            blocks=SCREEN_BLOCKS,
            blocks_max=SCREEN_BLOCKS,
            blocks_step=0,
            half_width=None,
            solo_blocks=0 if self.workload.rate_rps else 1,
        )
        run, trials, finished = self._run("screen", combinations, brief)
        self._keep_rate()
        switched = {one.name: one.knobs for one in combinations if one.knobs}
        effects = screened.effects(run, trials, switched, fit)
        out = ablation.left_out(self.knobs, counts, effects, run.minimum_effect)
        gone = {remedy.knob.name for remedy in out}
        self.knobs = tuple(knob for knob in self.knobs if knob.name not in gone)
        self.names = tuple(knob.name for knob in self.knobs)
        return finished, out

    def _proven(self, told: Tuning) -> Tuning:
        accepted = tuple(r.knob.name for r in told.remedies if r.decision is Decision.ACCEPTED)
        if not accepted:
            return told
        self.listener.note(f"Proving {', '.join(accepted)} together on fresh blocks.")
        fresh = dataclasses.replace(self.conduct, seed=self.conduct.seed + 1)
        self.conduct = fresh
        finished, found = self._campaign("proof", plan.proof(accepted), fresh.effort)
        bundle = found.get(PROVEN)
        same = ablation.same_answers(self.trials, (AS_IT_IS, PROVEN))
        is_proven = bundle is not None and same and ablation.holds(bundle)
        return dataclasses.replace(
            told,
            bundle=bundle,
            proven=is_proven,
            kept=accepted if is_proven else (),
            diff=self.subject.diff(accepted) if is_proven else "",
            finished=finished,
        )

    def _watched(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(AS_IT_IS, ()), *((name, (name,)) for name in self.names)]

    def _findings(
        self,
        knob: Knob,
        counts: dict[str, Counts],
        alone: dict[str, Comparison],
        without: dict[str, Comparison],
    ) -> Findings:
        arm = plan.name_alone(knob.name)
        return Findings(
            knob=knob,
            alone=alone[arm],
            without=without.get(plan.name_without(knob.name)),
            base=self._with_trials(counts[AS_IT_IS], AS_IT_IS),
            switched=self._with_trials(counts[knob.name], arm),
            same_answers=ablation.same_answers(self.trials, (AS_IT_IS, arm)),
        )

    def _with_trials(self, counts: Counts, arm: str) -> Counts:
        """What was counted apart, and what the duets themselves count."""
        more = trial_counters.of(self.trials, Kind.DUET, arm)
        return dataclasses.replace(counts, per_request=counts.per_request | more)

    def _campaign(
        self, name: str, combinations: Sequence[Combination], effort: Effort
    ) -> tuple[bool, dict[str, Comparison]]:
        """Runs one campaign: whether it came to its end, and every arm against its baseline."""
        run, trials, finished = self._run(name, combinations, effort)
        return finished, ablation.against_baseline(run, trials)

    def _run(
        self, name: str, combinations: Sequence[Combination], effort: Effort
    ) -> tuple[Run, Sequence[Trial], bool]:
        conduct = dataclasses.replace(self.conduct, workload=self.workload, effort=effort)
        question = conduct.question(name, self.subject, combinations)
        finished = compare(question, self.listener)
        run, trials = records.read(question.folder)
        self.trials.extend(trials)
        return run, trials, finished

    def _keep_rate(self) -> None:
        """The rate that was chosen first is kept, so that all effects belong to one rate."""
        rates = {t.workload.rate_rps for t in self.trials if t.kind is Kind.DUET and t.counts}
        known = [rate for rate in rates if rate is not None]
        if known:
            rate = SOLO_LOAD * min(known)
            self.workload = dataclasses.replace(self.workload, rate_rps=rate)

    def _count(self, knobs: tuple[str, ...]) -> Counts:
        """Counts in a trial of its own; a target that does not answer has no counters."""
        conduct = self.conduct
        seed = f"{conduct.seed}/{knobs}"
        try:
            return count(self.subject.prepared(knobs), conduct.workload, conduct.cores, seed)
        except TargetError as error:
            if not knobs:
                said = f"{self.subject.name}: {error}\n{error.stderr}"
                raise TargetError(said.rstrip()) from error
            return Counts(requests=0, calls_reason=str(error))
