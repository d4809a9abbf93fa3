"""One trial of a run, repeated if the machine disturbed it, with every attempt recorded."""

import time
from collections.abc import Callable, Mapping

from jissoku import inference
from jissoku.measure.progress import EtaEstimator, ProgressListener
from jissoku.model import Trial, TrialKind
from jissoku.model.updated import updated
from jissoku.records import RunWriter

# How often a disturbed trial is repeated; every attempt stays in the records.
RERUNS_MAX = 2

# After this many failures an arm is skipped, which saves time; its failure is reported.
FAILURES_MAX = 2

# Trials left, by kind.
TrialsLeft = Mapping[TrialKind, int]


class TrialLoop:
    """Records the trials of one run; they are in `trials`, in the order in which they ran."""

    def __init__(self, writer: RunWriter, listener: ProgressListener, eta: EtaEstimator) -> None:
        """Nothing is recorded yet; the time of the run begins."""
        self._began = time.monotonic()
        self.trials: list[Trial] = []
        self._writer = writer
        self._listener = listener
        self._eta = eta

    def run(
        self,
        kind: TrialKind,
        measure: Callable[[], Trial],
        left: Callable[[], TrialsLeft],
        reruns: int = RERUNS_MAX,
    ) -> Trial:
        """Measures until no check rejects the trial, it fails, or there were enough attempts.

        Args:
            kind: For the estimate of the time left.
            measure: Runs one attempt; index, attempt and failed checks are filled in here.
            left: Called after each attempt; reruns and early ends need not be included.
            reruns: Maximum number of attempts after the first.

        Returns:
            The last attempt.

        Raises:
            JissokuError: A trial cannot be written; those before it are on disk.
        """
        attempt = 0
        while True:
            trial = updated(measure(), index=len(self.trials), attempt=attempt)
            trial = updated(trial, elapsed_s=round(time.monotonic() - self._began, 3))
            trial = updated(trial, failed_checks=inference.trial_checks(trial))
            self._eta.ended(kind)
            self._record(trial, left)
            if trial.failure is not None or attempt == reruns or not inference.is_rejected(trial):
                return trial
            attempt += 1

    def _record(self, trial: Trial, left: Callable[[], TrialsLeft]) -> None:
        self._writer.add(trial)
        self.trials.append(trial)
        rest, done = left(), len(self.trials)
        total = done + sum(rest.values())
        self._listener.trial(trial, done, total, self._eta.seconds(rest))
