"""Tuning: what each knob changes, its effect alone, beside the others, and on fresh blocks.

A pilot chooses connections that the configuration as it is answers with room. What a request does
is counted with each knob: one whose counter stays as it is needs no timed trial. The others are
compared with the unchanged configuration, and looked at after every block, until each is decided.
Accepted ones are left out of all in turn, and proven together on blocks that no choice was based
on; each of these campaigns has its records in a separate folder. Knobs that are judged by the rate
at full load follow (`tune_full_load`).
"""

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from jissoku import records
from jissoku.design import sampling_plan, variants
from jissoku.design.variants import BASELINE, PROVEN, Combination
from jissoku.errors import HostLost, TargetError
from jissoku.inference import ablation
from jissoku.inference.ablation import COUNTERS, USER_US, KnobEvidence, trial_counters
from jissoku.measure.compare import compare
from jissoku.measure.comparison import CompareConfig
from jissoku.measure.counting import count_arm
from jissoku.measure.knob_changes import TuningTarget
from jissoku.measure.pilot import Pilot, pilot
from jissoku.measure.progress import ProgressListener
from jissoku.measure.selection import recorded
from jissoku.measure.trial import PreparedArm
from jissoku.model import (
    Comparison,
    CoreAssignment,
    CounterReadings,
    Decision,
    Knob,
    KnobGoal,
    KnobResult,
    Metric,
    Run,
    Trial,
    TrialKind,
    TuningResult,
    Verdict,
)
from jissoku.model.updated import updated
from jissoku.model.wording import plural
from jissoku.records.run_folder import holds_run
from jissoku.request import ExplanationRequest, TuningRequest, command_line
from jissoku.system.interruption import Interrupted, Interruption

# Trials that run one after the other vary more than those of two arms at once.
FULL_LOAD_BLOCKS_MIN = 12

# The part of the knobs with a counter of their own that counting leaves undecided.
STILL_OPEN = 0.4

# What a tuning has of the explanation that asked for it.
SHARED = ("config", "listen", "path", "header", "server_host", "server_keys")

NOT_MEASURED = "not measured: the tuning ended before"


def _measured(
    config: CompareConfig,
    name: str,
    target: TuningTarget,
    combinations: Sequence[Combination],
    listener: ProgressListener,
) -> tuple[bool, Run | None, tuple[Trial, ...]]:
    """Runs a campaign with its records in a folder of this name; whether it finished, and these.

    Without records the host of the target was lost before; it may also be lost meanwhile.
    """
    arms, finished = [], False
    folder = config.folder / name
    with suppress(HostLost):
        for one in combinations:
            prepared = target.prepared(one.knobs)
            arms.append(PreparedArm(prepared.arm(one.name), prepared))
        config = updated(config, arms_prepared=tuple(arms), folder=folder)
        finished = compare(config, listener)
    if not holds_run(folder):
        return False, None, ()
    run, trials = records.read(folder)
    return finished, run, tuple(trials)


def tune_full_load(
    target: TuningTarget, config: CompareConfig, text: TuningResult, listener: ProgressListener
) -> TuningResult:
    knobs = tuple(knob for knob in target.knobs if knob.objective is KnobGoal.RATE)
    if not knobs or not text.finished:
        return text
    cores = config.host.full_load_cores()
    if len(cores.server) < 2:
        alone = tuple(
            KnobResult(knob=knob, decision=Decision.UNDECIDED, sentence="there is one core only")
            for knob in knobs
        )
        return updated(text, results=(*text.results, *alone))
    names = tuple(knob.name for knob in knobs)
    where = ", on shared cores" if cores.shared else ""
    listener.note(f"At full load{where}: {', '.join(names)}.")
    config = _at_full_load(config, cores)
    combinations = variants.one_at_a_time(names)
    finished, run, trials = _measured(config, "full-load", target, combinations, listener)
    if run is None:
        return updated(text, finished=False)
    rates = ablation.rates_against_baseline(run, trials)
    arms = zip(knobs, map(variants.name_alone, names), strict=True)
    found = [
        KnobEvidence(
            knob=knob,
            alone=rates[arm],
            leave_one_out=None,
            base=ablation.counters(trials, BASELINE),
            switched=ablation.counters(trials, arm),
            same_answers=ablation.same_answers(trials, (BASELINE, arm)),
        )
        for knob, arm in arms
    ]
    results = ablation.decide_knobs(found)
    text = updated(text, results=(*text.results, *results), finished=finished)
    accepted = tuple(r.knob.name for r in results if r.decision is Decision.ACCEPTED)
    if not finished or not accepted:
        return text
    listener.note(f"Proving {', '.join(accepted)} at full load on fresh blocks.")
    config = updated(config, seed=config.seed + 2)
    combinations = variants.confirmation(accepted, text.kept)
    finished, run, trials = _measured(config, "full-load-proof", target, combinations, listener)
    if run is None:
        return updated(text, finished=False)
    bundle = ablation.rates_against_baseline(run, trials)[PROVEN]
    same = ablation.same_answers(trials, (BASELINE, PROVEN))
    kept = (*text.kept, *accepted) if same and ablation.is_confirmed(bundle) else text.kept
    return updated(
        text,
        full_load=bundle,
        kept=kept,
        proven=bool(kept),
        diff=target.diff(kept) if kept else "",
        finished=finished,
    )


