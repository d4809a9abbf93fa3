"""Ctrl-C as a value: noticed at once, and handled where no data can be lost.

An exception from a signal handler could be raised between starting a process and storing its id. So
the handler only sets a flag and wakes the current wait; the trial loop checks it between steps.
"""

import signal
from types import FrameType
from typing import ClassVar, Protocol, Self


class Interrupted(Exception):  # noqa: N818 - not an error
    """The user interrupted; all started processes are stopped."""


class Endable(Protocol):
    """A process, or something like one on other hosts; both methods may be called by a signal."""

    def poll(self) -> int | None:
        """None while it runs."""

    def terminate(self) -> None:
        """Asks it to end."""


class Interruption:
    """Catches SIGINT and SIGTERM while it is entered.

    A signal to one that is entered within another, as a campaign of a tuning is, reaches both.
    """

    # All that are entered, the outermost first. A signal may also come between the last check of
    # the outer one and the first of the inner one, which begins with what the outer one noted.
    entered: ClassVar[list["Interruption"]] = []

    def __init__(self) -> None:
        self.asked = False
        self._waiting_for: Endable | None = None

    def __enter__(self) -> Self:
        self.entered.append(self)
        self.asked = self.asked or any(outer.asked for outer in self.entered)
        self._before = {s: signal.signal(s, _note) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self.entered.remove(self)

    def waits_for(self, process: Endable) -> None:
        """Makes an interruption terminate `process`, so that a wait for it returns."""
        self._waiting_for = process
        if self.asked:
            process.terminate()

    def check(self) -> None:
        if self.asked:
            raise Interrupted

    def interrupt(self) -> None:
        self.asked = True
        if self._waiting_for is not None and self._waiting_for.poll() is None:
            self._waiting_for.terminate()


def _note(_number: int, _frame: FrameType | None) -> None:
    for one in Interruption.entered:
        one.interrupt()
