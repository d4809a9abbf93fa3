"""Follows a run that another process measures, by its events."""

import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from jissoku.errors import InputError
from jissoku.model.event import Event, EventKind
from jissoku.records.events import EVENTS_FILE, read_events

# Seconds between two reads of the file's end, because each wakes up a core in use.
INTERVAL_S = 1.0


def newest(root: Path) -> Path:
    """The run with the newest events in a folder of runs.

    Raises:
        InputError: No run has events.
    """
    found = [path for path in root.rglob(EVENTS_FILE) if path.is_file()]
    if not found:
        raise InputError(f"{root} has no run with {EVENTS_FILE}: name the folder of a run")
    return max(found, key=lambda path: path.stat().st_mtime_ns).parent


def follow(folder: Path, interval_s: float = INTERVAL_S) -> Iterator[Event]:
    """Yields all past and future events of a run, until it or its process ends.

    Raises:
        InputError: The folder has no events.
    """
    if not (folder / EVENTS_FILE).is_file():
        raise InputError(f"{folder} has no {EVENTS_FILE}: it is no run, or one of an older version")
    return _events(folder, interval_s)


def _events(folder: Path, interval_s: float) -> Iterator[Event]:
    offset, pid = 0, 0
    while True:
        is_alive = pid == 0 or psutil.pid_exists(pid)
        events, offset = read_events(folder, offset)
        for event in events:
            pid = event.pid or pid
            yield event
            if event.kind is EventKind.END:
                return
        if not is_alive:
            return
        if not events:
            time.sleep(interval_s)
