"""Campaigns with known ratios, and the events counted in each of them."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from jissoku import inference
from jissoku.design import variants as combinations
from jissoku.design.sampling_plan import SAMPLING_PLANS
from jissoku.inference import ablation, claims
from jissoku.inference.claims import WorkloadTrials
from jissoku.inference.estimate import VERDICT_BLOCKS_MIN
from jissoku.model import (
    ChangeKind,
    Comparison,
    CoreAssignment,
    CounterReadings,
    Decision,
    Knob,
    KnobChange,
    Method,
    Metric,
    Mode,
    Run,
    Trial,
    TrialKind,
    Verdict,
)
from jissoku.model.experiment import Claim, ClaimStatus, Experiment, ExperimentHeader, WorkloadSpec
from jissoku.model.summary import CrossCheckName
from jissoku.model.updated import updated
from tests.simulation.campaigns import Plan, campaign
from tests.simulation.noise import GO, HEAVY, LIKE, LOADS, NATIVE, NODE, Drift, Noise, Shape

STANDARD = SAMPLING_PLANS[Mode.STANDARD]
QUICK = SAMPLING_PLANS[Mode.QUICK]

# The events of one campaign: (number, of how many).
Counted = Mapping[str, tuple[int, int]]
Simulate = Callable[[np.random.Generator], Counted]


def answered(run: Run, trials: tuple[Trial, ...]) -> list[Comparison]:
    """The comparisons by cost of a campaign."""
    return list(inference.summarise(run, trials).by(Metric.COST))


def share(found: list[Comparison], is_so: Callable[[Comparison], bool]) -> tuple[int, int]:
    """How many of these comparisons are so, of all."""
    return sum(map(is_so, found)), len(found)


def is_off(found: Comparison, truth: float = 1.0) -> bool:
    """Whether the 95 % interval excludes the true ratio."""
    return found.ratio is None or not found.ratio.low <= truth <= found.ratio.high


def is_different(found: Comparison) -> bool:
    """Whether the verdict is a difference."""
    return found.verdict.is_difference


def contradicts(found: Comparison, name: CrossCheckName) -> bool:
    """Whether a check of this name does not agree."""
    return any(check.name is name and not check.agrees for check in found.cross_checks)


def equal_pair(noise: Noise) -> Simulate:
    """Two equal arms in quick mode, at three loads."""

    def simulate(rng: np.random.Generator) -> Counted:
        found = answered(*campaign(quick([1.0, 1.0], noise), rng))
        return {
            "interval excludes 1": share(found, is_off),
            "verdict: different": share(found, is_different),
            "any proven": (any(one.proven for one in found), 1),
        }

    return simulate


def at_every_look(plan: Plan, rng: np.random.Generator) -> Iterator[list[Comparison]]:
    """The comparisons by cost after each block, from the third on, as a run sees them."""
    run, trials = campaign(updated(plan, paced_blocks=0, check_blocks=0), rng)
    run = updated(run, horizon=plan.blocks)
    for blocks in range(3, plan.blocks + 1):
        seen = tuple(trial for trial in trials if trial.block < blocks)
        yield list(inference.cost_verdicts(run, seen).values())


def equal_at_every_look(noise: Noise, arms: int = 2, blocks: int = 9) -> Simulate:
    """Equal arms, watched from the third block to the last."""

    def simulate(rng: np.random.Generator) -> Counted:
        off, different, proven = set[int](), set[int](), False
        count = 0
        for found in at_every_look(quick([1.0] * arms, noise, blocks=blocks), rng):
            count = len(found)
            off |= {index for index, one in enumerate(found) if is_off(one)}
            different |= {index for index, one in enumerate(found) if is_different(one)}
            proven |= any(one.proven for one in found)
        return {
            "an interval of any look excludes 1": (len(off), count),
            "different at any look": (len(different), count),
            "any proven at any look": (proven, 1),
        }

    return simulate


def until_decided(plan: Plan, rng: np.random.Generator) -> list[Comparison]:
    """The comparisons at the look that ends a run: all are decided, or no block is left."""
    found: list[Comparison] = []
    for found in at_every_look(plan, rng):
        if all(one.is_decided for one in found):
            break
    return found


def ended_when_decided(noise: Noise, ratio: float) -> Simulate:
    """Two arms at the heavy load, until they are decided."""

    def simulate(rng: np.random.Generator) -> Counted:
        found = until_decided(quick([1.0, ratio], noise, loads=(HEAVY,)), rng)
        return {
            "interval covers the truth": share(found, lambda one: not is_off(one, ratio)),
            "wrong sign": share(found, _says_less),
            "decided": share(found, lambda one: one.is_decided),
        }

    return simulate


def quick(costs: list[float], noise: Noise, **changes: object) -> Plan:
    """What the quick mode measures."""
    plan = Plan(
        costs=costs,
        noise=noise,
        blocks=QUICK.blocks,
        paced_blocks=QUICK.fixed_rate_blocks,
        check_blocks=QUICK.cross_check_blocks,
    )
    return updated(plan, **changes)  # type: ignore[arg-type]


def fewest_blocks(rng: np.random.Generator) -> Counted:
    """Two equal arms with no more blocks than a verdict needs."""
    plan = quick([1.0, 1.0], Noise(), loads=(HEAVY,), blocks=VERDICT_BLOCKS_MIN)
    found = answered(*campaign(updated(plan, paced_blocks=0, check_blocks=0), rng))
    return {"interval excludes 1": share(found, is_off)}


def equal_latencies(rng: np.random.Generator) -> Counted:
    """Two arms of the same latency, which varies by a tenth."""
    plan = quick([1.0, 1.0], Noise(), latency=0.1)
    found = inference.summarise(*campaign(plan, rng)).by(Metric.P99)
    return {"interval excludes 1": share(list(found), is_off)}


def unlike_pair(rng: np.random.Generator) -> Counted:
    """A native server and one of Node that costs 30 % more."""
    found = answered(*campaign(quick([1.0, 1.3], Noise(starts=(NATIVE, NODE))), rng))
    return {
        "interval covers the truth": share(found, lambda one: not is_off(one, 1.3)),
        "wrong sign": share(found, _says_less),
    }


def injected(
    percent: float, noise: Noise, mode: Mode, method: Method = Method.TIME_SLICED
) -> Simulate:
    """One of two arms costs so much more."""

    def simulate(rng: np.random.Generator) -> Counted:
        plan = quick([1.0, 1 + percent / 100], noise, loads=(HEAVY,), method=method)
        if mode is Mode.STANDARD:
            found = until_decided(updated(plan, blocks=STANDARD.blocks_max), rng)
        else:
            found = answered(*campaign(plan, rng))
        return {
            "proven, right sign": share(found, lambda one: one.proven and not _says_less(one)),
            "wrong sign": share(found, _says_less),
        }

    return simulate


def _says_less(found: Comparison) -> bool:
    return found.verdict in {Verdict.LOWER, Verdict.SLIGHTLY_LOWER}


def family(shape: Shape) -> Simulate:
    """Ten equal arms of all kinds at the heavy load: 45 comparisons."""

    def simulate(rng: np.random.Generator) -> Counted:
        starts = (*[NATIVE] * 6, GO, GO, NODE, NODE)
        plan = quick([1.0] * 10, Noise(shape=shape, starts=starts), loads=(HEAVY,))
        found = answered(*campaign(updated(plan, paced_blocks=0, check_blocks=0), rng))
        return {
            "any proven": (any(one.proven for one in found), 1),
            "verdict: different": share(found, is_different),
        }

    return simulate


def half_equal(rng: np.random.Generator) -> Counted:
    """Five equal arms and five that differ: what is proven of the equal ones is wrong."""
    costs = [1.0] * 5 + [1.2, 1.5, 2.0, 3.0, 5.0]
    plan = updated(quick(costs, Noise(), loads=(HEAVY,)), paced_blocks=0, check_blocks=0)
    found = answered(*campaign(plan, rng))
    equal = set(plan.names[:5])
    alike = [one for one in found if {one.arm, one.against} <= equal]
    apart = [one for one in found if not {one.arm, one.against} <= equal]
    return {
        "any proven of the equal": (any(one.proven for one in alike), 1),
        "proven of the others": share(apart, lambda one: one.proven),
    }


def agreeing_checks(noise: Noise, loads: int = 3) -> Simulate:
    """Two arms of which every way of measuring shows the same 10 %."""

    def simulate(rng: np.random.Generator) -> Counted:
        plan = quick([1.0, 1.1], noise, loads=LOADS[:loads])
        found = answered(*campaign(updated(plan, paced_blocks=6, check_blocks=6, blocks=10), rng))
        return {
            "other slice length contradicts": _any(found, CrossCheckName.OTHER_SLICE),
            "single-target trials contradict": _any(found, CrossCheckName.ALONE),
            "verdict withdrawn": (any(one.verdict is Verdict.DISPUTED for one in found), 1),
        }

    return simulate


def _any(found: list[Comparison], name: CrossCheckName) -> tuple[int, int]:
    return any(contradicts(one, name) for one in found), 1


def contradicting_check(rng: np.random.Generator) -> Counted:
    """A pair whose order differs if each arm runs alone."""
    noise = Noise(own=(0.02, 0.01, 0.01), starts=(NATIVE,))
    plan = quick([1.0, 1.1], noise, loads=(HEAVY,), blocks=10, paced_blocks=6, check_blocks=6)
    run, trials = campaign(plan, rng)
    other = tuple(
        updated(
            t,
            measurements=tuple(
                updated(x, cpu_ns=round((x.cpu_ns or 0) * 0.8)) for x in t.measurements
            ),
        )
        if t.kind is TrialKind.FIXED_RATE and t.arms == (plan.names[1],)
        else t
        for t in trials
    )
    found = answered(run, other)
    return {"verdict withdrawn": share(found, lambda one: one.verdict is Verdict.DISPUTED)}


KNOBS = ("a", "b", "c", "d")


def useless_knobs(method: Method) -> Simulate:
    """Four knobs without an effect, although each changes its counter as predicted."""
    noise = Noise() if method is Method.TIME_SLICED else LIKE

    def simulate(rng: np.random.Generator) -> Counted:
        alone = _tuned([one.name for one in combinations.one_at_a_time(KNOBS)], method, noise, rng)
        without = _tuned(
            [one.name for one in combinations.leave_one_out(KNOBS)], method, noise, rng
        )
        found = [
            ablation.KnobEvidence(
                knob=_knob(name),
                alone=alone[combinations.name_alone(name)],
                leave_one_out=without[combinations.name_leave_one_out(name)],
                base=CounterReadings(requests=400, per_request={name: 1.0}),
                switched=CounterReadings(requests=400),
                same_answers=True,
            )
            for name in KNOBS
        ]
        accepted = [r for r in ablation.decide_knobs(found) if r.decision is Decision.ACCEPTED]
        return {"any accepted": (bool(accepted), 1)}

    return simulate


def _knob(name: str) -> Knob:
    change = KnobChange(kind=ChangeKind.DIRECTIVE, name=name, value="on")
    return Knob(name=name, why="It is simulated.", counter=name, change=(change,))


def _tuned(
    names: list[str], method: Method, noise: Noise, rng: np.random.Generator
) -> dict[str, Comparison]:
    plan = quick([1.0] * len(names), noise, loads=(HEAVY,), method=method, paced_blocks=0)
    run, trials = campaign(updated(plan, check_blocks=0), rng)
    to = dict(zip(plan.names, names, strict=True))
    arms = tuple(updated(arm, name=to[arm.name]) for arm in run.arms)
    renamed = tuple(
        updated(
            trial,
            arms=tuple(to[name] for name in trial.arms),
            measurements=tuple(
                updated(measurement, arm=to[measurement.arm]) for measurement in trial.measurements
            ),
        )
        for trial in trials
    )
    header = updated(run, arms=arms, baseline=names[0], reference=names[0])
    return ablation.against_baseline(header, renamed)


# Each claim's bound is the truth itself, so that either answer is wrong.
BORDERLINE = (
    "cost(arm1) / cost(arm0) < 1.2",
    "cost(arm2) / cost(arm0) > 1.5",
    "cost(arm2) / cost(arm1) > 1.25",
    "rate(arm0) > 1.2 * rate(arm1)",
    "rate(arm0) / rate(arm2) < 1.5",
    "rate(arm2) / rate(arm3) > 1",
)
TRUE = (
    "cost(arm1) / cost(arm0) < 1.3",
    "cost(arm0) < cost(arm1) < cost(arm2)",
    "1.4 < rate(arm0) / rate(arm2) < 1.6",
)
CLAIM_COSTS = [1.0, 1.2, 1.5, 1.5]


def borderline_claims(rng: np.random.Generator) -> Counted:
    """Six claims of one experiment whose bounds are the truth."""
    found = _claimed(BORDERLINE, rng)
    return {"any answered": (any(one is not ClaimStatus.UNDECIDED for one in found), 1)}


def true_claims(rng: np.random.Generator) -> Counted:
    """Three claims that hold, with some distance."""
    found = _claimed(TRUE, rng)
    return {
        "answered wrongly": (found.count(ClaimStatus.FAILS), len(found)),
        "answered": (len(found) - found.count(ClaimStatus.UNDECIDED), len(found)),
    }


def _claimed(tests: tuple[str, ...], rng: np.random.Generator) -> list[ClaimStatus]:
    noise = Noise(drift=Drift.WANDERING, starts=(NATIVE, NATIVE, GO, NATIVE))
    plan = quick(CLAIM_COSTS, noise, loads=(HEAVY,), closed_blocks=QUICK.blocks)
    run, trials = campaign(plan, rng)
    experiment = Experiment(
        name="simulated",
        title="Simulated",
        description="Its truth is known.",
        target=(),
        workload=(WorkloadSpec(name="one"),),
        claim=(),
    )
    header = ExperimentHeader(
        experiment=experiment,
        jissoku=run.jissoku,
        started_utc=run.started_utc,
        mode=Mode.QUICK,
        seed=1,
        machine=run.machine,
        cores=CoreAssignment(server=(0,), generator=(1,)),
        workloads=("one",),
    )
    known = claims.ClaimData(
        header=header, workloads={"one": WorkloadTrials(run=run, trials=trials, counters={})}
    )
    asked = [Claim(name=text, text="It is so.", test=(text,)) for text in tests]
    return [found.status for found in claims.evaluate_claims(known, asked)]