def _at_full_load(config: CompareConfig, cores: CoreAssignment) -> CompareConfig:
    blocks = max(FULL_LOAD_BLOCKS_MIN, config.plan.blocks_max)
    return updated(
        config,
        cores=cores,
        workload=updated(config.workload, rate_rps=None),
        joint_trials=False,
        closed_loop=True,
        metric=Metric.TIME,
        aim=Verdict.LOWER,
        loads=(),
        plan=sampling_plan.tuning(
            updated(config.plan, blocks_max=blocks, closed_loop_blocks=blocks)
        ),
    )


def tune(target: TuningTarget, config: CompareConfig, listener: ProgressListener) -> TuningResult:
    """Tests every knob, and confirms the accepted ones together.

    Interrupted, or without the host of the target, which then is `lost`, it returns what is known;
    a knob that was not measured is undecided.
    TargetError if the configuration as it is cannot be measured.
    """
    asked = config.request
    assert asked is None or isinstance(asked, TuningRequest | ExplanationRequest), "it is tuned"
    # What it catches are interruptions between campaigns, which catch their own.
    with Interruption() as interruption:
        tuner = _Tuner(target, config, listener, interruption)
        finished = False
        with suppress(Interrupted, HostLost):
            if target.knobs:
                tuner.look()
            finished = True
        text = TuningResult(
            target=target.name,
            path=config.workload.path,
            jissoku=config.version,
            seed=config.seed,
            results=tuner.out,
            skipped=target.skipped,
            sandbox=target.sandbox,
            request=asked and recorded(asked),
            finished=finished,
        )
        if text.finished and tuner.knobs:
            text = tuner.by_cost(text)
        text = updated(text, finished=text.finished and not interruption.asked)
        text = tune_full_load(target, tuner.config, text, listener)
    return _complete(target, tuner.config, text)


def _complete(target: TuningTarget, config: CompareConfig, text: TuningResult) -> TuningResult:
    """Every knob has a result, in the order of the recipe; and the command that confirms others."""
    known = {result.knob.name: result for result in text.results}
    results = tuple(
        known.get(knob.name)
        or KnobResult(knob=knob, decision=Decision.UNDECIDED, sentence=NOT_MEASURED)
        for knob in target.knobs
    )
    open_decisions = {Decision.ACCEPTED, Decision.UNDECIDED}
    # With blanks, so that a terminal wraps it where it still can be copied.
    names = ", ".join(
        r.knob.name
        for r in results
        if r.decision in open_decisions and r.knob.name not in text.kept
        # More blocks do not help where the load generator costs too much.
        if r.alone is None or r.alone.verdict is not Verdict.INVALID or not text.finished
    )
    return updated(text, results=results, confirm=_command(config, names) if names else "")


def _command(config: CompareConfig, names: str) -> str:
    asked = config.request
    if isinstance(asked, ExplanationRequest):
        shared = {field: getattr(asked, field) for field in SHARED}
        asked = TuningRequest(target=asked.target or "", rate=asked.rate, **shared)
    if not isinstance(asked, TuningRequest):
        return ""
    connections = config.workload.connections
    return command_line(updated(asked, knobs=names, connections=connections, standard=True))


