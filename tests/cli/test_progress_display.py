"""The progress of a run as a terminal shows it, and as a file holds it."""

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from rich.console import Console

from jissoku.cli.progress import drawn
from jissoku.report import LiveState, LiveTable
from jissoku.report.live import LiveCell
from tests.cli.screen import Screen
from tests.cli.shown_progress import DRAWN

pytestmark = pytest.mark.slow

# Not one of these is set where a terminal is an ordinary one.
OF_TERMINALS = ("NO_COLOR", "FORCE_COLOR", "TTY_INTERACTIVE", "TTY_COMPATIBLE", "COLUMNS", "LINES")


@dataclass
class Shown:
    """The program with its terminal."""

    process: subprocess.Popen[bytes]
    terminal: int
    screen: Screen

    def steps(self, *lines: str) -> None:
        """Runs steps, one after the other, and feeds the screen what they draw."""
        assert self.process.stdin is not None
        for line in lines:
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()
            self._read_until(DRAWN)

    def resize(self, width: int, height: int = 24) -> None:
        set_size(self.terminal, width, height)
        self.screen.resize(width)

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._read_until(b"the end\r\n")
        assert self.process.wait(timeout=30) == 0

    def _read_until(self, end: bytes) -> None:
        found = b""
        while not found.endswith(end):
            found += os.read(self.terminal, 65536)
        self.screen.feed(found.decode())


def set_size(terminal: int, width: int, height: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


@contextmanager
def shown(
    *words: str, environment: Mapping[str, str] | None = None, size: tuple[int, int] = (80, 24)
) -> Iterator[Shown]:
    master, slave = pty.openpty()
    set_size(slave, *size)
    kept = {name: value for name, value in os.environ.items() if name not in OF_TERMINALS}
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "tests.cli.shown_progress", *words],
            stdin=subprocess.PIPE,
            stdout=slave,
            stderr=slave,
            env={**kept, "TERM": "xterm-256color", **(environment or {})},
        ) as process:
            os.close(slave)
            yield Shown(process, master, Screen(*size))
            if process.poll() is None:
                process.kill()
    finally:
        os.close(master)


def test_one_table_narrows_in_place() -> None:
    with shown() as view:
        view.steps("begins starting 4 targets", "values 3")
        first = view.screen.lines
        assert sum(line.startswith("target ") for line in first) == 1
        (row,) = [line for line in first if line.startswith("other")]
        assert "\N{PLUS-MINUS SIGN}" in row
        (slow,) = [line for line in first if line.startswith("slow")]
        assert "\N{CHECK MARK}" in slow
        assert "Now: starting 4 targets." in view.screen.text
        view.steps("trial 4 20 75", "values 9")
        later = view.screen.lines
        assert len(later) == len(first) + 1, "the bar, and nothing twice"
        (narrower,) = [line for line in later if line.startswith("other")]
        assert width(narrower) < width(row)
        assert "4/20 trials, about 1 min 20 s left" in view.screen.text
        view.end()
        assert view.screen.lines == ["jissoku: the end"], "it is removed"


def width(row: str) -> int:
    """The half-width of the first interval of a row, in per cent."""
    return int(row.partition("\N{PLUS-MINUS SIGN}")[2].partition("%")[0])


def test_what_is_undecided_says_what_would_decide() -> None:
    with shown(size=(100, 24)) as view:
        view.steps("values 4")
        (row,) = [line for line in view.screen.lines if line.startswith("other")]
        assert "~" in row or "<" in row
        assert " decided." in view.screen.text


def test_columns_come_before_what_would_decide() -> None:
    cells = (LiveCell("1.31\N{PLUS-MINUS SIGN}4%", LiveState.OPEN, "~1min 20s"),) * 4
    header = ("target", "1,000/s", "5,000/s", "20,000/s", "p99")
    table = LiveTable(header=header, rows=(("nginx-tuned", cells),), decided=0, asked=4, legend="")
    for width, has_needs in ((100, True), (70, False)):
        console = Console(file=io.StringIO(), width=width)
        console.print(drawn(table, width))
        text = console.file.getvalue()  # type: ignore[attr-defined]
        assert ("~1min" in text) is has_needs
        assert all(name in text for name in header)


def test_sentences_and_warnings_appear_above_it_and_leave_it_whole() -> None:
    with shown() as view:
        long = "a sentence that is longer than the terminal is wide, so that it takes two rows here"
        view.steps("values 3", "note first", "warn something odd", f"note {long}", "trial 1 2 3")
        lines = view.screen.lines
        kept = [index for index, line in enumerate(lines) if line.startswith("target ")]
        assert len(kept) == 1
        above = "\n".join(lines[: kept[0]])
        assert above.index("first") < above.index("jissoku: something odd")
        assert above.count("something odd") >= 3, "a warning, a message and an output"
        assert "takes two rows" in above.replace("\n", "")
        view.end()
        assert "target" not in view.screen.text


def test_verdicts_are_in_the_table_and_not_beside_it() -> None:
    with shown() as view:
        view.steps("values 3", "verdict this is proven")
        assert "this is proven" not in view.screen.text


def test_a_narrower_terminal_leaves_nothing_behind() -> None:
    with shown() as view:
        view.steps("note a note", "values 3", "trial 1 9 30")
        view.resize(45)
        view.steps("trial 2 9 20", "trial 3 9 10")
        text = view.screen.text
        assert text.count("trials, about") == 1
        assert text.count("other") == 1
        view.resize(120)
        view.steps("trial 4 9 5")
        assert view.screen.text.count("other") == 1
        view.end()
        assert view.screen.lines == ["a note", "jissoku: the end"]


@pytest.mark.parametrize("height", [2, 3, 6])
def test_a_low_terminal_has_what_fits(height: int) -> None:
    with shown(size=(80, height)) as view:
        view.steps("values 3", "trial 1 9 30", "values 4", "trial 2 9 20")
        assert len(view.screen.lines) < height
        view.end()
        assert view.screen.lines == ["jissoku: the end"]


def test_without_colours_the_marks_say_it() -> None:
    with shown() as view:
        view.steps("values 3")
        assert view.screen.has_colours
    with shown(environment={"NO_COLOR": "1"}) as view:
        view.steps("values 3")
        assert not view.screen.has_colours
        assert "\N{CHECK MARK}" in view.screen.text


def test_a_terminal_that_cannot_move_its_cursor_has_lines() -> None:
    with shown(environment={"TERM": "dumb"}) as view:
        view.steps("begins starting", "values 3", "trial 1 9 30", "verdict this is proven")
        assert view.screen.lines == ["this is proven"]


def test_quiet_shows_nothing() -> None:
    with shown("quiet") as view:
        view.steps("begins starting", "values 3", "trial 1 9 30", "note n", "verdict v")
        assert view.screen.lines == []


def test_a_file_has_a_line_for_each_verdict() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.cli.shown_progress"],
        input=b"begins x\nnote a note\nvalues 3\nverdict this is proven\ntrial 1 9 30\n",
        capture_output=True,
        env={**os.environ, "FORCE_COLOR": "1"},
        check=True,
        timeout=30,
    )
    assert ended.stdout == b""
    assert b"this is proven" in ended.stderr
    assert b"target" not in ended.stderr
    assert b"\x1b[2K" not in ended.stderr
