"""How much each workload of an experiment may spend, so that the whole ends in time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jissoku.design.mode import SECOND, Effort
from jissoku.model import Mode

# Starting, verifying and stopping what one trial needs; the clock of a campaign corrects it.
OVERHEAD_S = 1.0

# What a whole experiment may take, with something left for what cannot be foreseen.
MINUTES_MAX = {Mode.QUICK: 5.5, Mode.STANDARD: 16.0}

# No verdict rests on fewer blocks than an exact test needs for p < 0.05.
BLOCKS_MIN = 6

# Beside duets, for the check that the two arms do not disturb each other.
CHECK_BLOCKS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What the claims want of one workload.

    Attributes:
        duets: Pairs that are to meet; none when no claim asks for the cost of a request.
        alone: Whether rates, latencies or memory are asked for, which need blocks of their own.
        late: Whether latencies are, which are measured at a rate; else that is done for the check.
        paced: Whether solo trials at a rate of their own run beside the closed loop.
    """

    arms: int
    duets: int
    alone: bool
    paced: bool
    late: bool = False


def _steps(*steps: tuple[int, float, float]) -> tuple[tuple[int, float, float], ...]:
    return steps


# Blocks, warm-up and window in seconds, from the best to the least that is still worth its time.
LADDERS = {
    Mode.QUICK: _steps((9, 0.3, 1.0), (8, 0.3, 0.8), (6, 0.3, 0.8), (6, 0.2, 0.5), (6, 0.2, 0.3)),
    Mode.STANDARD: _steps(
        (20, 2.0, 3.0), (15, 1.0, 3.0), (12, 1.0, 2.0), (10, 0.5, 2.0), (8, 0.5, 1.5), (6, 0.3, 1.0)
    ),
}


def choose(mode: Mode, needs: Mapping[str, Need], beside_s: float = 0.0) -> dict[str, Effort]:
    """The best effort with which all workloads together stay within the mode's minutes.

    Args:
        beside_s: What else takes time, whatever the effort.

    Where even the least does not, it is taken all the same: the estimate is printed before the
    start.
    """
    efforts: dict[str, Effort] = {}
    for blocks, warmup_s, window_s in LADDERS[mode]:
        efforts = {name: _effort(need, blocks, warmup_s, window_s) for name, need in needs.items()}
        plans = [(needs[name], effort) for name, effort in efforts.items()]
        if minutes(plans, beside_s) <= MINUTES_MAX[mode]:
            break
    return efforts


def _effort(need: Need, blocks: int, warmup_s: float, window_s: float) -> Effort:
    return Effort(
        blocks=blocks,
        blocks_max=blocks,
        blocks_step=0,
        half_width=None,
        solo_blocks=max(BLOCKS_MIN, blocks) if need.alone else CHECK_BLOCKS,
        warmup_ns=round(warmup_s * SECOND),
        window_ns=round(window_s * SECOND),
        paced_blocks=None if need.paced or need.late else CHECK_BLOCKS,
    )


def minutes(plans: Sequence[tuple[Need, Effort]], beside_s: float = 0.0) -> float:
    """How long so many workloads will take; reruns are not foreseen."""
    seconds = beside_s
    for need, effort in plans:
        paced = effort.solos_paced if need.duets or need.paced else 0
        trials = need.duets * effort.blocks + need.arms * (effort.solo_blocks + paced)
        seconds += trials * (OVERHEAD_S + (effort.warmup_ns + effort.window_ns) / SECOND)
    return seconds / 60
