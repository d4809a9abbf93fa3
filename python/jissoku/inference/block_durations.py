"""How long a block takes: of what is still measured, the newest one."""

from collections.abc import Collection, Iterable
from itertools import pairwise

from jissoku.model import Trial, TrialKind


class BlockDurations:
    """The duration of every trial of a run, with the start and the warm-up before it."""

    def __init__(self, trials: Iterable[Trial] = (), slice_ns: int | None = None) -> None:
        """All trials of a run, failed and rejected ones among them.

        Args:
            trials: In any order.
            slice_ns: Nominal length of the slices; trials in slices of another one are checks.
        """
        timed = sorted(
            (one for one in trials if one.elapsed_s is not None), key=lambda one: one.index
        )
        ends = [0.0, *(one.elapsed_s or 0.0 for one in timed)]
        self._took = [
            (trial, end - before)
            for trial, (before, end) in zip(timed, pairwise(ends), strict=True)
            if trial.slice_ns in {None, slice_ns}
        ]

    def seconds(self, kinds: Collection[TrialKind], rate_rps: int | None = None) -> float | None:
        """The duration of the trials of some kinds in the newest block that has them.

        What is decided is no longer measured, so that the newest block is the most like the next.

        Args:
            rate_rps: The newest block with a trial at this rate is meant; None: any rate.
        """
        found = [(trial, took) for trial, took in self._took if trial.kind in kinds]
        blocks = {trial.block for trial, _ in found if rate_rps in {None, trial.load_rps}}
        if not blocks:
            return None
        return sum(took for trial, took in found if trial.block == max(blocks))

    def longest_s(self, kind: TrialKind, kinds: Collection[TrialKind]) -> float | None:
        """The duration of the trials of some kinds in that block with `kind` that took longest.

        The newest one may have been cut short by the end of the run.
        """
        blocks = {trial.block for trial, _ in self._took if trial.kind is kind}
        sums = [
            sum(took for trial, took in self._took if trial.block == block and trial.kind in kinds)
            for block in blocks
        ]
        return max(sums, default=None)
