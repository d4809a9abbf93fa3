"""Methods, loads and levels of a run, the order of its trials by the seed alone, and searches."""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jissoku.errors import InputError
from jissoku.model import (
    Arm,
    Axis,
    CapacityStep,
    Load,
    LoadLevel,
    Method,
    Mode,
    Trial,
    TrialKind,
    rate_grid,
)
from jissoku.model.summary import BoundStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTrial:
    """The arms are in starting order; the seed decides ports, padding and the order of sends."""

    block: int
    kind: TrialKind
    arms: tuple[str, ...]
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMeasurement:
    """One trial on a start; a check is in slices of the other length."""

    kind: TrialKind
    load: Load | None = None
    is_check: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStart:
    """What is measured on one start: trials of one kind, each at a load of its own, in this order.

    `is_check`: also in slices of the other length, and `only_checks` in no others.
    """

    planned: PlannedTrial
    loads: tuple[Load, ...] = ()
    is_check: bool = False
    only_checks: bool = False


def baseline_first(arms: Sequence[str], aa_control: str) -> tuple[tuple[str, str], ...]:
    """(arm, baseline) of every arm: the paired trials of a run of like arms."""
    first = arms[0]
    others = [name for name in arms if name != first]
    return tuple((name, first) for name in ([*others, aa_control] if aa_control else others))


def block(
    index: int,
    loads: Sequence[Load],
    kinds: Mapping[TrialKind, Sequence[tuple[str, ...]]],
    *,
    seed: int,
    checks: bool = False,
) -> Iterator[PlannedStart]:
    """What one block measures, in its order, decided by the seed alone.

    The order of starts, of arms within each start and of loads is drawn. Within a paired trial
    the starting order alternates between blocks, so that over a run both arms are first equally
    often. `kinds` has the groups of arms, a start for each; with `checks` time-sliced starts
    are also measured in slices of the other length.
    """
    rng = random.Random(f"{seed}/block/{index}")
    starts = [(kind, names) for kind, groups in kinds.items() for names in groups]
    rng.shuffle(starts)
    for kind, names in starts:
        ordered = list(names)
        if kind is TrialKind.PAIRED:
            flip = random.Random(f"{seed}/{'+'.join(names)}").randrange(2)
            ordered = ordered if (index + flip) % 2 == 0 else ordered[::-1]
        else:
            rng.shuffle(ordered)
        mine = list(loads)
        rng.shuffle(mine)
        yield PlannedStart(
            planned=PlannedTrial(
                block=index, kind=kind, arms=tuple(ordered), seed=rng.getrandbits(31)
            ),
            loads=tuple(mine),
            is_check=checks and kind is TrialKind.TIME_SLICED,
        )


# Three parameters are fitted: with fewer levels any data fit.
LEVELS_MIN = 6

CONNECTIONS = (1, 2, 4, 8, 16, 32, 64, 128)

# Above this number of workers only powers of two are measured.
WORKERS_ALL = 8

# Parts of the slowest target's closed-loop rate. The last ones are beyond what it can answer, so
# that the end of the climb is seen and not guessed.
CAPACITY_FRACTIONS = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.1)


def validated_levels(levels: Sequence[int]) -> tuple[int, ...]:
    """The same levels, ascending; an InputError if they cannot be fitted."""
    if len(set(levels)) != len(levels):
        raise InputError("--levels names a level twice")
    if any(level < 1 for level in levels):
        raise InputError("--levels: a level is a whole number from 1")
    if len(levels) < LEVELS_MIN:
        raise InputError(
            f"--levels gives {len(levels)}: name at least {LEVELS_MIN}, a model with three"
            " parameters fits any fewer points"
        )
    return tuple(sorted(levels))


def levels_of(axis: Axis, cores: int) -> tuple[int, ...]:
    """Default levels; empty for rates, which depend on the targets.

    Levels of workers beyond the server's cores show the cost of too many, and are never fitted.
    """
    if axis is Axis.CONNECTIONS:
        return CONNECTIONS
    if axis is Axis.RATE:
        return ()
    most = max(cores, LEVELS_MIN)
    doubling = tuple(2**power for power in range(3, most.bit_length()) if 2**power <= most)
    return tuple(sorted({*range(1, min(most, WORKERS_ALL) + 1), *doubling, most}))


