"""A comparison in a terminal, ended by Ctrl-C: the table while it runs, then the report."""

import os
import pty
import re
import shlex
import sys
from codecs import getincrementaldecoder
from pathlib import Path

import pytest

from jissoku.cli.frame import ExitCode
from tests.cli.screen import Screen
from tests.cli.test_progress_display import OF_TERMINALS, set_size
from tests.measure.conftest import SERVE, SERVER

pytestmark = [pytest.mark.race, pytest.mark.timeout(200)]

CTRL_C = b"\x03"
DECIDED = re.compile(r"of \d+ costs? decided\.")
SIZE = 80, 40


def commands(folder: Path, *names: str) -> list[str]:
    words = []
    for name in names:
        program = folder / f"{name}.py"
        program.write_text(SERVER + SERVE)
        words += ["--cmd", f"{name}={shlex.quote(sys.executable)} {program} {{port}}"]
    return words


def test_ctrl_c_ends_the_table_with_the_report_of_what_is_known(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in OF_TERMINALS}
    asked = ["compare", *commands(tmp_path, "one", "other"), "-R", "200", "-c", "2"]
    words = [sys.executable, "-m", "jissoku", *asked, "--out", str(tmp_path / "run")]
    process, terminal = pty.fork()
    if process == 0:
        set_size(0, *SIZE)
        os.execve(sys.executable, words, {**kept, "TERM": "xterm-256color"})  # noqa: S606
    screen, decoder = Screen(*SIZE), getincrementaldecoder("utf-8")()
    is_ended = False
    while output := read(terminal):
        screen.feed(decoder.decode(output))
        if not is_ended and DECIDED.search(screen.text):
            assert screen.text.count("Now: ") == 1
            is_ended = os.write(terminal, CTRL_C) == 1
    _, status = os.waitpid(process, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == ExitCode.INTERRUPTED
    assert "Now: " not in screen.text, "the table is gone"
    assert not DECIDED.search(screen.text)
    assert "The run ended early" in (tmp_path / "run" / "report.txt").read_text("utf-8")
    assert screen.text.count("Report: ") == 1


def read(terminal: int) -> bytes:
    """Further output; empty when the last process with the terminal has ended."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
