"""One comparison on several machines: what holds on each, on average, and on a further one.

The unit is the machine. Its ratio and its error are those of its own verdict; blocks say how well a
ratio is known, and never how many machines there are. The mean is that of a random-effects model:
machines differ by more than their errors, and that is the variation that the interval is about.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from jissoku.inference import checks, estimate, pooling
from jissoku.inference.compare import compare_cost, comparison_input
from jissoku.inference.decision import Decided, holm
from jissoku.inference.estimate import Looks
from jissoku.inference.late import special
from jissoku.inference.pooling import LogRatio, RandomEffects
from jissoku.inference.summary import summarise
from jissoku.model import Condition, LoadLevel, Run, Trial, updated, wording
from jissoku.model.machines import (
    LeaveOneOut,
    MachineOut,
    MachineRatio,
    MachinesComparison,
    MachinesRun,
    MachinesSummary,
    MachinesVerdict,
    MeasuredMachine,
)
from jissoku.model.run import NetworkPath
from jissoku.model.summary import ALPHA, Comparison, Estimate, Metric

# Two means have an interval of 12.7 standard errors: they are shown, and not pooled.
POOLED_MIN = 3

# Fewer machines say next to nothing about a further one, and fewer than ten only roughly.
NEXT_MIN, NEXT_ROUGH = 5, 10

# Without more of the machines than this the others may be a selection.
OUT_FRACTION_MAX = 0.2

# Forecasts of the number of machines end here.
NEEDED_MAX = 1000

# Common loads of machines whose rates differ by more are remarked on.
RATE_FACTOR_MAX = 2.0

LEVELS = tuple(LoadLevel)


def measured_machine(
    number: int, run: Run, trials: Sequence[Trial], unfinished: str = ""
) -> MeasuredMachine:
    """What a machine's record says; its trials are not needed afterwards."""
    summary = summarise(run, trials, has_curves=False, unfinished=unfinished)
    evidence = comparison_input(run, trials)
    costs = summary.by(Metric.COST)
    least = Looks(run.horizon).first
    found = []
    for own in costs:
        decided = compare_cost(evidence, own.arm, own.against, own.load, len(costs))
        if decided is not None and len(decided.values) >= least and own.ratio is not None:
            found.append(_machine_ratio(number, decided, own))
    known = {_key(one.own) for one in found}
    rejected = Counter(
        check.name for trial in trials if checks.is_rejected(trial) for check in trial.failed_checks
    )
    return MeasuredMachine(
        number=number,
        machine=run.machine,
        baseline=run.baseline,
        cores=len(run.cores.server),
        path=run.load_host.path if run.load_host else NetworkPath.LOOPBACK,
        condition=summary.condition,
        other_programs=summary.other_programs,
        blocks=summary.blocks,
        trials_total=summary.trials_total,
        trials_valid=summary.trials_valid,
        rejected=dict(sorted(rejected.items())),
        headline=summary.headline,
        main_level=None if summary.main_load is None else summary.main_load.level,
        ratios=tuple(found),
        too_few=tuple(one for one in costs if _key(one) not in known),
        unfinished=unfinished,
    )


def _machine_ratio(number: int, decided: Decided, own: Comparison) -> MachineRatio:
    values = decided.values
    spread = decided.spread or estimate.own_spread(values)
    return MachineRatio(
        machine=number,
        mean=estimate.mean_and_sd(values)[0],
        error=spread.sd / math.sqrt(len(values)),
        freedom=spread.freedom,
        blocks=len(values),
        own=own,
    )


Key = tuple[str, str, LoadLevel]


def _key(one: Comparison) -> Key:
    return one.arm, one.against, one.load.level


