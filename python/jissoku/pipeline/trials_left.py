"""How many trials a campaign has left, for its time to the end."""

from collections import Counter
from collections.abc import Sequence

from jissoku.model import Method, Run, Trial, TrialKind
from jissoku.pipeline.compare_config import CompareConfig


def trials_left(
    config: CompareConfig,
    header: Run,
    names: Sequence[str],
    trials: Sequence[Trial],
    index: int,
) -> dict[TrialKind, int]:
    """Trials left until it is decided whether there are enough, by kind, without reruns.

    Args:
        config: Of the campaign.
        header: Of its record, with the loads once they are known.
        names: Arms that are still measured.
        trials: Those so far.
        index: Of the block.
    """
    plan, loads = config.plan, len(header.loads) or 1
    blocks = plan.next_look(index)
    foreseen: dict[TrialKind, int] = {
        TrialKind.CLOSED_LOOP: len(names) * min(plan.closed_loop_blocks, blocks),
        TrialKind.CAPACITY: len(names) * min(plan.capacity_blocks, blocks),
        TrialKind.FIXED_RATE: len(names) * min(plan.fixed_rate_blocks, blocks) * loads,
    }
    if config.objective is None:
        foreseen[TrialKind.CAPACITY] = 0
    if not any(load.rate_rps for load in header.loads):
        foreseen[TrialKind.FIXED_RATE] = 0
    if header.method is Method.TIME_SLICED:
        foreseen[TrialKind.TIME_SLICED] = loads * (blocks + min(plan.cross_check_blocks, blocks))
    elif header.method is Method.PAIRED:
        pairs = (len(config.arms) - 1) * blocks
        if config.aa_control:
            pairs -= sum(not plan.has_control(block) for block in range(blocks))
        foreseen[TrialKind.PAIRED] = pairs * loads
        foreseen[TrialKind.TIME_SLICED] = loads * min(plan.cross_check_blocks, blocks)
    done = Counter(trial.kind for trial in trials if trial.attempt == 0)
    return {kind: max(0, count - done[kind]) for kind, count in foreseen.items()}
