"""Progress on standard error: a bar on a terminal, otherwise a line per minute."""

import time
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from jissoku.model import Trial, TrialKind

WORDS = {
    TrialKind.TIME_SLICED: "time-sliced",
    TrialKind.PAIRED: "paired",
    TrialKind.CLOSED_LOOP: "single target, closed loop",
    TrialKind.FIXED_RATE: "single target, fixed rate",
    TrialKind.CAPACITY: "single target, capacity search",
}
QUIET_S = 15.0


class ProgressDisplay:
    """Shows a campaign's progress; a `pipeline.Listener`."""

    def __init__(self, *, quiet: bool = False) -> None:
        """With `quiet` only failures are printed."""
        self._console = Console(stderr=True, highlight=False)
        self._quiet = quiet
        self._task: TaskID | None = None
        self._last = time.monotonic()
        self._bar = Progress(
            BarColumn(bar_width=24),
            TextColumn("{task.completed}/{task.total} trials, {task.fields[left]} left"),
            TextColumn("[dim]{task.description}[/]"),
            console=self._console,
            transient=True,
            # A refresh thread would run next to the load generator during every window, and the bar
            # does not change between two trials.
            auto_refresh=False,
            disable=quiet or not self._console.is_terminal,
        )

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def note(self, text: str) -> None:
        """Shows the current step."""
        if not self._quiet:
            # On one line, so that a command can be copied.
            self._console.print(text, style="dim", markup=False, soft_wrap=True)

    def trial(self, trial: Trial, done: int, total: int, seconds_left: float) -> None:
        """Moves the bar; a failed trial is printed at once."""
        left = f"{seconds_left / 60:.0f} min" if seconds_left >= 90 else f"{seconds_left:.0f} s"
        doing = f"{' and '.join(trial.arms)}: {WORDS[trial.kind]}"
        if self._task is None:
            self._task = self._bar.add_task(doing, total=total, left=left)
        self._bar.update(self._task, completed=done, total=total, left=left, description=doing)
        self._bar.refresh()
        if trial.failure is not None:
            failure = trial.failure
            said = failure.stderr.strip().rpartition("\n")[2]
            words = f"{failure.arm} failed ({failure.stage}): {failure.reason}"
            self._console.print(words, markup=False, soft_wrap=True)
            if said:
                self._console.print(f"  stderr: {escape(said)}", style="dim")
        now = time.monotonic()
        if self._bar.disable and not self._quiet and now - self._last > QUIET_S:
            self._last = now
            self._console.print(f"{done}/{total} trials, {left} left", style="dim")
