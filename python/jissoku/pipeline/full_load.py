"""Knobs that are judged by the rate at full load, on all cores, which the stopwatch shares.

Each alone against the configuration as it is, without duets: two servers at once would take each
other's cores. Then the accepted ones beside what was proven before, on fresh blocks. Both campaigns
are stamped "shared cores".
"""

import dataclasses

from jissoku import records
from jissoku.design import ablation as plan
from jissoku.design.ablation import AS_IT_IS, PROVEN
from jissoku.model import Comparison, Cores, Decision, Judged, Knob, Remedy, Run, Trial, Tuning
from jissoku.observe.cores import allowed
from jissoku.pipeline.campaign import Pace, compare
from jissoku.pipeline.listener import Listener
from jissoku.pipeline.tuned import Conduct, Subject
from jissoku.stats import ablation, full_load
from jissoku.stats.ablation import Findings

# One look, after enough blocks for the spread of trials that run one after the other.
BLOCKS_MIN = 12


def tune(subject: Subject, conduct: Conduct, told: Tuning, listener: Listener) -> Tuning:
    """Adds what is found out about these knobs to what is known about the others.

    Raises:
        InputError: The folder holds a run already or cannot be written.
    """
    knobs = tuple(knob for knob in subject.knobs if knob.judged is Judged.RATE)
    if not knobs or not told.finished:
        return told
    if len(allowed()) < 2:
        alone = tuple(
            Remedy(knob=knob, decision=Decision.UNDECIDED, sentence="there is one core only")
            for knob in knobs
        )
        return dataclasses.replace(told, remedies=(*told.remedies, *alone))
    return _Stage(subject, conduct, listener).run(knobs, told)


class _Stage:
    """Both campaigns of one tuning."""

    def __init__(self, subject: Subject, conduct: Conduct, listener: Listener) -> None:
        self.subject = subject
        everything = allowed()
        blocks = max(BLOCKS_MIN, conduct.effort.blocks)
        self.conduct = dataclasses.replace(
            conduct,
            cores=Cores(server=everything, stopwatch=everything, shared=True),
            workload=dataclasses.replace(conduct.workload, rate_rps=None),
            effort=dataclasses.replace(
                conduct.effort,
                blocks=blocks,
                blocks_max=blocks,
                blocks_step=0,
                half_width=None,
                solo_blocks=blocks,
            ),
        )
        self.listener = listener

    def run(self, knobs: tuple[Knob, ...], told: Tuning) -> Tuning:
        """Each alone, then the accepted ones beside what is kept already."""
        names = tuple(knob.name for knob in knobs)
        self.listener.note(f"At full load, on shared cores: {', '.join(names)}.")
        finished, run, trials = self._campaign("full-load", plan.each(names))
        found = [self._findings(knob, run, trials) for knob in knobs]
        remedies = ablation.decide(found)
        told = dataclasses.replace(
            told, remedies=(*told.remedies, *remedies), finished=told.finished and finished
        )
        accepted = tuple(r.knob.name for r in remedies if r.decision is Decision.ACCEPTED)
        return self._proven(told, accepted) if finished and accepted else told

    def _proven(self, told: Tuning, accepted: tuple[str, ...]) -> Tuning:
        self.listener.note(f"Proving {', '.join(accepted)} at full load on fresh blocks.")
        self.conduct = dataclasses.replace(self.conduct, seed=self.conduct.seed + 2)
        combinations = plan.added(told.kept, accepted)
        finished, run, trials = self._campaign("full-load-proof", combinations)
        bundle = self._comparison(PROVEN, run, trials)
        same = ablation.same_answers(trials, (AS_IT_IS, PROVEN))
        kept = (*told.kept, *accepted) if same and ablation.holds(bundle) else told.kept
        return dataclasses.replace(
            told,
            full_load=bundle,
            kept=kept,
            proven=bool(kept),
            diff=self.subject.diff(kept) if kept else "",
            finished=told.finished and finished,
        )

    def _findings(self, knob: Knob, run: Run, trials: tuple[Trial, ...]) -> Findings:
        arm = plan.name_alone(knob.name)
        return Findings(
            knob=knob,
            alone=self._comparison(arm, run, trials),
            without=None,
            base=full_load.counters(trials, AS_IT_IS),
            switched=full_load.counters(trials, arm),
            same_answers=ablation.same_answers(trials, (AS_IT_IS, arm)),
        )

    def _comparison(self, arm: str, run: Run, trials: tuple[Trial, ...]) -> Comparison:
        found = full_load.against_baseline(run, trials)[arm]
        return full_load.doubted(found, full_load.times_the_stopwatch(run, trials))

    def _campaign(
        self, name: str, combinations: tuple[plan.Combination, ...]
    ) -> tuple[bool, Run, tuple[Trial, ...]]:
        question = dataclasses.replace(
            self.conduct.question(name, self.subject, combinations),
            duets=False,
            pace=Pace.CLOSED,
        )
        finished = compare(question, self.listener)
        run, trials = records.read(question.folder)
        return finished, run, tuple(trials)
