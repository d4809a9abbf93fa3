"""The share of each workload of an experiment in the time budget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jissoku.design.sampling_plan import MILLISECOND, SAMPLING_PLANS, SECOND, SamplingPlan
from jissoku.model import Load, Mode
from jissoku.model.updated import updated

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
    """The measurements that the claims require of one workload.

    Attributes:
        compares_cost: Whether costs or latencies are asked for, for which arms are measured
            together.
        needs_closed_loop: Whether rates or memory are asked for, which need closed loops in every
            block.
        settle_s: Time at the workload's rate before each window, in seconds.
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
    """The best effort with which all workloads together stay within the mode's minutes.

    Args:
        beside_s: Time for everything else, in seconds, independent of the plan.

    If none does, the least precise one is used: the estimate is printed before the
    start.
    """
    efforts: dict[str, SamplingPlan] = {}
    for blocks, asked_s in EFFORT_STEPS[mode]:
        efforts = {
            name: _sampling_plan(mode, need, blocks, asked_s) for name, need in needs.items()
        }
        plans = [(needs[name], effort) for name, effort in efforts.items()]
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
        blocks_step=0,
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
    for need, effort in plans:
        asked_s = effort.window_ns / SECOND
        warm_s = effort.warmup_ns / SECOND
        start_s = OVERHEAD_S + effort.warmup_max_ns / SECOND / 2
        if need.compares_cost:
            together = start_s + need.settle_s + need.arms * (START_S + asked_s)
            check = need.settle_s + need.arms * (asked_s + LOAD_S)
            alone = start_s + max(warm_s, need.settle_s) + asked_s
            seconds += together * effort.blocks
            seconds += check * effort.cross_check_blocks
            seconds += need.arms * alone * effort.fixed_rate_blocks
        seconds += need.arms * (OVERHEAD_S + warm_s + asked_s) * effort.closed_loop_blocks
    return seconds / 60


def comparison_seconds(plan: SamplingPlan, loads: Sequence[Load], arms: int) -> tuple[float, float]:
    """Estimated duration of a comparison with the fewest and with the most blocks, without reruns.

    Args:
        plan: Of its mode.
        loads: At most; some of the grid may be beyond the arms.
        arms: With the floor.
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
