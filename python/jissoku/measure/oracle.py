"""The oracle, and the load generators that run against it."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from jissoku.errors import InputError, JissokuError
from jissoku.model.calibration import InstalledTool, LoadPoint, Scenario, Tool
from jissoku.system import processes as system, toml_file
from jissoku.system.address import sockets_of
from jissoku.system.interruption import Interruption
from jissoku.system.program import PROGRAM

# Limit for the oracle's start, which allocates memory for two million requests.
START_S = 20.0

# Limit for the oracle's end, before which it sorts all times and writes its log.
END_S = 60.0

# Real-time priority (1 to 99): above all normal processes, below the kernel's threads.
PRIORITY = 5

# The highest priority outside the real-time classes (sched(7)).
HIGHEST_PRIORITY = -20

# Name of the threads that detect stalls of the generator's cores.
STALL_MONITOR = "stall-monitor"

# Limit for a generator to open its connections, and the interval of checks meanwhile.
CONNECT_S = 10.0
LOOK_S = 0.02

# Limit until all of its connections have sent a request.
SETTLE_S = 0.25

# Limit for a generator to end and to print its report.
TOOL_END_S = 25.0

# Interval of checks for an interruption during a window, on a core that is in use by it.
NOTICE_S = 0.25

TOOLS = Path(__file__).parent / "tools"

# Limit for a program to print its version, in seconds.
VERSION_S = 20


class ForeignCpuMonitor:
    """Adds up the CPU time of foreign processes on some cores until `foreign_fraction` is called.

    From the clocks of processes, not of cores, whose busy time is sampled at the kernel's tick:
    an oracle that wakes up a thousand times a second for an evenly paced load does so at the same
    position between two ticks, which once appeared as 37 % of another process.
    """

    def __init__(self, cores: Collection[int]) -> None:
        """`cores` are those that the oracle and the tool run on."""
        self._cores = cores
        self._start = time.monotonic()
        self._before = self._others_s()

    def foreign_fraction(self) -> float:
        """The fraction of the cores' time used by foreign processes and by other guests."""
        span = (time.monotonic() - self._start) * len(self._cores)
        return max(0.0, self._others_s() - self._before) / max(span, 1e-9)

    def _others_s(self) -> float:
        ticks = steal_ticks(system.core_times(), self._cores)
        return (
            (ticks + others_ticks(system.all_processes(), os.getpid(), self._cores))
            * system.TICK_NS
            / 1e9
        )


def others_ticks(processes: system.Processes, us: int, cores: Collection[int]) -> int:
    """Ticks so far of all processes except the kernel's and the descendants of `us`.

    A process that ends adds its time to its parent's, so that the sum loses none.
    """
    ours = system.process_tree(us, processes)
    ticks = 0
    for pid, stat in processes.items():
        if stat.core not in cores or system.is_kernel_thread(pid, stat):
            continue
        if pid == us:
            ticks += stat.cpu_ticks
        elif pid not in ours:
            ticks += stat.cpu_ticks + stat.children_user_ticks + stat.children_system_ticks
    return ticks


def steal_ticks(times: Mapping[int, system.CoreTimes], cores: Collection[int]) -> int:
    return sum(times[core].steal for core in cores if core in times)


class CalibrationError(JissokuError):
    """The oracle failed, so there is no result about the tool."""