def rates_of(capacities: Mapping[str, float]) -> tuple[int, ...]:
    """Rates common to all targets, from each one's closed-loop rate; ascending, in two digits."""
    rates = set()
    for fraction in CAPACITY_FRACTIONS:
        rate = min(capacities.values()) * fraction
        scale = 10 ** max(0, math.floor(math.log10(rate)) - 1) if rate > 1 else 1
        rates.add(max(1, round(rate / scale) * scale))
    return tuple(sorted(rates))


def level_block(
    index: int, names: Sequence[str], levels: Sequence[int], kind: TrialKind, *, seed: int
) -> Iterator[tuple[PlannedTrial, int]]:
    """Every target at every level once, in a random order: drift affects all levels alike."""
    rng = random.Random(f"{seed}/sweep/{index}")
    cells = [(name, level) for name in names for level in levels]
    rng.shuffle(cells)
    for name, level in cells:
        seed = rng.getrandbits(31)
        yield PlannedTrial(block=index, kind=kind, arms=(name,), seed=seed), level


# Requests per second for each core of the server. The pilot only says which of these an arm can
# reach; it never moves them.
LIGHT, MEDIUM, HEAVY = 1_000, 5_000, 20_000


NAMED = ((LIGHT, LoadLevel.LIGHT), (MEDIUM, LoadLevel.MEDIUM), (HEAVY, LoadLevel.HEAVY))
LOADS = {
    Mode.QUICK: NAMED,
    Mode.STANDARD: tuple(
        (rate, max(one for one in NAMED if one[0] <= rate)[1]) for rate in rate_grid(LIGHT, 100_000)
    ),
}

# An arm reaches a rate that is at most this part of its closed-loop rate: full load is asked for at
# 85 to 90 %, and a pilot that errs by a tenth moves no arm from one grid point to the next.
LOAD_MAX = 0.9

# Of slow arms all rates are divided by this factor, once or more often.
DECADE = 10


def capacities_of(trials: Sequence[Trial]) -> dict[str, float]:
    """Requests per second of each arm in the closed loop: its best attempt, however disturbed."""
    found: dict[str, float] = {}
    for trial in trials:
        for measurement in trial.measurements:
            rate = measurement.requests / measurement.duration_ns * 1e9
            found[measurement.arm] = max(rate, found.get(measurement.arm, 0.0))
    return found


def loads(
    capacities: Mapping[str, float], arms: Sequence[str], mode: Mode, cores: int, *, needed: int = 2
) -> tuple[Load, ...]:
    """The loads of a run, lightest first: those of the mode that `needed` arms reach.

    If the slowest arm reaches none of them, there is one more, which all arms reach: a light one,
    because it is below the others. `arms` are those that are compared: a unit of cost counts for
    none. Rates of the grid are for each core of the server; capacities are closed-loop rates.
    """
    known = sorted((rate for name in arms if (rate := capacities.get(name, 0.0)) > 0), reverse=True)
    if len(known) < 2:
        return ()
    found = _grid(known[min(needed, len(known)) - 1] * LOAD_MAX, mode, cores)
    common = _grid(known[-1] * LOAD_MAX, mode, cores)
    if not common or common[0] in found:
        return (*found,)
    return (Load(rate_rps=common[-1].rate_rps, level=LoadLevel.LIGHT), *found)


def _grid(reached: float, mode: Mode, cores: int) -> list[Load]:
    """The rates of a mode up to one that is reached, in that decade which has any.

    There is none below one request per second. Of equal rates the lightest level stays.
    """
    if reached < 1:
        return []
    # An integer, because a factor that is divided again and again is no longer exact, and a rate
    # that ends in a half would be rounded either way.
    divisor = 1
    while reached < round(LIGHT * cores / divisor):
        divisor *= DECADE
    found: dict[int, Load] = {}
    for given, level in LOADS[mode]:
        rate = max(1, round(given * cores / divisor))
        if rate <= reached:
            found.setdefault(rate, Load(rate_rps=rate, level=level))
    return list(found.values())


def arms_reaching(
    load: Load, capacities: Mapping[str, float], arms: Sequence[str]
) -> tuple[str, ...]:
    """The arms that are measured at a load; all of them if capacities are unknown."""
    rate = load.rate_rps
    if rate is None:
        return tuple(arms)
    return tuple(name for name in arms if capacities.get(name, float("inf")) * LOAD_MAX >= rate)


