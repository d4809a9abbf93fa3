"""A view in a terminal that is drawn again in place: the table so far, and what runs now."""

import sys
from typing import TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.control import Control
from rich.file_proxy import FileProxy
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import ControlType, Segment
from rich.table import Table
from rich.text import Text

from jissoku.model.wording import time_text
from jissoku.report import LiveState, LiveTable

BAR_WIDTH = 24

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
        """Nothing is drawn yet; `console` writes to a terminal that can move its cursor."""
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
        """From now on it is drawn, and what is written to the terminal appears above it."""
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream.isatty():
                self._kept[name] = stream
                setattr(sys, name, _Above(self._console, stream))
        self._live.start()

    def stop(self) -> None:
        """Removes it."""
        self._make_room()
        self._live.stop()
        for name, stream in self._kept.items():
            getattr(sys, name).flush()
            setattr(sys, name, stream)
        self._kept = {}

    def progress(self, done: int, total: int, seconds_left: float) -> None:
        """Takes the numbers of trials, and the time of those left."""
        self._done, self._total, self._seconds_left = done, total, seconds_left

    def refresh(self) -> None:
        """Draws it as it is now."""
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
                ProgressBar(total=self._total, completed=self._done, width=BAR_WIDTH),
                Text(f"{self._done}/{self._total} trials, {left}"),
            )
            parts.append(bar)
        if self.doing or state:
            parts.append(Text(f"{state}{f'Now: {self.doing}.' if self.doing else ''}", style="dim"))
        return parts


def drawn(table: LiveTable, width: int) -> RenderableType:
    """The columns that fit, with what is decided in another colour and with a mark."""
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    used, count = 0, 0
    for index in range(len(table.header)):
        used += max(map(cell_len, _column(table, index))) + 2
        count = index + 1 if used <= width else count
    for index, name in enumerate(table.header[: max(1, count)]):
        shown.add_column(Text(name), justify="right" if index else "left", no_wrap=True)
    for name, cells in table.rows:
        texts = [Text(cell.text, style=STYLES[cell.state]) for cell in cells]
        shown.add_row(*[Text(name), *texts][: max(1, count)])
    return shown


def _column(table: LiveTable, index: int) -> list[str]:
    if index == 0:
        return [table.header[0], *(name for name, _ in table.rows)]
    return [table.header[index], *(cells[index - 1].text for _, cells in table.rows)]
