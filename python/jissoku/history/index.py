"""Rows of runs in one SQLite file of the cache, which several processes may read and write.

The file's name has a hash of all columns: an index of another version is neither read nor changed.
A run is in the index as a whole or not at all, and is never changed there: its key depends on its
records.
"""

import hashlib
import math
import os
import re
import sqlite3
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from jissoku.errors import JissokuError
from jissoku.model.history import (
    ArmRow,
    BlockRow,
    CheckRow,
    FolderEntry,
    RunRow,
    RunRows,
    StandingRow,
    VerdictRow,
)

# Tables whose rows are those of a row type.
TABLES: dict[str, Any] = {
    "runs": RunRow,
    "arms": ArmRow,
    "verdicts": VerdictRow,
    "standings": StandingRow,
    "checks": CheckRow,
}

SQL_TYPES = {str: "TEXT", int: "INTEGER", float: "REAL", bool: "INTEGER"}

# A block's ratio names its pair by number: most of an index are these rows.
PAIRS = """
CREATE TABLE pairs (
  id INTEGER PRIMARY KEY, run TEXT, arm TEXT, other TEXT, rate_rps INTEGER, level TEXT, source TEXT,
  blocks INTEGER, ln REAL, error REAL, ratio REAL
);
CREATE TABLE ratios (
  pair INTEGER, block INTEGER, ln_ratio REAL, PRIMARY KEY (pair, block)
) WITHOUT ROWID;
CREATE INDEX pairs_of_run ON pairs (run);
CREATE INDEX pairs_of_arm ON pairs (arm, other);
"""

PAIR_COLUMNS = "run, arm, other, rate_rps, level, source, blocks, ln, error, ratio"

# What a user sees: rows of runs that were found, and not all that the cache has.
_SOURCES = {
    **{name: f"* FROM main.{name}" for name in TABLES},
    "pairs": f"{PAIR_COLUMNS} FROM main.pairs",
    "blocks": "run, arm, other, rate_rps, level, source, block, ln_ratio"
    " FROM main.pairs JOIN main.ratios ON ratios.pair = pairs.id",
}
VIEWS = {
    name: f"SELECT {source} WHERE run IN (SELECT run FROM present)"  # noqa: S608 - ours
    for name, source in _SOURCES.items()
}
NAMES = tuple(VIEWS)


def script() -> str:
    """The statements that make an empty index."""
    tables = "".join(f"CREATE TABLE {name} ({_columns(kind)});\n" for name, kind in TABLES.items())
    indexes = "".join(
        f"CREATE INDEX {name}_of_run ON {name} (run);\n" for name in TABLES if name != "runs"
    )
    return f"{tables}CREATE UNIQUE INDEX runs_by_key ON runs (run);\n{indexes}{PAIRS}"


def version(revision: int) -> str:
    """A name for all columns, as `revision` of the program makes them."""
    return f"v3-{hashlib.sha256(f'{revision} {script()}'.encode()).hexdigest()[:12]}"


def as_struct(kind: Any, row: dict[str, Any]) -> Any:
    """A row of a table as its row type: SQLite has no truth values."""
    for field in msgspec.structs.fields(kind):
        if field.type is bool:
            row[field.name] = bool(row[field.name])
    return kind(**row)


def _columns(kind: Any) -> str:
    found = []
    for field in msgspec.structs.fields(kind):
        types = getattr(field.type, "__args__", (field.type,))
        found.append(f"{field.name} {SQL_TYPES[next(one for one in types if one in SQL_TYPES)]}")
    return ", ".join(found)


Entries = dict[str, FolderEntry]

# Bytes of a name that are no UTF-8 (PEP 383).
NO_TEXT = re.compile("[\udc80-\udcff]")


class FolderCache:
    """A file for each root.

    Each of its entries is compared with the folder before it is used, so it does not matter which
    of two writers is the last, or that it is deleted.
    """

    def __init__(self, cache: Path) -> None:
        names = " ".join(FolderEntry.__struct_fields__)
        version = hashlib.sha256(names.encode()).hexdigest()[:12]
        self.folder = cache / "history" / f"folders-{version}"

    def read(self, root: Path) -> Entries:
        """What was found below a root; nothing if that is unknown or cannot be read."""
        try:
            return msgspec.msgpack.decode(self._file(root).read_bytes(), type=Entries)
        except (OSError, msgspec.MsgspecError):
            return {}

    def write(self, root: Path, entries: Mapping[str, FolderEntry]) -> None:
        """Keeps what was found; without it the next search reads every folder.

        Folders that have, or hold, a name that is no text are read every time.
        """
        texts = {
            place: entry
            for place, entry in entries.items()
            if not NO_TEXT.search(place + entry.folders)
        }
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(prefix=".new-", dir=self.folder)
            fresh = Path(name)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(msgspec.msgpack.encode(texts))
                fresh.replace(self._file(root))
            except OSError:
                fresh.unlink()

    def _file(self, root: Path) -> Path:
        name = hashlib.sha256(os.fsencode(root.absolute())).hexdigest()[:16]
        return self.folder / name


# Seconds to wait for another process that writes.
BUSY_S = 60.0

# Primary result codes of a file that is no intact database (sqlite.org/rescode.html).
DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

# Files of SQLite beside the database.
SIDE_FILES = ("-wal", "-shm", "-journal")

Present = Mapping[str, tuple[str, str]]


class HistoryIndex:
    def __init__(self, cache: Path, revision: int) -> None:
        """`revision` is that of the program that makes rows."""
        self.file = cache / "history" / f"{version(revision)}.sqlite"

    def known(self) -> set[str]:
        """Keys of all runs in the index; none if it is missing or damaged."""
        try:
            with self.reading(), closing(self._opened()) as session:
                return {run for (run,) in session.execute("SELECT run FROM runs")}
        except JissokuError:
            return set()

    def add(self, batch: Sequence[RunRows]) -> None:
        """Adds the runs that the index does not have."""
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

        `present` has by key of a run its folder, and why it is unfinished: the table of that name.
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
        """The block reads the index, which is removed if it is damaged (JissokuError)."""
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
        """A connection to the file, which is made if it is missing."""
        if self.file.is_dir():
            raise JissokuError(f"the index {self.file} cannot be written: it is a folder")
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as stack:
                # A history is used by several threads of the pages, under a lock.
                session = sqlite3.connect(self.file, timeout=BUSY_S, check_same_thread=False)
                stack.callback(session.close)
                session.execute("PRAGMA journal_mode = WAL")
                session.execute("PRAGMA synchronous = NORMAL")
                if session.execute("PRAGMA user_version").fetchone() == (0,):
                    _create(session)
                stack.pop_all()
                return session
        except (OSError, sqlite3.OperationalError) as error:
            raise JissokuError(f"the index {self.file} cannot be written: {error}") from error

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