def choose_method(
    arms: Sequence[Arm], *, is_closed: bool, asked: Method | None = None
) -> tuple[Method, str]:
    """Paired trials for arms that run the same program, time-sliced trials for all others.

    Two copies of one program in similar configurations disturb each other equally, so the
    disturbance of a paired trial cancels; two different programs change each other's batching and
    pre-emption. In a closed loop each slice would begin and end in a burst, so different programs
    run it alone. The user's choice overrides the rule.
    """
    if asked is not None:
        return asked, "given on the command line"
    programs = {arm.binary_sha256 or arm.name for arm in arms}
    if len(programs) == 1 and len({arm.target for arm in arms}) == 1:
        return Method.PAIRED, "all arms run the same program of one recipe"
    if is_closed:
        return Method.SINGLE, "a closed loop cannot be time-sliced"
    return Method.TIME_SLICED, "the arms run different programs"


# The capacity is near the closed loop's rate; a search that starts below it needs a few steps up.
# Each step is twice the previous one, as a logarithm, so that a distant capacity is found, too.
FIRST_OF_CLOSED_LOOP = 0.85
STEP_FACTOR = 1.1

# The gap between the highest rate that met the objective and the lowest that did not.
GAP_MAX = 1.05

STEPS_MAX = 13


def first_rate(near_rps: float, seed: int) -> int:
    """A random rate within one final step above another one.

    With a random first one, what lies between the highest rate that met the objective and the
    capacity differs from search to search, so that the spread of several searches shows it.
    """
    return round(near_rps * math.pow(STEP_FACTOR, random.Random(seed).random() / 2))


def next_rate(steps: Sequence[CapacityStep], first_rps: int) -> int | None:
    """The rate to try next, in requests per second; None when the search is over."""
    met = [step.rate_rps for step in steps if step.is_met]
    broken = [step.rate_rps for step in steps if not step.is_met]
    if not steps:
        return max(1, first_rps)
    if len(steps) >= STEPS_MAX:
        return None
    if not broken:
        return math.ceil(max(met) * math.pow(STEP_FACTOR, 2 ** (len(met) - 1)))
    low = max((rate for rate in met if rate < min(broken)), default=0)
    if not low:
        lower = math.floor(min(broken) / math.pow(STEP_FACTOR, 2 ** len(broken)))
        return max(1, lower) if min(broken) > 1 else None
    high = min(broken)
    return None if high <= low * GAP_MAX or high <= low + 1 else round(math.sqrt(low * high))


def highest_met(steps: Sequence[CapacityStep]) -> int | None:
    """The highest rate that met the objective below every rate that did not; None for none."""
    broken = min((step.rate_rps for step in steps if not step.is_met), default=math.inf)
    return max((s.rate_rps for s in steps if s.is_met and s.rate_rps < broken), default=None)


# How often an undecided commit is measured, with more blocks each time, and how many commits may
# stay undecided before the search ends: others near them are measured in their place.
ATTEMPTS_MAX = 2
UNDECIDED_MAX = 3


@dataclass(frozen=True, slots=True)
class Bisection:
    """The first commit with the property is after `good`, and `bad` at the latest.

    All are indices: -1 for the one before all, None for `bad` if not even the last one is.
    `undecided` are the commits between them at which measurements did not decide.
    """

    good: int
    bad: int | None
    undecided: tuple[int, ...]
    steps: int


def bisection_steps_max(commits: int) -> int:
    """How many measurements `bisect` takes for this many commits if each of them decides."""
    return 1 + (commits - 1).bit_length()


def bisect(commits: Sequence[str], measure: Callable[[str, int], BoundStatus | None]) -> Bisection:
    """Halves the range of commits, oldest first, until one is left or none in it can be decided.

    `measure` measures a commit against the good one; its second argument counts the attempts. None
    ends the search.
    """
    good, bad, steps = -1, len(commits), 0
    undecided: set[int] = set()
    status: BoundStatus | None = BoundStatus.UNDECIDED
    while status is not None and len(undecided) < UNDECIDED_MAX:
        left = [one for one in range(good + 1, min(bad, len(commits))) if one not in undecided]
        if not left:
            break
        # Whether the last one is bad at all comes first.
        middle = len(commits) - 1 if bad == len(commits) else (good + bad) // 2
        _, place = min((abs(one - middle), one) for one in left)
        for attempt in range(ATTEMPTS_MAX):
            status = measure(commits[place], attempt)
            steps += status is not None
            if status is not BoundStatus.UNDECIDED:
                break
        if status is BoundStatus.UNDECIDED:
            undecided.add(place)
        elif status is BoundStatus.EXCEEDED:
            bad = place
        elif status is not None:
            good = place
    still = tuple(sorted(undecided & {*range(good + 1, bad)}))
    return Bisection(good, bad if bad < len(commits) else None, still, steps)
