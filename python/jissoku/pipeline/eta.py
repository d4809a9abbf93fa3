"""How long will it still take? Learned from the trials that are done."""

import time
from collections import defaultdict

from jissoku.model import TrialKind

# Before the first trial of a kind has ended: starting, verifying and stopping a server.
OVERHEAD_S = 1.0


class EtaEstimator:
    """Keeps the time each kind of trial took."""

    def __init__(self, window_s: float) -> None:
        """`window_s` is warm-up and window together, in seconds."""
        self._guess_s = window_s + OVERHEAD_S
        self._took_s: dict[TrialKind, list[float]] = defaultdict(list)
        self._started = time.monotonic()

    def start(self) -> None:
        """A trial begins."""
        self._started = time.monotonic()

    def stop(self, kind: TrialKind) -> None:
        """The trial that began last has ended."""
        self._took_s[kind].append(time.monotonic() - self._started)

    def seconds(self, left: dict[TrialKind, int]) -> float:
        """Estimated duration of the given numbers of trials, in seconds."""
        return sum(count * self._typical(kind) for kind, count in left.items())

    def _typical(self, kind: TrialKind) -> float:
        took = self._took_s[kind]
        return sum(took) / len(took) if took else self._guess_s
