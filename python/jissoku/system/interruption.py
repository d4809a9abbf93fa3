"""Ctrl-C as a value: noticed at once, and handled where no data can be lost.

An exception from a signal handler could be raised between starting a process and storing its id. So
the handler only sets a flag and wakes the current wait; the trial loop checks it between steps.
"""

import signal
import subprocess
from collections.abc import Callable
from types import FrameType
from typing import Self

Handler = Callable[[int, FrameType | None], object] | int | None


class Interrupted(Exception):  # noqa: N818 - not an error
    """The user interrupted; all started processes are stopped."""


class Interruption:
    """Catches SIGINT and SIGTERM while it is entered.

    A signal to one that is entered within another, as a campaign of a tuning is, reaches both.
    """

    def __init__(self) -> None:
        self.asked = False
        self._waiting_for: subprocess.Popen[str] | None = None
        self._before: dict[signal.Signals, Handler] = {}

    def __enter__(self) -> Self:
        self._before = {s: signal.signal(s, self._note) for s in (signal.SIGINT, signal.SIGTERM)}
        outer = getattr(self._before[signal.SIGINT], "__self__", None)
        if isinstance(outer, Interruption):
            # A signal may have come after the last check of the outer one, and before this line.
            self.asked = self.asked or outer.asked
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def waits_for(self, process: subprocess.Popen[str]) -> None:
        """Makes an interruption terminate `process`, so that a wait for it returns."""
        self._waiting_for = process
        if self.asked:
            process.terminate()

    def check(self) -> None:
        if self.asked:
            raise Interrupted

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        before = self._before.get(signal.Signals(number))
        if isinstance(getattr(before, "__self__", None), Interruption) and callable(before):
            before(number, frame)
        if self._waiting_for is not None and self._waiting_for.poll() is None:
            self._waiting_for.terminate()
