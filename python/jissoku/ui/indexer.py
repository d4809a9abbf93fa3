"""Adds new runs to the index behind the pages, which show meanwhile what is indexed.

Nothing is indexed while a measurement runs on this machine, also between its loads: a run takes 0.2
s, which would reach into the next one.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Condition, Thread
from typing import Self

from jissoku.errors import InputError, JissokuError
from jissoku.measure.history import index_in, rows_of
from jissoku.model.history import RunRows
from jissoku.system.background import enter_idle_class
from jissoku.system.measurement_lock import is_measuring

# Seconds for which a page waits for runs that it sees for the first time: one is indexed in 0.2.
WAIT_S = 1.0

# Seconds after which the runs that were read become a part of the index, and pages show them.
PART_S = 2.0

# Seconds between two looks whether a measurement has ended.
LOOK_S = 2.0

# Of the end of the thread; what it has read and not written is read again the next time.
END_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Indexing:
    """What is left to be indexed.

    Attributes:
        count: Of runs, at least one.
        is_paused: Whether a measurement runs.
    """

    count: int
    is_paused: bool

    @property
    def sentence(self) -> str:
        """For a page or another answer that does not show these runs."""
        runs, they = f"{self.count} runs are", "they are"
        if self.count == 1:
            runs, they = "1 run is", "it is"
        if self.is_paused:
            after = "when the measurement on this machine has ended"
            return f"{runs} not shown: {they} indexed {after}."
        return f"{runs} being indexed, and not shown yet."


class Indexer:
    """A thread that indexes runs. As a context manager it ends with the block."""

    def __init__(self, cache: Path | None = None, *, is_background: bool = False) -> None:
        """Starts nothing yet.

        Args:
            cache: Folder of the index; default: the user's cache.
            is_background: Whether the thread is in the idle class.
        """
        self._cache = cache
        self._is_background = is_background
        self._changed = Condition()
        self._waiting: dict[str, str] = {}
        self._broken: dict[str, str] = {}
        self._written: dict[str, int] = {}
        self._parts = 0
        self._problem = ""
        self._is_ending = False
        self._thread = Thread(target=self._run, name="indexer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the thread after the run that it reads."""
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
        self._thread.join(END_LIMIT_S)

    @property
    def parts(self) -> int:
        """How many parts were written: after each, the index has more runs."""
        return self._parts

    @property
    def broken(self) -> Mapping[str, str]:
        """By key of a run why its records cannot be read."""
        with self._changed:
            return dict(self._broken)

    @property
    def problem(self) -> str:
        """Why the index cannot be written; empty if it can."""
        return self._problem

    def left(self) -> Indexing | None:
        """What is left to be indexed; None: nothing."""
        count = len(self._waiting)
        return Indexing(count, is_measuring()) if count else None

    def request(self, runs: Mapping[str, str], parts: int) -> None:
        """Says which runs are to be indexed, and waits a moment for those that are new among them.

        Args:
            runs: By key their folders, instead of those that were requested before.
            parts: How many parts were written before the caller looked: runs of a later one are
                in the index.
        """
        with self._changed:
            self._broken = {key: why for key, why in self._broken.items() if key in runs}
            self._written = {key: part for key, part in self._written.items() if part > parts}
            done = self._broken.keys() | self._written.keys()
            waiting = {key: folder for key, folder in runs.items() if key not in done}
            has_new = bool(waiting.keys() - self._waiting.keys())
            self._waiting, self._problem = waiting, ""
            self._changed.notify_all()
            if has_new and not is_measuring():
                self._changed.wait_for(lambda: not self._waiting or self._is_ending, WAIT_S)

    def index_now(self, key: str) -> None:
        """Indexes one of the requested runs in this thread, whatever else is to be done.

        Raises:
            JissokuError: The index cannot be written.
        """
        with self._changed:
            folder = self._waiting.get(key)
        if folder is not None and (rows := self._rows(key, folder)) is not None:
            index_in(self._cache).add([rows])
            self._note_part([key])

    def _run(self) -> None:
        if self._is_background:
            enter_idle_class()
        index = index_in(self._cache)
        while not self._is_ending:
            rows = self._some_rows()
            self._pause()
            if not rows or self._is_ending:
                continue
            try:
                index.add(list(rows.values()))
                self._note_part(rows)
            except JissokuError as error:
                with self._changed:
                    self._problem = str(error)
                    self._waiting.clear()
                    self._changed.notify_all()

    def _some_rows(self) -> dict[str, RunRows]:
        """Waits for a request; by key the rows of its next runs."""
        found: dict[str, RunRows] = {}
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_ending)
        end = time.monotonic() + PART_S
        while True:
            # Before the choice: records grow while they are measured, and are then other runs.
            self._pause()
            following = self._next(found)
            if following is None:
                return found
            if (rows := self._rows(*following)) is not None:
                found[following[0]] = rows
            if time.monotonic() >= end:
                return found

    def _next(self, done: Mapping[str, object]) -> tuple[str, str] | None:
        """A run that is still requested, and not done."""
        with self._changed:
            if self._is_ending:
                return None
            return next((one for one in self._waiting.items() if one[0] not in done), None)

    def _rows(self, key: str, folder: str) -> RunRows | None:
        """The rows of a run; none if its records cannot be read, which is noted."""
        try:
            return rows_of(key, folder)
        except InputError as error:
            with self._changed:
                if self._waiting.pop(key, None) is not None:
                    self._broken[key] = str(error)
                self._changed.notify_all()
            return None

    def _note_part(self, keys: Iterable[str]) -> None:
        with self._changed:
            for key in keys:
                self._waiting.pop(key, None)
                self._written[key] = self._parts + 1
            self._parts += 1
            self._changed.notify_all()

    def _pause(self) -> None:
        """Waits until nothing is measured, or for the end of the thread."""
        while not self._is_ending and is_measuring():
            with self._changed:
                self._changed.wait_for(lambda: self._is_ending, LOOK_S)
