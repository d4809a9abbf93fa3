"""Ctrl-C as a value: noticed at once, and handled where no data can be lost.

An exception from a signal handler could be raised between starting a process and storing its id. So
the handler only sets a flag and wakes the current wait; the trial loop checks it between steps.
"""

import signal
import subprocess
from types import FrameType
from typing import Self


class Interrupted(Exception):  # noqa: N818 - it is no error
    """The user interrupted; all started processes are stopped."""


class Interruption:
    """Catches SIGINT and SIGTERM while it is entered."""

    def __init__(self) -> None:
        """Starts without a request to stop."""
        self.asked = False
        self._waiting_for: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Takes the two signals over."""
        self._before = {s: signal.signal(s, self._note) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        """Gives the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def waits_for(self, process: subprocess.Popen[str]) -> None:
        """From now on an interruption ends `process`, so that waiting for it ends too."""
        self._waiting_for = process
        if self.asked:
            process.terminate()

    def check(self) -> None:
        """Raises Interrupted on request."""
        if self.asked:
            raise Interrupted

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        if self._waiting_for is not None and self._waiting_for.poll() is None:
            self._waiting_for.terminate()
