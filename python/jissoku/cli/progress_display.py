"""Progress: a table that narrows in place on a terminal, otherwise lines on standard error."""

import time
from collections.abc import Sequence
from typing import Self

from rich.console import Console
from rich.markup import escape

from jissoku import inference
from jissoku.cli.live_view import LiveView
from jissoku.measure.progress import ProgressListener
from jissoku.model import Run, Trial
from jissoku.model.wording import time_text
from jissoku.report import live_table
from jissoku.report.format import clean, sanitized

QUIET_S = 15.0


class ProgressDisplay(ProgressListener):
    """Shows a campaign's progress."""

    def __init__(self, *, quiet: bool = False) -> None:
        """With `quiet` only failures are printed.

        The table is on standard error if that is a terminal, else on standard output. A terminal
        that cannot move its cursor (TERM=dumb) gets lines, as a file does.
        """
        self._console = Console(stderr=True, highlight=False)
        self._quiet = quiet
        self._last = time.monotonic()
        self._view: LiveView | None = None
        consoles = (self._console, Console(highlight=False))
        able = [one for one in consoles if one.file.isatty() and one.is_interactive]
        if able and not quiet:
            self._view = LiveView(able[0])

    def __enter__(self) -> Self:
        if self._view is not None:
            self._view.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._view is not None:
            self._view.stop()

    def note(self, text: str) -> None:
        """Shows a sentence."""
        if not self._quiet:
            # On one line, so that a command can be copied.
            self._console.print(text, style="dim", markup=False, soft_wrap=True)

    def verdict(self, text: str) -> None:
        """Shows a verdict, unless the table does."""
        if self._view is None:
            self.note(text)

    def begins(self, text: str) -> None:
        """Shows what is measured from now on."""
        if self._view is not None:
            self._view.doing = clean(text)
            self._view.refresh()

    def values(self, run: Run, trials: Sequence[Trial]) -> None:
        """Shows the table of the trials so far."""
        if self._view is not None:
            summary = inference.summarise(run, trials, has_curves=False)
            self._view.table = live_table(sanitized(summary))
            self._view.refresh()

    def trial(self, trial: Trial, done: int, total: int, seconds_left: float) -> None:
        """Moves the bar; a failed trial is printed at once."""
        if trial.failure is not None:
            failure = trial.failure
            said = failure.stderr.strip().rpartition("\n")[2]
            words = f"{failure.arm} failed ({failure.stage}): {failure.reason}"
            self._console.print(words, markup=False, soft_wrap=True)
            if said:
                self._console.print(f"  stderr: {escape(said)}", style="dim")
        now = time.monotonic()
        if self._view is not None:
            self._view.progress(done, total, seconds_left)
            self._view.refresh()
        elif not self._quiet and now - self._last > QUIET_S:
            self._last = now
            left = time_text(seconds_left)
            self._console.print(f"{done}/{total} trials, about {left} left", style="dim")