@dataclass(eq=False)
class _Tuner:
    """Attributes: `knobs` are those that need timed trials, `out` the results of all others."""

    target: TuningTarget
    config: CompareConfig
    progress: ProgressListener
    interruption: Interruption

    def __post_init__(self) -> None:
        self.knobs = tuple(knob for knob in self.target.knobs if knob.objective is KnobGoal.COST)
        self.out: tuple[KnobResult, ...] = ()
        self.counts: dict[str, CounterReadings] = {}
        # Knobs whose counter moves only beside the others, and the counts without and with them.
        self.beside: tuple[str, ...] = ()
        self.counts_beside: tuple[CounterReadings, CounterReadings] | None = None
        self.trials: list[Trial] = []
        # When the campaigns by cost have to end, as it was said.
        self.ends = math.inf

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(knob.name for knob in self.knobs)

    def look(self) -> None:
        knobs = self.knobs
        at_full_load = len(self.target.knobs) - len(knobs)
        # Counting alone decides about most of them, unless they were chosen for causes that show.
        is_suspected = isinstance(self.config.request, ExplanationRequest)
        part = 1.0 if is_suspected else STILL_OPEN
        likely = sum(1.0 if knob.counter in COUNTERS else part for knob in knobs)
        plan, count = self.config.plan, len(self.target.knobs)
        first = sampling_plan.tuning_time(
            likely, len(knobs), at_full_load, plan, pay=is_suspected, counted=len(knobs)
        )
        self.progress.note(f"{count} {plural(count, 'knob')} to test: {first.text}.")
        found = self._pilot()
        if knobs:
            self.progress.note("Counting what a request does, with each knob.")
            self._count_all(found)
        still, plan = len(self.knobs), self.config.plan
        times = found.generator_headroom
        left = sampling_plan.tuning_time(
            still,
            still,
            at_full_load,
            plan,
            pay=is_suspected,
            rates_count=times is not None and times >= ablation.GENERATOR_HEADROOM_MIN,
        )
        by_cost = sampling_plan.tuning_time(still, still, 0, plan, pay=is_suspected)
        self.ends = time.monotonic() + by_cost.most_s
        self.progress.note(
            f"{still} of {len(knobs)} {plural(len(knobs), 'knob')} may change the cost:"
            f" {left.text} more."
        )

    def _pilot(self) -> Pilot:
        config = self.config
        workload, prepared = config.workload, self.target.prepared(())
        found = pilot(prepared, workload, config.cores, config.seed, self.interruption, config.host)
        if found.remark:
            self.progress.note(found.remark)
        # Both arms of a pair have their part of a load that the slowest arm reaches.
        plan = updated(
            config.plan,
            window_ns=max(config.plan.window_ns, found.window_ns),
            paired_window_ns=max(config.plan.paired_window_ns, found.paired_window_ns),
        )
        workload = updated(workload, connections=found.connections)
        self.config = updated(config, workload=workload, plan=plan)
        return found

    def _count_all(self, found: Pilot) -> None:
        def count(*knobs: str) -> CounterReadings:
            self.interruption.check()
            return self._count(knobs, found.requests_counted)

        base = self.counts[BASELINE] = count()
        for knob in self.knobs:
            self.counts[knob.name] = count(knob.name)
        results = [ablation.without_trials(one, base, self.counts[one.name]) for one in self.knobs]
        out = {one.knob.name: one for one in results if one is not None}
        still = [n for n, one in out.items() if one.decision is Decision.COUNTER_UNCHANGED]
        moved = [name for name in self.names if name not in out]
        if still and moved:
            # Some directives work only beside others: their counters move only there.
            some, every = self.counts_beside = count(*moved), count(*moved, *still)
            self.beside = tuple(
                name
                for name in still
                if every.requests and ablation.moves_counter(out[name].knob, some, every)
            )
        self.out = tuple(one for name, one in out.items() if name not in self.beside)
        self.knobs = tuple(one for one in self.knobs if one.name in {*moved, *self.beside})

    def _count(self, knobs: tuple[str, ...], requests: int) -> CounterReadings:
        """Counts in a separate trial; a target that does not answer has no counters."""
        config, interruption = self.config, self.interruption
        seed = f"{config.seed}/{knobs}"
        prepared = self.target.prepared(knobs)
        try:
            return count_arm(
                prepared,
                config.workload,
                config.cores,
                seed,
                requests,
                lambda: interruption.asked,
                config.host,
            )
        except TargetError as error:
            interruption.check()
            if not knobs:
                said = f"{self.target.name}: {error}\n{error.stderr}"
                raise TargetError(said.rstrip()) from error
            return CounterReadings(requests=0, syscalls_reason=str(error))

    def by_cost(self, text: TuningResult) -> TuningResult:
        brief = updated(self.config.plan, fixed_rate_blocks=0, cross_check_blocks=0)
        closed = any(knob.counter == USER_US for knob in self.knobs)
        plan = updated(brief, closed_loop_blocks=brief.closed_loop_blocks if closed else 1)
        self.progress.note(f"Each alone: {', '.join(self.names)}.")
        left_out = sampling_plan.LEFT_OUT if len(self.knobs) > 1 else 0
        later = sampling_plan.together_time(left_out, 0, self.config.plan)
        finished, alone = self._campaign(
            "alone", variants.one_at_a_time(self.names), plan, kept_s=later.likely_s
        )
        paying = ablation.paying(alone)
        together = [n for n in self.names if variants.name_alone(n) in paying or n in self.beside]
        without: dict[str, Comparison] = {}
        if finished and len(together) > 1:
            # The load and the cost of each arm alone are known: these blocks have pairs only.
            plan = updated(brief, closed_loop_blocks=0)
            left = sampling_plan.together_time(len(together), len(together), self.config.plan)
            proof = sampling_plan.together_time(0, 0, self.config.plan)
            now = time.monotonic()
            self.ends = max(self.ends, now + left.likely_s)
            left = sampling_plan.TuningTime(left.likely_s, min(left.most_s, self.ends - now))
            self.progress.note(
                f"All but each: {', '.join(together)}; with the proof {left.text} more."
            )
            finished, without = self._campaign(
                "without", variants.leave_one_out(together), plan, kept_s=proof.likely_s
            )
        found = [self._findings(knob, alone, without) for knob in self.knobs]
        results = ablation.decide_knobs(found)
        text = updated(text, results=(*text.results, *results), finished=finished)
        return self._confirmed(text) if finished else text

    def _confirmed(self, text: TuningResult) -> TuningResult:
        accepted = tuple(r.knob.name for r in text.results if r.decision is Decision.ACCEPTED)
        if not accepted:
            return text
        self.progress.note(f"Proving {', '.join(accepted)} on fresh blocks.")
        self.config = updated(self.config, seed=self.config.seed + 1)
        plan = updated(self.config.plan, closed_loop_blocks=0)
        finished, found = self._campaign("proof", variants.confirmation(accepted), plan)
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
        self, knob: Knob, alone: dict[str, Comparison], without: dict[str, Comparison]
    ) -> KnobEvidence:
        arm = variants.name_alone(knob.name)
        base, switched = self.counts[BASELINE], self.counts[knob.name]
        if knob.name in self.beside and self.counts_beside is not None:
            base, switched = self.counts_beside
        missing = Comparison(
            arm=arm, against=BASELINE, verdict=Verdict.INVALID, remarks=(NOT_MEASURED,)
        )
        return KnobEvidence(
            knob=knob,
            alone=alone.get(arm, missing),
            leave_one_out=without.get(variants.name_leave_one_out(knob.name)),
            base=self._with_trials(base, BASELINE),
            switched=self._with_trials(switched, arm),
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
        self,
        name: str,
        combinations: Sequence[Combination],
        plan: sampling_plan.SamplingPlan,
        *,
        kept_s: float = 0.0,
    ) -> tuple[bool, dict[str, Comparison]]:
        """Runs one campaign; whether it finished, and the comparisons with the baseline.

        The load chosen first is kept, so that all effects are of one load. `kept_s` seconds of the
        time are those of the campaigns that follow.
        """
        if self.interruption.asked:
            return False, {}
        aim = Verdict.HIGHER if combinations[0].name == variants.ALL else Verdict.LOWER
        plan = sampling_plan.tuning(plan, len(combinations) - 1)
        if plan.seconds:
            left_s = self.ends - time.monotonic() - kept_s
            plan = updated(plan, seconds=max(1.0, min(plan.seconds, left_s)))
        config = updated(self.config, plan=plan, aim=aim)
        finished, run, trials = _measured(config, name, self.target, combinations, self.progress)
        if run is None:
            return False, {}
        self.trials.extend(trials)
        if run.loads and not self.config.loads:
            self.config = updated(self.config, loads=run.loads[-1:])
        return finished, ablation.against_baseline(run, trials)
