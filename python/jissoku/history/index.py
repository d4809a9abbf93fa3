"""Rows of runs in one SQLite file of the cache, which several processes may read and write.

The file's name has a hash of all columns: an index of another version is neither read nor changed.
A run is in the index as a whole or not at all, and is never changed there: its key depends on its
records.
"""

import math
import sqlite3
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec

from jissoku.errors import JissokuError
from jissoku.history.schema import PAIR_COLUMNS, TABLES, VIEWS, script, version
from jissoku.model.history import BlockRow, RunRows

# Seconds to wait for another process that writes.
BUSY_S = 60.0

# Primary result codes of a file that is no intact database (sqlite.org/rescode.html).
DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

# Files of SQLite beside the database.
SIDE_FILES = ("-wal", "-shm", "-journal")

Present = Mapping[str, tuple[str, str]]


class HistoryIndex:
    """The index of one cache folder."""

    def __init__(self, cache: Path, revision: int) -> None:
        """Creates nothing yet.

        Args:
            cache: The folder of all indexes.
            revision: Of the program that makes rows.
        """
        self.file = cache / "history" / f"{version(revision)}.sqlite"

    def known(self) -> set[str]:
        """Keys of all runs in the index; none if it is missing or damaged."""
        try:
            with self.reading(), closing(self._opened()) as session:
                return {run for (run,) in session.execute("SELECT run FROM runs")}
        except JissokuError:
            return set()

    def add(self, batch: Sequence[RunRows]) -> None:
        """Adds the runs that the index does not have.

        Raises:
            JissokuError: The cache cannot be written, or is damaged.
        """
        if not batch:
            return
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.reading(), closing(self._opened()) as session, session:
                # Other writers wait here, and then see the runs that this one adds.
                session.execute("BEGIN IMMEDIATE")
                for rows in batch:
                    _insert(session, rows)
        except (OSError, sqlite3.Error) as error:
            raise JissokuError(f"the index {self.file} cannot be written: {error}") from error

    def connect(self, present: Present) -> sqlite3.Connection:
        """A connection that shows some runs of the index; queries cannot change it.

        Args:
            present: By key of a run its folder, and why it is unfinished: the table of that name.

        Raises:
            JissokuError: The index is damaged, or cannot be opened.
        """
        session = self._opened()
        session.execute("CREATE TEMP TABLE present (run TEXT PRIMARY KEY, folder, unfinished)")
        session.executemany(
            "INSERT INTO present VALUES (?, ?, ?)",
            # Bytes of a folder's name that are no text are replaced.
            [(key, _text(folder), unfinished) for key, (folder, unfinished) in present.items()],
        )
        for name, select in VIEWS.items():
            session.execute(f"CREATE TEMP VIEW {name} AS {select}")
        session.commit()
        session.execute("PRAGMA query_only = ON")
        return session

    @contextmanager
    def reading(self) -> Iterator[None]:
        """The block reads the index.

        Raises:
            JissokuError: It is damaged, and was removed.
        """
        try:
            yield
        except sqlite3.DatabaseError as error:
            if _primary_code(error) not in DAMAGE:
                raise
            self._remove()
            raise JissokuError(
                f"the index {self.file} was damaged and is removed: the next command makes it"
                " again from the records"
            ) from error

    def _opened(self) -> sqlite3.Connection:
        """A connection to the file, which is made if it is missing.

        Raises:
            JissokuError: It cannot be opened.
        """
        if self.file.is_dir():
            raise JissokuError(f"the index {self.file} cannot be written: it is a folder")
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            # A history is used by several threads of the pages, under a lock.
            session = sqlite3.connect(self.file, timeout=BUSY_S, check_same_thread=False)
        except (OSError, sqlite3.OperationalError) as error:
            raise JissokuError(f"the index {self.file} cannot be written: {error}") from error
        try:
            session.execute("PRAGMA journal_mode = WAL")
            session.execute("PRAGMA synchronous = NORMAL")
            if session.execute("PRAGMA user_version").fetchone() == (0,):
                _create(session)
        except sqlite3.OperationalError as error:
            session.close()
            raise JissokuError(f"the index {self.file} cannot be written: {error}") from error
        except sqlite3.DatabaseError:
            session.close()
            raise
        return session

    def _remove(self) -> None:
        for end in ("", *SIDE_FILES):
            with suppress(OSError):
                self.file.with_name(self.file.name + end).unlink(missing_ok=True)


def _primary_code(error: sqlite3.Error) -> int | None:
    """The kind of an error, without its extension; None for one of the module itself."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _create(session: sqlite3.Connection) -> None:
    """Makes the tables, unless another process has made them."""
    session.execute("BEGIN IMMEDIATE")
    with session:
        if session.execute("PRAGMA user_version").fetchone() == (0,):
            for statement in filter(str.strip, script().split(";")):
                session.execute(statement)
            session.execute("PRAGMA user_version = 1")


def _insert(session: sqlite3.Connection, rows: RunRows) -> None:
    """Adds one run; nothing if it is there."""
    (run,) = rows.runs
    if session.execute("SELECT 1 FROM runs WHERE run = ?", [run.run]).fetchone():
        return
    for name, kind in TABLES.items():
        holes = ", ".join("?" * len(kind.__struct_fields__))
        session.executemany(
            f"INSERT INTO {name} VALUES ({holes})",  # noqa: S608 - ours
            map(msgspec.structs.astuple, getattr(rows, name)),
        )
    for pair, blocks in _by_pair(rows.blocks).items():
        logs = [row.ln_ratio for row in blocks]
        mean = statistics.fmean(logs)
        error = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else None
        added = session.execute(
            f"INSERT INTO pairs ({PAIR_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - ours
            (*pair, blocks[0].source, len(logs), mean, error, math.exp(mean)),
        )
        session.executemany(
            "INSERT INTO ratios VALUES (?, ?, ?)",
            [(added.lastrowid, row.block, row.ln_ratio) for row in blocks],
        )


def _by_pair(blocks: Iterable[BlockRow]) -> dict[tuple[object, ...], list[BlockRow]]:
    found: dict[tuple[object, ...], list[BlockRow]] = defaultdict(list)
    for row in blocks:
        found[row.run, row.arm, row.other, row.rate_rps, row.level].append(row)
    return found


def _text(folder: str) -> str:
    return folder.encode(errors="surrogateescape").decode(errors="replace")
