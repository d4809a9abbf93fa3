"""Progress of a run: listeners, and the estimated remaining time."""

import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Protocol

from jissoku.model import CheckOutcome, Trial, TrialKind
from jissoku.model.event import Event, EventKind
from jissoku.records.events import EventWriter

# Assumed seconds to start, verify and stop a server, before the first trial of a kind has ended.
OVERHEAD_S = 1.0


class ProgressListener(Protocol):
    """Receives the progress of a run."""

    def note(self, text: str) -> None:
        """Receives a sentence about the current step."""

    def trial(self, trial: Trial, done: int, total: int, seconds_left: float) -> None:
        """Receives a finished trial, and the number and time of those left."""


class EtaEstimator:
    """Estimates the remaining time from the duration of each kind of trial."""

    def __init__(self, window_s: float) -> None:
        """`window_s` is warm-up and window together, in seconds."""
        self._guess_s = window_s + OVERHEAD_S
        self._took_s: dict[TrialKind, list[float]] = defaultdict(list)
        self._started = time.monotonic()

    def start(self) -> None:
        """A trial begins."""
        self._started = time.monotonic()

    def stop(self, kind: TrialKind) -> None:
        """The trial that began last has ended."""
        self._took_s[kind].append(time.monotonic() - self._started)

    def seconds(self, left: Mapping[TrialKind, int]) -> float:
        """Estimated duration of the given numbers of trials, in seconds."""
        return sum(count * self._typical(kind) for kind, count in left.items())

    def _typical(self, kind: TrialKind) -> float:
        took = self._took_s[kind]
        return sum(took) / len(took) if took else self._guess_s


class RecordedProgress:
    """Writes progress as events of the run, and passes it on."""

    def __init__(self, listener: ProgressListener, events: EventWriter) -> None:
        """`listener` receives the same progress."""
        self._listener = listener
        self._events = events

    def note(self, text: str) -> None:
        """Writes and passes on a sentence."""
        self._events.add(Event(kind=EventKind.NOTE, elapsed_s=self._events.elapsed_s(), text=text))
        self._listener.note(text)

    def trial(self, trial: Trial, done: int, total: int, seconds_left: float) -> None:
        """Writes and passes on a trial."""
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


class SeriesProgress:
    """Progress over several campaigns, with the remaining time of all of them."""

    def __init__(self, listener: ProgressListener, *, seconds: float, trials: int) -> None:
        """Takes the estimate of all campaigns together; it is corrected as they end."""
        self._listener = listener
        self._seconds, self._trials = seconds, trials
        self._done_s, self._done = 0.0, 0
        self._campaign_s, self._campaign = 0.0, 0
        self._started = time.monotonic()

    def begin(self, seconds: float, trials: int) -> None:
        """A campaign of this estimate begins."""
        self._campaign_s, self._campaign = seconds, trials

    def end(self, text: str) -> None:
        """The run has ended with this result."""
        self._done_s += self._campaign_s
        self._done += self._campaign
        self._listener.note(text)

    def note(self, text: str) -> None:
        """Suppresses notes of single campaigns."""
        del text

    def trial(self, trial: Trial, done: int, total: int, seconds_left: float) -> None:
        """Shows a trial's end as one of all campaigns' trials."""
        del seconds_left
        done_s = self._done_s + self._campaign_s * done / max(1, total)
        pace = (time.monotonic() - self._started) / done_s
        beyond = max(0, total - self._campaign)  # Disturbed trials were repeated.
        self._listener.trial(
            trial,
            self._done + done,
            self._trials + beyond,
            max(0.0, self._seconds - done_s) * pace,
        )
