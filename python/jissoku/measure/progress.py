"""Progress of a run: listeners, the estimated remaining time, and events of another process."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from jissoku.errors import InputError
from jissoku.model import CheckOutcome, Run, Trial
from jissoku.model.trial import Event, EventKind
from jissoku.records.run_folder import EVENTS_FILE, EventWriter, read_events

# Seconds between two reads of the file's end, because each wakes up a core in use.
INTERVAL_S = 1.0


class ProgressListener:
    """Receives the progress of a run; this one does nothing with it."""

    def note(self, text: str) -> None:
        """Receives a sentence about the current step."""

    def verdict(self, text: str) -> None:
        """Receives a sentence about what has just been decided, which a table shows as well."""
        self.note(text)

    def begins(self, text: str) -> None:
        """Receives what is started or measured from now on."""

    def values(self, run: Run, trials: Sequence[Trial]) -> None:
        """Receives all trials so far, when verdicts have been looked for in them."""

    def trial(self, trial: Trial, done: int, total: int, seconds_left: float) -> None:
        """Receives a finished trial, and the number and time of those left."""


class RecordedProgress(ProgressListener):
    """Writes progress as events of the run, and passes it on."""

    def __init__(self, listener: ProgressListener, events: EventWriter) -> None:
        self._listener = listener
        self._events = events

    def note(self, text: str) -> None:
        self._write(text)
        self._listener.note(text)

    def verdict(self, text: str) -> None:
        self._write(text)
        self._listener.verdict(text)

    def begins(self, text: str) -> None:
        self._listener.begins(text)

    def values(self, run: Run, trials: Sequence[Trial]) -> None:
        self._listener.values(run, trials)

    def _write(self, text: str) -> None:
        self._events.add(Event(kind=EventKind.NOTE, elapsed_s=self._events.elapsed_s(), text=text))

    def trial(self, trial: Trial, done: int, total: int, seconds_left: float) -> None:
        self._events.add(
            Event(
                kind=EventKind.TRIAL,
                elapsed_s=self._events.elapsed_s(),
                index=trial.index,
                block=trial.block,
                trial_kind=trial.kind,
                arms=trial.arms,
                rejected=any(c.outcome is CheckOutcome.REJECT for c in trial.failed_checks),
                failure="" if trial.failure is None else trial.failure.reason,
                done=done,
                total=total,
                seconds_left=round(seconds_left, 1),
            )
        )
        self._listener.trial(trial, done, total, seconds_left)


class SeriesProgress(ProgressListener):
    """Progress over several campaigns, with the remaining time of all of them."""

    def __init__(self, listener: ProgressListener, *, seconds: float, trials: int) -> None:
        """Takes the estimate of all campaigns together; it is corrected as they end."""
        self._listener = listener
        self._seconds, self._trials = seconds, trials
        self._done_s, self._done = 0.0, 0
        self._campaign_s, self._campaign = 0.0, 0
        self._started = time.monotonic()

    def begin(self, seconds: float, trials: int) -> None:
        self._campaign_s, self._campaign = seconds, trials

    def end(self, text: str) -> None:
        self._done_s += self._campaign_s
        self._done += self._campaign
        self._listener.note(text)

    def note(self, text: str) -> None:
        """Suppresses notes of single campaigns."""

    def begins(self, text: str) -> None:
        self._listener.begins(text)

    def trial(self, trial: Trial, done: int, total: int, seconds_left: float) -> None:
        del seconds_left
        done_s = self._done_s + self._campaign_s * done / max(1, total)
        pace = (time.monotonic() - self._started) / done_s
        beyond = max(0, total - self._campaign)  # Disturbed trials were repeated.
        self._listener.trial(
            trial, self._done + done, self._trials + beyond, max(0.0, self._seconds - done_s) * pace
        )


def newest(root: Path) -> Path:
    found = [path for path in root.rglob(EVENTS_FILE) if path.is_file()]
    if not found:
        raise InputError(f"{root} has no run with {EVENTS_FILE}: name the folder of a run")
    return max(found, key=lambda path: path.stat().st_mtime_ns).parent


def follow(folder: Path, interval_s: float = INTERVAL_S) -> Iterator[Event]:
    """Yields all past and future events of a run, until it or its process ends."""
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
