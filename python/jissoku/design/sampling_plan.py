"""Durations, numbers of blocks and precision of each mode, and what fits a time budget."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files

import msgspec

from jissoku.model import Load, LoadLevel, Mode, TrialKind, time_text, updated

SECOND = 1_000_000_000
MILLISECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class SliceLength:
    """The nominal length of a slice, as recorded, and its length at one load, in nanoseconds."""

    nominal_ns: int
    length_ns: int


# A window has at least this many requests, unless that takes longer than this.
WINDOW_REQUESTS = 20
WINDOW_NS_MAX = 4 * SECOND


def long_enough(window_ns: int, rate_rps: float | None) -> int:
    """A window in which a slow server answers some requests, too; without a rate the same one."""
    if not rate_rps:
        return window_ns
    return max(window_ns, min(WINDOW_NS_MAX, round(WINDOW_REQUESTS / rate_rps * SECOND)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingPlan:
    """The trials and durations of one mode.

    Attributes:
        blocks: Those of a run with a single look after the last one, and what others take at least.
        closed_loop_blocks: Blocks with a closed loop of each arm, for rate and memory.
        fixed_rate_blocks: Blocks with each arm alone at each load: the reference that the other
            trials are checked against.
        warmup_ns: The warm-up of a trial on a start of its own.
        window_ns: The window of a trial of one arm, or of a paired trial.
        paired_window_ns: The window of a paired trial, if that is longer.
        slice_ns: One arm's slice in a time-sliced trial; `check_slice_ns` in its cross-checks.
        slice_requests: A slice of `slice_ns` has at least this many requests, unless that takes
            longer than `slice_max_ns`; for the other length both are in proportion.
        active_ns_by_level: How long each arm is under load in a time-sliced trial, by load level.
        cross_check_blocks: Blocks with a time-sliced trial at each load in slices of the other
            length, on the same start; in a run of paired trials, with any time-sliced trial.
        repeated_check_blocks: Blocks of every cross-check that follow the last block, of pairs
            whose cross-check does not agree.
        capacity_blocks: Blocks with a capacity search of each arm.
        warmup_requests: That each arm is sent after its start, as fast as it answers, and for
            `warmup_max_ns` at most; then, if its runtime compiles, evenly spaced for `compile_ns`.
        settle_ns: Before the window of a trial at a fixed rate, at that rate, in nanoseconds.
        horizon: With looks after every block, the number of blocks over which the error is spent,
            which no load exceeds; 0: a single look, after the last block.
        precision: With looks after every block, the half-width of every interval at which the run
            ends, as a natural logarithm; 0: it ends when every pair is decided.
        seconds: With looks after every block, how long the run may take; 0: as long as it needs.
        control_blocks: Of every eight blocks of paired trials the last ones that measure the A/A
            control; an even number, so that each copy is first equally often.
    """

    blocks: int
    blocks_max: int
    closed_loop_blocks: int
    warmup_ns: int
    window_ns: int
    fixed_rate_blocks: int = 3
    slice_ns: int = 100 * MILLISECOND
    check_slice_ns: int = 200 * MILLISECOND
    slice_requests: int = 200
    slice_max_ns: int = 500 * MILLISECOND
    active_ns_by_level: Mapping[LoadLevel, int] = field(default_factory=dict)
    cross_check_blocks: int = 3
    repeated_check_blocks: int = 4
    capacity_blocks: int = 0
    warmup_requests: int = 10_000
    warmup_max_ns: int = SECOND // 2
    compile_ns: int = 12 * SECOND // 10
    settle_ns: int = 0
    control_blocks: int = 8
    paired_window_ns: int = 0
    horizon: int = 0
    precision: float = 0.0
    seconds: float = 0.0

    @property
    def with_one_look(self) -> "SamplingPlan":
        """The same, decided after its last block: with searches enough for a verdict."""
        searches = max(self.capacity_blocks, BLOCKS_MIN) if self.capacity_blocks else 0
        searches = min(searches, self.blocks)
        return updated(self, horizon=0, blocks_max=self.blocks, capacity_blocks=searches)

    def has_control(self, index: int) -> bool:
        return index % 8 >= 8 - self.control_blocks

    def window(self, kind: TrialKind, rate_rps: float | None = None) -> int:
        """The window of a trial without time slices, in nanoseconds."""
        if kind is TrialKind.PAIRED:
            return long_enough(max(self.window_ns, self.paired_window_ns), rate_rps)
        return long_enough(self.window_ns, rate_rps)

    def active_ns(self, load: Load, *, is_check: bool) -> int:
        """How long each arm is under load, in nanoseconds; half as long for a cross-check."""
        asked_ns = self.active_ns_by_level.get(load.level, self.window_ns)
        asked_ns = long_enough(asked_ns, load.rate_rps)
        return asked_ns // 2 if is_check else asked_ns

    def slice_length(self, load: Load, *, is_check: bool) -> SliceLength:
        """The length of slices at a load.

        In a short slice at a low rate few connections get a second request, and each request finds
        caches filled by other arms. In a very long one drift does not cancel; and requests at so
        low a rate are large ones, which fill the caches themselves.
        """
        nominal_ns = self.check_slice_ns if is_check else self.slice_ns
        needed_ns = self.slice_requests * SECOND // max(1, load.rate_rps or 1)
        needed_ns = min(needed_ns, self.slice_max_ns) * nominal_ns // self.slice_ns
        return SliceLength(nominal_ns, max(nominal_ns, needed_ns))


_TEXT = files("jissoku.design").joinpath("plans.toml").read_text(encoding="utf-8")
SAMPLING_PLANS = msgspec.convert(tomllib.loads(_TEXT), dict[Mode, SamplingPlan])

# A run that is to be precise, or may take longer than this, has the blocks of standard mode.
LONG_SECONDS = 600.0


def anytime(plan: SamplingPlan, *, seconds: float = 0.0, precision: float = 0.0) -> SamplingPlan:
    """The plan of a run whose verdicts are looked for after every block.

    It may take `seconds`; 0: until it has decided. With `precision`, every interval has to reach
    this half-width; else every pair is decided. The plan's most blocks are the horizon.
    """
    is_long = precision > 0 or seconds > LONG_SECONDS
    horizon = max(plan.blocks_max, SAMPLING_PLANS[Mode.STANDARD].blocks_max if is_long else 0)
    return replace(plan, horizon=horizon, blocks_max=horizon, precision=precision, seconds=seconds)


# The most blocks of a run that decides bounds. Two copies of our server differ with a standard
# deviation of 0.3 to 0.6 % between blocks at 20,000 requests/s: five to eight blocks decide a bound
# of 1.01 for an unchanged server.
BOUND_BLOCKS_MAX = 30

# A start takes 1.1 s besides its window. The ratio of two copies of our server has a standard
# deviation of 1.0 % between windows of 0.4 s of one start at 20,000 requests/s (1.6 % at 5,000),
# and of 0.2 to 0.4 % (0.7 %) between starts: windows of two seconds reach the same precision
# sooner than shorter ones.
BOUND_WINDOW_NS = 2 * SECOND

# The A/A control only has to show what this machine does to equal arms: a quarter of the blocks. It
# says nothing before it has three, so that a run that is decided early has none.
BOUND_CONTROL_BLOCKS = 2


def deciding(plan: SamplingPlan) -> SamplingPlan:
    """The plan for two builds of one program, of which only bounds are asked."""
    return replace(
        plan,
        blocks_max=max(BOUND_BLOCKS_MAX, plan.blocks_max),
        paired_window_ns=BOUND_WINDOW_NS,
        control_blocks=BOUND_CONTROL_BLOCKS,
        closed_loop_blocks=0,
        capacity_blocks=0,
    )


# A pair of a tuning has windows of a second in quick mode: with the start before it, a block of two
# copies of one server then says most in a second.
TUNING_WINDOW_NS = SECOND

# The most seconds of a campaign in quick mode: for itself, and for each of its pairs.
TUNING_S, TUNING_PAIR_S = 30.0, 15.0

# How long parts of a tuning took on two virtual cores, in seconds: each knob that is counted, the
# start and the stop beside each window of a pair, and each arm at full load.
COUNTED_S, BESIDE_S, FULL_LOAD_S = 0.7, 0.9, 1.1

# Blocks that mostly decide: of each knob alone, of each that is left out of all, and of the proof.
ALONE_BLOCKS, LEFT_OUT_BLOCKS, PROOF_BLOCKS = 4.7, 2.9, 6.8

# Standard mode has more of them.
STANDARD_TIMES = 2.6

# A tuning in quick mode takes at most this many times what it is likely to take: knobs that stay
# undecided have their planned share of it, and no more.
LIKELY_TIMES_MAX = 1.2

# Mostly one knob pays, sometimes more.
LEFT_OUT = 1.5


def tuning(plan: SamplingPlan, pairs: int = 1) -> SamplingPlan:
    is_quick = plan.blocks_max < SAMPLING_PLANS[Mode.STANDARD].blocks_max
    plan = replace(
        plan, paired_window_ns=max(TUNING_WINDOW_NS, plan.paired_window_ns), capacity_blocks=0
    )
    return anytime(plan, seconds=TUNING_S + TUNING_PAIR_S * pairs if is_quick else 0.0)


@dataclass(frozen=True, slots=True)
class TuningTime:
    """How long a part of a tuning is likely to take, and takes at most, in seconds."""

    likely_s: float
    most_s: float

    @property
    def text(self) -> str:
        return f"about {time_text(self.likely_s)}, at most {time_text(self.most_s)}"


def tuning_time(
    likely: float,
    most: int,
    at_full_load: int,
    plan: SamplingPlan,
    *,
    pay: bool,
    counted: int = 0,
    rates_count: bool = False,
) -> TuningTime:
    """The time of a tuning with this many knobs that are judged by their cost.

    `at_full_load` are those that are judged by the rate, which takes more than one block if
    `rates_count`: the server costs so much beside the load generator that the rate is its own. With
    `pay`, all are likely to pay; `counted` are those with which it is still counted what a request
    does.
    """
    together = together_time(0, most if most > 1 else 0, plan)
    most_s = _most_s(plan, most) + together.most_s * (most > 0)

    def likely_s(knobs: float) -> float:
        paying = knobs if pay else min(knobs, LEFT_OUT)
        together = together_time(paying if knobs > 1 else 0, 0, plan)
        # In the first campaign and in that at full load each arm has a closed loop, too.
        blocks = ALONE_BLOCKS if rates_count else 1
        arms_s = FULL_LOAD_S * ((knobs + 1) * (knobs > 0))
        arms_s += FULL_LOAD_S * blocks * ((at_full_load + 1) * (at_full_load > 0))
        return _blocks_s(ALONE_BLOCKS * knobs, plan) + together.likely_s * (knobs > 0) + arms_s

    if tuning(plan).seconds:
        most_s = min(most_s, LIKELY_TIMES_MAX * likely_s(most))
    counted_s = COUNTED_S * counted
    most_s += counted_s + 2 * _most_s(plan, min(1, at_full_load))
    return TuningTime(likely_s(likely) + counted_s, most_s)


def together_time(paying: float, most: int, plan: SamplingPlan) -> TuningTime:
    """The time of leaving out each knob that pays in turn, and of the proof of all together."""
    likely_s = _blocks_s(LEFT_OUT_BLOCKS * paying + PROOF_BLOCKS, plan)
    return TuningTime(likely_s, _most_s(plan, most) + _most_s(plan, 1))


def _blocks_s(blocks: float, plan: SamplingPlan) -> float:
    plan = tuning(plan)
    times = 1.0 if plan.seconds else STANDARD_TIMES
    return times * blocks * (BESIDE_S + plan.window(TrialKind.PAIRED) / SECOND)


def _most_s(plan: SamplingPlan, pairs: int) -> float:
    """What a campaign with this many pairs is limited to: by its time, or by its blocks."""
    plan = tuning(plan, pairs)
    block_s = BESIDE_S + plan.window(TrialKind.PAIRED) / SECOND
    return (plan.seconds or plan.horizon * pairs * block_s) * (pairs > 0)


# Seconds to start, verify and stop the targets of one trial; corrected during a campaign.
OVERHEAD_S = 1.0

# Minutes that an experiment may take, with a reserve for reruns.
MINUTES_MAX = {Mode.QUICK: 5.5, Mode.STANDARD: 16.0}

# No verdict rests on fewer blocks than an exact test needs for p < 0.05.
BLOCKS_MIN = 6

# With each arm alone, and with slices of the other length: the checks of the method.
CHECK_BLOCKS = 2

# Seconds that each further arm adds to a start, and that the generator's start adds to a load.
START_S = 0.3
LOAD_S = 0.1

# Seconds until the first trial of a comparison, in which the machine is prepared, and of a search
# for an arm's capacity; as measured on two virtual cores.
PREPARATION_S = 10.0
SEARCH_S = 2.5

WARMUP_NS = 300 * MILLISECOND
WARMUP_MAX_NS = SECOND // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRequirements:
    """What claims require of one workload: cost or latencies of arms that are measured together.

    `needs_closed_loop` is for rates or memory, in every block; `settle_s` at its rate before
    windows.
    """

    arms: int
    compares_cost: bool
    needs_closed_loop: bool
    settle_s: float = 0.0


# Blocks, and seconds under load of each arm, from the most to the least precise plan.
EFFORT_STEPS: Mapping[Mode, Sequence[tuple[int, float]]] = {
    Mode.QUICK: ((9, 0.8), (9, 0.4), (8, 0.4), (6, 0.4), (6, 0.2)),
    Mode.STANDARD: ((20, 2.4), (16, 2.0), (14, 1.6), (12, 1.2), (10, 0.8), (8, 0.4), (6, 0.4)),
}


def fit_time_budget(
    mode: Mode, needs: Mapping[str, WorkloadRequirements], beside_s: float = 0.0
) -> dict[str, SamplingPlan]:
    """The best plan with which all workloads together stay within the mode's minutes.

    If none does, the least precise one is used: the estimate is printed before the start.
    `beside_s` is the time for everything else, in seconds, independent of the plan.
    """
    efforts: dict[str, SamplingPlan] = {}
    for step in EFFORT_STEPS[mode]:
        efforts = {name: _sampling_plan(mode, need, *step) for name, need in needs.items()}
        plans = [(needs[name], plan) for name, plan in efforts.items()]
        if minutes(plans, beside_s) <= MINUTES_MAX[mode]:
            break
    return efforts


def _sampling_plan(
    mode: Mode, need: WorkloadRequirements, blocks: int, asked_s: float
) -> SamplingPlan:
    return updated(
        SAMPLING_PLANS[mode],
        blocks=blocks,
        blocks_max=blocks,
        closed_loop_blocks=max(BLOCKS_MIN, blocks) if need.needs_closed_loop else 0,
        fixed_rate_blocks=CHECK_BLOCKS if need.compares_cost else 0,
        cross_check_blocks=CHECK_BLOCKS if need.compares_cost else 0,
        capacity_blocks=0,
        warmup_ns=WARMUP_NS,
        window_ns=round(asked_s * SECOND),
        active_ns_by_level={},
        warmup_max_ns=WARMUP_MAX_NS,
        settle_ns=round(need.settle_s * SECOND),
    )


def minutes(
    plans: Sequence[tuple[WorkloadRequirements, SamplingPlan]], beside_s: float = 0.0
) -> float:
    """Estimated duration of the workloads in minutes, without reruns."""
    seconds = beside_s
    for need, plan in plans:
        asked_s = plan.window_ns / SECOND
        warm_s = plan.warmup_ns / SECOND
        start_s = OVERHEAD_S + plan.warmup_max_ns / SECOND / 2
        if need.compares_cost:
            together = start_s + need.settle_s + need.arms * (START_S + asked_s)
            check = need.settle_s + need.arms * (asked_s + LOAD_S)
            alone = start_s + max(warm_s, need.settle_s) + asked_s
            seconds += together * plan.blocks
            seconds += check * plan.cross_check_blocks
            seconds += need.arms * alone * plan.fixed_rate_blocks
        seconds += need.arms * (OVERHEAD_S + warm_s + asked_s) * plan.closed_loop_blocks
    return seconds / 60


def comparison_seconds(plan: SamplingPlan, loads: Sequence[Load], arms: int) -> tuple[float, float]:
    """Estimated duration of a comparison with the fewest and with the most blocks, without reruns.

    With the floor, and at most these loads: some of the grid may be beyond the arms.
    """
    warmup_s, window_s = plan.warmup_ns / SECOND, plan.window_ns / SECOND
    warm_s = plan.warmup_max_ns / SECOND
    active_s = sum(plan.active_ns(load, is_check=False) for load in loads) / SECOND
    together_s = OVERHEAD_S + arms * (START_S + warm_s + active_s)
    alone_s = OVERHEAD_S + warmup_s + window_s
    checks_s = plan.cross_check_blocks * arms * active_s / 2
    at_loads_s = OVERHEAD_S + len(loads) * (warmup_s + window_s + LOAD_S)
    fixed_s = plan.fixed_rate_blocks * arms * at_loads_s
    searches_s = plan.capacity_blocks * (arms - 1) * SEARCH_S
    closed_s = plan.closed_loop_blocks * arms * alone_s
    beside_s = PREPARATION_S + checks_s + fixed_s + searches_s + closed_s
    return beside_s + plan.blocks * together_s, beside_s + plan.blocks_max * together_s