def over_machines(
    run: MachinesRun, machines: Sequence[MeasuredMachine], out: Sequence[MachineOut] = ()
) -> MachinesSummary:
    """The verdicts over all machines; the same for the same machines, in whatever order."""
    machines = sorted(machines, key=attrgetter("number"))
    out = tuple(sorted(out, key=attrgetter("machine")))
    ratios: dict[Key, list[MachineRatio]] = defaultdict(list)
    lacking: dict[Key, list[MachineOut]] = defaultdict(list)
    for machine in machines:
        for ratio in machine.ratios:
            ratios[_key(ratio.own)].append(ratio)
        for lack in machine.too_few:
            lacking[_key(lack)].append(MachineOut(machine=machine.number, reason=_lack(lack)))
    for key in {**ratios, **lacking}:
        known = {one.machine for one in ratios[key]} | {one.machine for one in lacking[key]}
        lacking[key] += [
            MachineOut(machine=one.number, reason="it has not measured this")
            for one in machines
            if one.number not in known
        ]
    baseline = machines[0].baseline if machines else ""
    ordered = sorted(
        {**ratios, **lacking}, key=lambda key: (key[1] != baseline, LEVELS.index(key[2]))
    )
    found = [
        compare_machines(key, ratios[key], (*out, *lacking[key]), run.machines) for key in ordered
    ]
    levels = Counter(one.main_level for one in machines if one.main_level)
    settled = settle(found)
    main = max(
        levels or {one.level for one in settled},
        key=lambda level: (levels[level], LEVELS.index(level)),
        default=None,
    )
    return MachinesSummary(
        run=run,
        baseline=baseline,
        headline=_headline(settled, main, out),
        main_level=main,
        machines=tuple(machines),
        out=out,
        comparisons=settled,
    )


def _lack(one: Comparison) -> str:
    reason = one.remarks[0] if one.remarks else str(one.verdict)
    return f"{wording.too_few_blocks(one.ratio.blocks)} for a verdict" if one.ratio else reason


def compare_machines(
    key: Key, ratios: Sequence[MachineRatio], out: Sequence[MachineOut], asked: int
) -> MachinesComparison:
    """One pair at one level, without the correction for the number of comparisons.

    A machine is out because it has too few blocks or none, and for no other reason.
    """
    arm, against, level = key
    lower, higher = _proven(ratios)
    known = MachinesComparison(
        arm=arm,
        against=against,
        level=level,
        verdict=MachinesVerdict.INCONCLUSIVE,
        ratios=tuple(ratios),
        out=tuple(sorted(out, key=attrgetter("machine"))),
        minimum_effect=max((one.own.minimum_effect for one in ratios), default=0.0),
        proven_lower=lower,
        proven_higher=higher,
        remarks=tuple(_remarks(ratios)),
    )
    if asked - len(ratios) > OUT_FRACTION_MAX * asked:
        return updated(known, verdict=MachinesVerdict.INCOMPLETE)
    if len(ratios) < POOLED_MIN:
        few = MachinesVerdict.OF_ONE if len(ratios) == 1 else MachinesVerdict.NOT_POOLED
        return updated(known, verdict=few)
    logs = [_log(one) for one in ratios]
    effects = pooling.random_effects(logs)
    assert effects is not None, "three ratios have a mean"
    whole = updated(known, **_values(ratios, logs, effects, known.minimum_effect))
    return updated(whole, verdict=classify(whole, effects))


def _log(one: MachineRatio) -> LogRatio:
    return LogRatio(one.mean, one.error**2, one.freedom)


def _values(
    ratios: Sequence[MachineRatio],
    logs: Sequence[LogRatio],
    effects: RandomEffects,
    minimum_effect: float,
) -> dict[str, Any]:
    blocks, band = sum(one.blocks for one in ratios), math.log1p(minimum_effect)

    def shown(found: RandomEffects, half: float) -> Estimate:
        low, value, high = (math.exp(found.mean + part) for part in (-half, 0.0, half))
        return Estimate(value=value, low=low, high=high, blocks=blocks, sd_log=found.tau)

    without = []
    for place, one in enumerate(ratios if len(ratios) > POOLED_MIN else ()):
        left = pooling.random_effects([*logs[:place], *logs[place + 1 :]])
        assert left is not None, "two ratios have a mean"
        without.append(LeaveOneOut(machine=one.machine, ratio=shown(left, left.half_width())))
    ahead = pooling.half_width_of_next(logs) if len(ratios) >= NEXT_MIN else None
    return {
        "ratio": shown(effects, effects.half_width()),
        "next_machine": None if ahead is None else shown(effects, ahead),
        "tau": effects.tau,
        "p_differ": pooling.p_differ(logs),
        "i_squared": pooling.i_squared(logs),
        "p_value": min(1.0, 2 * _tail(abs(effects.mean), effects)),
        "p_equal": _tail(band - abs(effects.mean), effects),
        "machines_needed": machines_needed(effects, band),
        "leave_one_out": tuple(without),
    }


