"""Events of a run, one line each, for processes that follow it: `events.jsonl`.

They are not records: no report needs them, and a run is complete without them. An event is written
between two trials, and not synced. A reader's position is the offset of the last line end it read.
"""

import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from jissoku.model.event import Event, EventKind

EVENTS_FILE = "events.jsonl"


class EventWriter:
    """Appends the events of one run, as a context manager; what cannot be written is left out."""

    def __init__(self, folder: Path) -> None:
        self._started = time.monotonic()
        self._file: int | None = None
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(folder / EVENTS_FILE, flags, 0o644)

    def __enter__(self) -> Self:
        """Writes that the run starts."""
        self.add(Event(kind=EventKind.START, elapsed_s=0.0, pid=os.getpid()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Writes that the run has ended."""
        reason = "" if kind is None else f"it ended with {kind.__name__}"
        self.add(Event(kind=EventKind.END, elapsed_s=self.elapsed_s(), text=reason))
        if self._file is not None:
            os.close(self._file)

    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return round(time.monotonic() - self._started, 3)

    def add(self, event: Event) -> None:
        """Appends one event with one system call."""
        if self._file is not None:
            with suppress(OSError):
                os.write(self._file, msgspec.json.encode(event) + b"\n")


def read_events(folder: Path, offset: int = 0) -> tuple[tuple[Event, ...], int]:
    """Events from a position in the file on, and the position after them.

    Lines that this version cannot read are skipped, because events are only for display.
    """
    try:
        with (folder / EVENTS_FILE).open("rb") as file:
            file.seek(offset)
            raw = file.read()
    except OSError:
        return (), offset
    whole = raw[: raw.rfind(b"\n") + 1]
    found = []
    for line in whole.splitlines():
        with suppress(msgspec.MsgspecError):
            found.append(msgspec.json.decode(line, type=Event))
    return tuple(found), offset + len(whole)
