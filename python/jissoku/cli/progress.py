"""Progress of a measuring command: a table that narrows in place on a terminal, otherwise lines."""

import sys
import time
from collections.abc import Sequence
from itertools import accumulate
from typing import Self, TextIO

import click
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.control import Control
from rich.file_proxy import FileProxy
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.segment import ControlType, Segment
from rich.table import Table
from rich.text import Text

from jissoku import inference
from jissoku.measure.progress import ProgressListener
from jissoku.measure.selection import RUNS
from jissoku.model import Run, Trial, time_text
from jissoku.records.run_folder import check_new
from jissoku.report import LiveState, LiveTable, live_table
from jissoku.report.format import clean, sanitized
from jissoku.system.measurement_lock import measurement_lock
from jissoku.targets.supervisor import supervisor

STYLES = {
    LiveState.NONE: "",
    LiveState.OPEN: "yellow",
    LiveState.DIFFERENT: "green",
    LiveState.EQUAL: "cyan",
}


class _Above(FileProxy):
    """A stream whose lines are printed above the view.

    `FileProxy` alone has no encoding, for which click writes to the file below it.
    """

    encoding = "utf-8"
    errors: str | None = "strict"


class LiveView:
    """The lower end of a terminal; what others print appears above it."""

    def __init__(self, console: Console) -> None:
        """`console` writes to a terminal that can move its cursor."""
        self.table: LiveTable | None = None
        self.doing = ""
        self._done, self._total, self._seconds_left = 0, 0, 0.0
        self._console = console
        self._size = console.size
        self._widths: list[int] = []
        self._live = Live(
            self,
            console=console,
            # A refresh thread would run next to the load generator during every window, and the
            # view does not change between two trials.
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._kept: dict[str, TextIO] = {}

    def start(self) -> None:
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream.isatty():
                self._kept[name] = stream
                setattr(sys, name, _Above(self._console, stream))
        self._live.start()

    def stop(self) -> None:
        self._make_room()
        self._live.stop()
        for name, stream in self._kept.items():
            getattr(sys, name).flush()
            setattr(sys, name, stream)
        self._kept = {}

    def progress(self, done: int, total: int, seconds_left: float) -> None:
        self._done, self._total, self._seconds_left = done, total, seconds_left

    def refresh(self) -> None:
        self._make_room()
        self._live.refresh()

    def _make_room(self) -> None:
        """Erases what a narrower terminal has made of the lines drawn before.

        It has wrapped them: they take more rows than were drawn, and `Live` goes up by those only.
        """
        size = self._console.size
        if size.width < self._size.width:
            rows = sum(max(1, -(-width // size.width)) for width in self._widths)
            for _ in range(rows - len(self._widths)):
                erase = (ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)
                self._console.control(Control(*erase))
        self._size = size

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        whole = console.render_lines(Group(*self._parts(options.max_width)), options, pad=False)
        # What scrolls out of the terminal could not be erased.
        lines = whole[: max(1, console.size.height - 1)]
        self._widths = [Segment.get_line_length(line) for line in lines]
        for line in lines:
            yield from line
            yield Segment.line()

    def _parts(self, width: int) -> list[RenderableType]:
        parts: list[RenderableType] = []
        if self.table is not None:
            parts += [drawn(self.table, width), Text(self.table.legend, style="dim")]
        state = f"{self.table.state} " if self.table is not None else ""
        if self._total:
            left = f"about {time_text(self._seconds_left)} left"
            bar = Table.grid(padding=(0, 1, 0, 0))
            bar.add_row(
                ProgressBar(total=self._total, completed=self._done, width=24),
                Text(f"{self._done}/{self._total} trials, {left}"),
            )
            parts.append(bar)
        if self.doing or state:
            parts.append(Text(f"{state}{f'Now: {self.doing}.' if self.doing else ''}", style="dim"))
        return parts


def drawn(table: LiveTable, width: int) -> RenderableType:
    """The columns that fit, with what is decided in another colour and with a mark.

    Where they do not fit with what would decide, they are without it.
    """
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    rows = [(name, [(cell.text, cell.state) for cell in cells]) for name, cells in table.rows]
    if _fitting(table.header, rows, width) < len(table.header):
        rows = [(name, [(cell.short, cell.state) for cell in cells]) for name, cells in table.rows]
    count = max(1, _fitting(table.header, rows, width))
    for index, name in enumerate(table.header[:count]):
        shown.add_column(Text(name), justify="right" if index else "left", no_wrap=True)
    for name, cells in rows:
        styled = [Text(text, style=STYLES[state]) for text, state in cells]
        shown.add_row(*[Text(name), *styled][:count])
    return shown


def _fitting(
    header: Sequence[str], rows: Sequence[tuple[str, Sequence[tuple[str, LiveState]]]], width: int
) -> int:
    texts = ((name, *(text for text, _ in cells)) for name, cells in rows)
    columns = zip(header, *texts, strict=True)
    ends = accumulate(max(map(cell_len, column)) + 2 for column in columns)
    return sum(end <= width for end in ends)


def lock_machine() -> None:
    """Takes the measurement lock for the running verb; it is released when the verb has ended.

    From then on, all started processes are ended if this process is killed. A folder for records
    that cannot be written is refused before anything is prepared or waited for.
    """
    context = click.get_current_context()
    if "out" in context.params:
        check_new(context.params["out"] or RUNS / "new")
    context.with_resource(measurement_lock(context.info_name or "jissoku"))
    supervisor()


QUIET_S = 15.0


class ProgressDisplay(ProgressListener):
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
        if not self._quiet:
            # On one line, so that a command can be copied.
            self._console.print(text, style="dim", markup=False, soft_wrap=True)

    def verdict(self, text: str) -> None:
        """Shows a verdict, unless the table does."""
        if self._view is None:
            self.note(text)

    def begins(self, text: str) -> None:
        if self._view is not None:
            self._view.doing = clean(text)
            self._view.refresh()

    def values(self, run: Run, trials: Sequence[Trial]) -> None:
        if self._view is not None:
            summary = inference.summarise(run, trials, has_curves=False)
            self._view.table = live_table(sanitized(summary))
            self._view.refresh()

    def trial(self, trial: Trial, done: int, total: int, seconds_left: float) -> None:
        """Moves the bar; a failed trial is printed at once."""
        if trial.failure is not None:
            failure = trial.failure
            who = failure.arm or "the load generator"
            words = f"{who} failed ({failure.stage}): {failure.reason}"
            self._console.print(words, markup=False, soft_wrap=True)
            if said := failure.stderr.strip().rpartition("\n")[2]:
                self._console.print(f"  stderr: {escape(said)}", style="dim")
        now = time.monotonic()
        if self._view is not None:
            self._view.progress(done, total, seconds_left)
            self._view.refresh()
        elif not self._quiet and now - self._last > QUIET_S:
            self._last = now
            left = time_text(seconds_left)
            self._console.print(f"{done}/{total} trials, about {left} left", style="dim")