def _tail(away: float, effects: RandomEffects) -> float:
    """One-sided p-value of a mean that is this far from a limit."""
    if effects.error == 0:
        return 0.0 if away > 0 else 1.0
    return float(special.stdtr(effects.freedom, -away / effects.error))


def _proven(ratios: Sequence[MachineRatio]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The machines on which a difference that matters is proven, lower and higher.

    Each machine's p-value is corrected for its own comparisons already, and here for the machines.
    """
    p_values = holm([one.own.p_holm if one.own.proven else None for one in ratios])
    proven = [
        one
        for one, p in zip(ratios, p_values, strict=True)
        if p is not None and p <= ALPHA and not one.own.verdict.is_slight
    ]
    lower = tuple(one.machine for one in proven if one.own.verdict.is_lower)
    return lower, tuple(one.machine for one in proven if not one.own.verdict.is_lower)


def classify(known: MachinesComparison, effects: RandomEffects) -> MachinesVerdict:
    """The verdict over three machines or more.

    It depends on the machine if it is proven both ways, or if machines are proven to differ, and a
    further one may lie beyond the minimum effect on either side. The latter needs ten machines:
    what fewer predict is rough.
    """
    count, mean, band = len(known.ratios), effects.mean, math.log1p(known.minimum_effect)
    half, narrow = effects.half_width(), effects.half_width(0.90)
    ahead = known.next_machine
    is_open = ahead is not None and math.log(ahead.low) < -band and math.log(ahead.high) > band
    differ = count >= NEXT_ROUGH and (known.p_differ or 0.0) <= ALPHA
    rules = {
        MachinesVerdict.LOWER_ON_ALL: len(known.proven_lower) == count,
        MachinesVerdict.HIGHER_ON_ALL: len(known.proven_higher) == count,
        MachinesVerdict.DEPENDS: bool(known.proven_lower and known.proven_higher)
        or (differ and is_open),
        MachinesVerdict.LOWER_ON_AVERAGE: mean + half < -band,
        MachinesVerdict.HIGHER_ON_AVERAGE: mean - half > band,
        MachinesVerdict.EQUAL: -band <= mean - narrow and mean + narrow <= band,
    }
    return next((one for one, holds in rules.items() if holds), MachinesVerdict.INCONCLUSIVE)


def machines_needed(effects: RandomEffects, band: float) -> int | None:
    """How many machines would decide that vary as these do; None: over 1,000, or decided."""
    count = effects.freedom + 1
    spread, away = effects.error * math.sqrt(count), abs(abs(effects.mean) - band)
    if away == 0:
        return None

    def would_decide(machines: int) -> bool:
        quantile = float(special.stdtrit(machines - 1, 0.975))
        return quantile * spread / math.sqrt(machines) < away

    return next((one for one in range(count + 1, NEEDED_MAX + 1) if would_decide(one)), None)


# What is said of a mean, and has to survive the correction for the number of comparisons.
ON_AVERAGE = {MachinesVerdict.LOWER_ON_AVERAGE, MachinesVerdict.HIGHER_ON_AVERAGE}


def settle(family: Sequence[MachinesComparison]) -> tuple[MachinesComparison, ...]:
    """Corrects means for the number of comparisons (Holm), and writes the sentences."""
    different = holm([one.p_value for one in family])
    equal = holm([one.p_equal for one in family])
    found = []
    for one, p_holm, p_equal in zip(family, different, equal, strict=True):
        is_open = one.verdict in ON_AVERAGE and (p_holm or 0.0) > ALPHA
        is_open |= one.verdict is MachinesVerdict.EQUAL and (p_equal or 0.0) > ALPHA
        verdict = MachinesVerdict.INCONCLUSIVE if is_open else one.verdict
        needed = one.machines_needed if verdict is MachinesVerdict.INCONCLUSIVE else None
        whole = updated(
            one, verdict=verdict, p_holm=p_holm, p_equal_holm=p_equal, machines_needed=needed
        )
        found.append(updated(whole, sentence=sentence(whole)))
    return tuple(found)


def _remarks(ratios: Sequence[MachineRatio]) -> Iterator[str]:
    rates = [one.own.load.rate_rps for one in ratios if one.own.load.rate_rps]
    if rates and max(rates) > RATE_FACTOR_MAX * min(rates):
        yield (
            f"the rates are {min(rates):,} to {max(rates):,} requests/s, the same part of what each"
            " machine can do"
        )
    busy = [str(one.machine) for one in ratios if one.own.condition is not Condition.QUIET]
    if busy:
        which = wording.plural(len(busy), "machine")
        yield f"beside other programs on {which} {wording.join_names(busy)}"


def _headline(
    found: Sequence[MachinesComparison], main: LoadLevel | None, out: Sequence[MachineOut]
) -> str:
    if not found:
        reason = f": {out[0].reason}" if out else ""
        return f"No machine has measured anything{reason}."
    first = next((one for one in found if one.level is main), found[0])
    return f"{first.sentence}."


WORDS: Mapping[MachinesVerdict, str] = {
    MachinesVerdict.LOWER_ON_ALL: "uses less CPU, proven on each",
    MachinesVerdict.LOWER_ON_AVERAGE: "uses less CPU on average",
    MachinesVerdict.EQUAL: "practically equal on average",
    MachinesVerdict.HIGHER_ON_AVERAGE: "uses more CPU on average",
    MachinesVerdict.HIGHER_ON_ALL: "uses more CPU, proven on each",
    MachinesVerdict.DEPENDS: "it depends on the machine",
    MachinesVerdict.INCONCLUSIVE: "inconclusive",
}


def sentence(one: MachinesComparison) -> str:
    at = f"at {level_text(one)}"
    count = wording.counted(len(one.ratios), "machine")
    if one.verdict is MachinesVerdict.INCOMPLETE:
        names = wording.join_names([str(gone.machine) for gone in one.out])
        which = wording.plural(len(one.out), "machine")
        missing = f" without {which} {names}" if one.out else ""
        return f"{one.arm} compared with {one.against} {at}: incomplete{missing}"
    if one.verdict is MachinesVerdict.OF_ONE:
        return f"{one.ratios[0].own.sentence} (one machine)"
    of = f"the CPU time per request of {one.against} {at}"
    if one.ratio is None:
        each = wording.join_names([_of_machine(ratio) for ratio in one.ratios])
        return f"{one.arm} uses {each} {of}; {count} are not pooled"
    says = [WORDS[one.verdict] + _proven_text(one) + _needed_text(one)]
    if (ahead := one.next_machine) is not None:
        rough = "roughly " if len(one.ratios) < NEXT_ROUGH else ""
        says.append(f"the next machine like these: {rough}{ahead.text.split(' ', 1)[1]}")
    return f"{one.arm} uses {_factor(one.ratio)} {of} on {count}: {'; '.join(says)}"


def _factor(ratio: Estimate | None) -> str:
    unknown = "an unknown multiple of"
    return unknown if ratio is None else wording.factor_text(ratio, unknown)


def _of_machine(ratio: MachineRatio) -> str:
    return f"{_factor(ratio.own.ratio)} on machine {ratio.machine}"


def _proven_text(one: MachinesComparison) -> str:
    """On how many machines it is proven, where that is not all of them."""
    parts = [
        f"{verb} on {len(proven)}"
        for verb, proven in (("less", one.proven_lower), ("more", one.proven_higher))
        if proven and len(proven) < len(one.ratios)
    ]
    return f" (proven: {' and '.join(parts)} of them)" if parts else ""


def _needed_text(one: MachinesComparison) -> str:
    if one.verdict is not MachinesVerdict.INCONCLUSIVE:
        return ""
    needed = one.machines_needed
    return f", {needed or f'more than {NEEDED_MAX:,}'} machines may decide"


def level_text(one: MachinesComparison) -> str:
    """As in `medium load`; a rate that was asked for is the same on all machines."""
    if one.level in {LoadLevel.GIVEN, LoadLevel.FULL} and one.ratios:
        return one.ratios[0].own.load.text
    return f"{one.level} load"
