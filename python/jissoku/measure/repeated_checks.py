"""Further blocks of cross-checks, for pairs whose cross-check does not agree.

A check has few blocks, and two that lie close together by chance contradict a right ratio: in 39
runs of one program with 2 % more work two checks did. What a method really does wrong is still
there when it is measured again.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jissoku.design import schedule
from jissoku.design.sampling_plan import SamplingPlan
from jissoku.design.schedule import PlannedMeasurement, PlannedStart
from jissoku.model import Comparison, Method, Run, Trial, TrialKind
from jissoku.model.updated import updated


@dataclass(frozen=True, slots=True)
class RepeatedChecks:
    """The starts of all further blocks, and how many trials there were before them."""

    starts: tuple[PlannedStart, ...]
    trials_before: int

    def trials_left(self, trials: Sequence[Trial]) -> Mapping[TrialKind, int]:
        """Trials of these starts that are left, by kind, without reruns.

        Args:
            trials: All of the run.
        """
        asked = Counter(start.planned.kind for start in self.starts for _ in start.loads)
        done = Counter(trial.kind for trial in trials[self.trials_before :] if trial.attempt == 0)
        return {kind: max(0, count - done[kind]) for kind, count in asked.items()}


def repeated_checks(
    run: Run, plan: SamplingPlan, trials: Sequence[Trial], found: Sequence[Comparison], first: int
) -> RepeatedChecks:
    """Plans blocks of every cross-check, of the arms and loads of these comparisons alone.

    Args:
        run: With its loads.
        plan: Of the run.
        trials: All so far.
        found: Comparisons with a cross-check that does not agree.
        first: The index of the first of the blocks.
    """
    names = {name for one in found for name in (one.arm, one.against)}
    arms = tuple(arm.name for arm in run.arms if arm.name in names)
    loads = tuple(load for load in run.loads if any(one.load == load for one in found))
    kinds: dict[TrialKind, Sequence[tuple[str, ...]]] = {
        TrialKind.TIME_SLICED: [arms],
        TrialKind.FIXED_RATE: [(name,) for name in arms],
    }
    only_checks = run.method is Method.TIME_SLICED
    blocks = range(first, first + plan.repeated_check_blocks) if arms and loads else ()
    starts = tuple(
        updated(start, only_checks=only_checks and start.planned.kind is TrialKind.TIME_SLICED)
        for index in blocks
        for start in schedule.block(index, loads, kinds, seed=run.seed)
    )
    return RepeatedChecks(starts, len(trials))


def measurements(start: PlannedStart) -> Iterator[PlannedMeasurement]:
    """What is measured at the loads of a start, in their order."""
    for load in start.loads:
        if not start.only_checks:
            yield PlannedMeasurement(kind=start.planned.kind, load=load)
        if start.only_checks or start.is_check:
            yield PlannedMeasurement(kind=start.planned.kind, load=load, is_check=True)
