"""Progress reporting of a run."""

from typing import Protocol

from jissoku.model import Trial


class ProgressListener(Protocol):
    """Hears of progress; the command line shows it, a test collects it."""

    def note(self, text: str) -> None:
        """Hears a sentence about what happens now."""

    def trial(self, trial: Trial, done: int, total: int, seconds_left: float) -> None:
        """Hears of a finished trial, and of what is still to come."""
