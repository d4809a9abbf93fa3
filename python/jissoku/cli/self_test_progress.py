"""Progress over many campaigns: what is left of all of them, not of the one that runs."""

import time

from jissoku.cli.progress_display import ProgressDisplay
from jissoku.model import Trial


class Progress:
    """Shows how far all campaigns are; a `pipeline.Listener`."""

    def __init__(self, show: ProgressDisplay, *, seconds: float, trials: int) -> None:
        """Takes the estimate of all campaigns together; it is corrected as they end."""
        self._show = show
        self._seconds, self._trials = seconds, trials
        self._done_s, self._done = 0.0, 0
        self._campaign_s, self._campaign = 0.0, 0
        self._started = time.monotonic()

    def begin(self, seconds: float, trials: int) -> None:
        """A campaign of this estimate begins."""
        self._campaign_s, self._campaign = seconds, trials

    def end(self, text: str) -> None:
        """It has ended, with this result."""
        self._done_s += self._campaign_s
        self._done += self._campaign
        self._show.note(text)

    def note(self, text: str) -> None:
        """Leaves out what every campaign says of itself: the loads are known."""
        del text

    def trial(self, trial: Trial, done: int, total: int, seconds_left: float) -> None:
        """Shows a trial's end as one of all campaigns' trials."""
        del seconds_left
        done_s = self._done_s + self._campaign_s * done / max(1, total)
        pace = (time.monotonic() - self._started) / done_s
        beyond = max(0, total - self._campaign)  # Trials that the machine disturbed were run again.
        self._show.trial(
            trial,
            self._done + done,
            self._trials + beyond,
            max(0.0, self._seconds - done_s) * pace,
        )
