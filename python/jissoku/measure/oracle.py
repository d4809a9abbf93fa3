"""The oracle's process: its start, its address, and its report at the end."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

import msgspec

from jissoku.errors import JissokuError
from jissoku.model.calibration import Scenario

# Limit for its start, which allocates memory for two million requests.
START_S = 20.0

# Limit for its end, before which it sorts all times and writes its log.
END_S = 60.0


# Real-time priority (1 to 99): above all normal processes, below the kernel's threads.
PRIORITY = 5

# The highest priority outside the real-time classes (sched(7)).
HIGHEST_PRIORITY = -20

# Name of the threads that detect stalls of the generator's cores.
STALL_MONITOR = "stall-monitor"


class CalibrationError(JissokuError):
    """The oracle failed, so there is no result about the tool."""


class Oracle:
    """A running oracle, as a context manager."""

    def __init__(
        self, setup: Scenario, folder: Path, cores: tuple[int, ...], tools: tuple[int, ...] = ()
    ) -> None:
        """Runs on `cores`; with the cores of the `tools`, also monitors their stalls."""
        self._log = folder / "log"
        socket_path = folder / "socket"
        is_unix = bool(setup.ask.get("unix"))
        listen = f"unix:{socket_path}" if is_unix else "127.0.0.1:0"
        words = [sys.executable, "-m", "jissoku", "oracle", "--until-eof"]
        words += ["--listen", listen, "--cores", ",".join(map(str, cores)), "--log", str(self._log)]
        if tools:
            words += ["--stall-monitor", ",".join(map(str, sorted({*cores, *tools})))]
        for option, value in setup.oracle.items():
            values = value if isinstance(value, list) else [value]
            for one in values:
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

    def __enter__(self) -> Self:
        return self

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

    The stall monitor is in a real-time class (sched(7)). The oracle itself only has the highest
    priority of the normal class: as it spins, a real-time class would keep the kernel's own threads
    from its core until the kernel takes the core away for up to 50 ms of every second.

    Returns:
        Whether every stall monitor has a real-time priority.
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
    """Values of the placeholders of a tool's command line."""
    if url.startswith("unix:"):
        return {"url": "http://localhost/", "socket": str(socket_path), "host": "", "port": ""}
    host, _, port = url.removeprefix("http://").rpartition(":")
    return {"url": f"{url}/", "host": host, "port": port, "socket": ""}
