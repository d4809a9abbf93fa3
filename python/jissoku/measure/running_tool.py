"""Load generators: those described and installed here, and one that runs against an oracle."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jissoku.errors import InputError
from jissoku.measure.oracle import HIGHEST_PRIORITY, Oracle
from jissoku.model.load_tool import InstalledTool, Tool
from jissoku.model.request_cost import LoadPoint
from jissoku.system import toml_file
from jissoku.system.address import sockets_of

# Limit for a generator to open its connections, and the interval of checks meanwhile.
CONNECT_S = 10.0
LOOK_S = 0.02

# Limit until all of its connections have sent a request.
SETTLE_S = 0.25

# Limit for a generator to end and to print its report.
END_S = 25.0

# Interval of checks for an interruption during a window, on a core that is in use by it.
NOTICE_S = 0.25


class ToolFailed(Exception):  # noqa: N818 - it voids a window, and is not an error
    """A generator failed; the message says which, and how."""


@dataclass(frozen=True, slots=True)
class RunningTool:
    """A generator that was started."""

    found: InstalledTool
    process: subprocess.Popen[Any]
    folder: Path
    words: list[str]
    filled: Mapping[str, str]


def start(
    found: InstalledTool, cell: LoadPoint, duration_s: int, folder: Path, oracle: Oracle
) -> RunningTool:
    folder.mkdir()
    otherwise = cell.otherwise.get(found.tool.name)
    files = found.tool.ask.files | (otherwise.files if otherwise else {})
    for name, text in files.items():
        written = text.replace("{url}", oracle.holes["url"])
        (folder / name).write_text(written, encoding="utf-8")
    filled = oracle.holes | {
        "program": found.program,
        "python": sys.executable,
        "folder": str(folder),
    }
    words = found.tool.command(cell.options_for(found.tool) | {"duration_s": duration_s}, filled)
    words += [word.format_map(filled) for word in (otherwise.words if otherwise else ())]
    return RunningTool(found, start_session(words, folder), folder, words, filled)


def wait_for_connections(one: RunningTool, wanted: int, check: Callable[[], object]) -> None:
    """Waits until a generator has opened its connections and they have sent requests.

    Raises:
        Failed: It did not do so in time.
    """
    deadline = time.monotonic() + CONNECT_S
    while len(sockets_of(one.process.pid)) < wanted:
        if time.monotonic() > deadline or one.process.poll() is not None:
            raise ToolFailed(f"{one.found.tool.name} did not open its {wanted} connections")
        check()
        time.sleep(LOOK_S)
    wait(SETTLE_S, check)


def wait(seconds: float, check: Callable[[], object]) -> None:
    """Waits; returns early on interruption."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        check()
        time.sleep(min(left, NOTICE_S))


def wait_for_exit(
    one: RunningTool, waits_for: Callable[[subprocess.Popen[Any]], object]
) -> int | None:
    """How a generator ended; None if it has to be killed."""
    waits_for(one.process)
    try:
        return one.process.wait(END_S)
    except subprocess.TimeoutExpired:
        return None


def start_session(words: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Starts a tool as the leader of a new session; its output goes to the file `report`.

    If permitted, it has the highest priority on its core. A real-time class would keep other
    processes out, but threads of one tool would then not be scheduled as in normal use.
    """
    with (folder / "report").open("wb") as report:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=report,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
        )
    with suppress(PermissionError, ProcessLookupError):
        os.setpriority(os.PRIO_PGRP, process.pid, HIGHEST_PRIORITY)
    return process


def end_session(process: subprocess.Popen[Any]) -> None:
    """Ends the remaining processes of a tool's session."""
    with suppress(ProcessLookupError):  # It has ended, as expected.
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def local_strings(found: InstalledTool, filled: Mapping[str, str]) -> dict[str, str]:
    """Values that must not be in a record, and their replacements."""
    here = {value: f"{{{name}}}" for name, value in filled.items() if len(value) > 4}
    return here | {found.program: found.tool.name, sys.executable: "python"}


def scrub(text: str, here: Mapping[str, str]) -> str:
    """Replaces values by names, except a port that is part of a longer number."""
    for value, name in here.items():
        text = re.sub(rf"(?<!\d){re.escape(value)}(?!\d)", name, text)
    return text


TOOLS = Path(__file__).parent / "tools"

# Limit for a program to print its version, in seconds.
VERSION_S = 20


def read_tools(folder: Path = TOOLS) -> dict[str, Tool]:
    found = [toml_file.read(path, Tool) for path in sorted(folder.glob("*.toml"))]
    return {tool.name: tool for tool in found}


def find_tool(tool: Tool, home: Path) -> InstalledTool:
    """Finds a tool on the search path, or in the folder of its installation command.

    Raises:
        InputError: It is not installed, or does not report its version.
    """
    places = [str(home / "bin"), os.environ.get("PATH", os.defpath)]
    beside = home / tool.get.program
    program = (
        str(beside)
        if beside.is_file()
        else shutil.which(tool.get.program, path=os.pathsep.join(places))
    )
    if tool.get.program == "{python}":
        program = sys.executable
    how = tool.get.how.format(tools=home)
    if program is None:
        raise InputError(f"{tool.name} is not installed: {how}")
    words = [word.format(program=program, python=sys.executable) for word in tool.get.version]
    try:
        text = subprocess.run(words, capture_output=True, text=True, timeout=VERSION_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"{tool.name} does not run here: {error}") from error
    version = re.search(tool.get.pattern, text.stdout + text.stderr)
    if version is None:
        raise InputError(
            f"{tool.name} does not report its version, so it may be another program: {how}"
        )
    return InstalledTool(tool=tool, program=program, version=version[1])
