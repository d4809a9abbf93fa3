"""Who is told how a campaign gets on."""

from typing import Protocol

from jissoku.model import Trial


class Listener(Protocol):
    """Hears of progress; the command line shows it, a test collects it."""

    def note(self, text: str) -> None:
        """Hears a sentence about what happens now."""

    def trial(self, trial: Trial, done: int, total: int, seconds_left: float) -> None:
        """Hears of a finished trial, and of what is still to come."""