class Oracle(AbstractContextManager["Oracle"]):
    def __init__(
        self, setup: Scenario, folder: Path, cores: tuple[int, ...], tools: tuple[int, ...] = ()
    ) -> None:
        """Runs on `cores`; with the cores of the `tools`, also monitors their stalls."""
        self._log = folder / "log"
        socket_path = folder / "socket"
        is_unix = bool(setup.ask.get("unix"))
        listen = f"unix:{socket_path}" if is_unix else "127.0.0.1:0"
        words = [*PROGRAM, "oracle", "--until-eof"]
        words += ["--listen", listen, "--cores", ",".join(map(str, cores)), "--log", str(self._log)]
        if tools:
            words += ["--stall-monitor", ",".join(map(str, sorted({*cores, *tools})))]
        for option, value in setup.oracle.items():
            for one in value if isinstance(value, list) else [value]:
                words += [f"--{option}"] if one is True else [f"--{option}", str(one)]
        # A new session: Ctrl-C must reach only the lab, which still needs the oracle's report.
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        watchdog = threading.Timer(START_S, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline().strip()
        watchdog.cancel()
        if not line.startswith("listening on "):
            raise CalibrationError(f"the oracle did not start: {self._stderr()}")
        self._is_monitor_first = _raise_priority(self._process.pid)
        self.holes = placeholder_values(line.removeprefix("listening on ").rstrip("/"), socket_path)

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # Normally it has ended already.
        self._process.communicate()

    def end(self) -> dict[str, Any]:
        try:
            text, _ = self._process.communicate(timeout=END_S)
            account: dict[str, Any] = msgspec.json.decode(text)
        except subprocess.TimeoutExpired as error:
            raise CalibrationError(f"the oracle did not end within {END_S:.0f} s") from error
        except msgspec.DecodeError as error:
            raise CalibrationError(f"the oracle reported nothing: {self._stderr()}") from error
        if not self._is_monitor_first:
            # It had to wait for the generator itself, and reported that as a stall of the core.
            account["stalls"] = []
        return account

    def _stderr(self) -> str:
        self._process.kill()
        return self._process.communicate()[1].strip()


def _raise_priority(pid: int) -> bool:
    """Raises the priority of its threads, if permitted.

    Returns whether every stall monitor has a real-time priority, which is in a class of its own
    (sched(7)). The oracle itself only has the highest priority of the normal class: as it
    spins, a real-time class would keep the kernel's own threads from its core until the kernel
    takes the core away for up to 50 ms of every second.
    """
    is_monitor_first = True
    for thread in Path(f"/proc/{pid}/task").iterdir():
        number = int(thread.name)
        is_monitor = (thread / "comm").read_text(encoding="utf-8").strip() == STALL_MONITOR
        try:
            if is_monitor:
                os.sched_setscheduler(number, os.SCHED_FIFO, os.sched_param(PRIORITY))
            else:
                os.setpriority(os.PRIO_PROCESS, number, HIGHEST_PRIORITY)
        except (PermissionError, ProcessLookupError):
            is_monitor_first &= not is_monitor
    return is_monitor_first


def placeholder_values(url: str, socket_path: Path) -> dict[str, str]:
    if url.startswith("unix:"):
        return {"url": "http://localhost/", "socket": str(socket_path), "host": "", "port": ""}
    host, _, port = url.removeprefix("http://").rpartition(":")
    return {"url": f"{url}/", "host": host, "port": port, "socket": ""}


class ToolFailed(Exception):  # noqa: N818 - it voids a window, and is not an error
    """A generator failed; the message says which, and how."""


@dataclass(frozen=True, slots=True)
class RunningTool:
    found: InstalledTool
    process: subprocess.Popen[Any]
    folder: Path
    words: list[str]
    filled: Mapping[str, str]

    def wait_for_connections(self, wanted: int, interruption: Interruption) -> None:
        """Waits until it has opened its connections and they have sent requests.

        Raises:
            ToolFailed: It did not do so in time.
        """
        deadline = time.monotonic() + CONNECT_S
        while len(sockets_of(self.process.pid)) < wanted:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise ToolFailed(f"{self.found.tool.name} did not open its {wanted} connections")
            interruption.check()
            time.sleep(LOOK_S)
        wait(SETTLE_S, interruption)

    def wait_for_exit(self, interruption: Interruption) -> int | None:
        """How it ended; None if it has to be killed."""
        interruption.waits_for(self.process)
        try:
            return self.process.wait(TOOL_END_S)
        except subprocess.TimeoutExpired:
            return None


def wait(seconds: float, interruption: Interruption) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        interruption.check()
        time.sleep(min(left, NOTICE_S))


def start(
    found: InstalledTool, cell: LoadPoint, duration_s: int, folder: Path, oracle: Oracle
) -> RunningTool:
    folder.mkdir()
    otherwise = cell.otherwise.get(found.tool.name)
    files = found.tool.ask.files | (otherwise.files if otherwise else {})
    filled = fill_files(found, files, folder, oracle.holes)
    words = found.tool.command(cell.options_for(found.tool) | {"duration_s": duration_s}, filled)
    words += [word.format_map(filled) for word in (otherwise.words if otherwise else ())]
    return RunningTool(found, start_session(words, folder), folder, words, filled)


def fill_files(
    found: InstalledTool, files: Mapping[str, str], folder: Path, holes: Mapping[str, str]
) -> dict[str, str]:
    for name, text in files.items():
        (folder / name).write_text(text.replace("{url}", holes["url"]), encoding="utf-8")
    return {**holes, "program": found.program, "python": sys.executable, "folder": str(folder)}


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


def read_tools() -> dict[str, Tool]:
    found = [toml_file.read(path, Tool) for path in sorted(TOOLS.glob("*.toml"))]
    return {tool.name: tool for tool in found}


def find_tool(tool: Tool, home: Path) -> InstalledTool:
    """Finds a tool on the search path, or in the folder of its installation command."""
    places = os.pathsep.join([str(home / "bin"), os.environ.get("PATH", os.defpath)])
    beside = home / tool.get.program
    program = str(beside) if beside.is_file() else shutil.which(tool.get.program, path=places)
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
