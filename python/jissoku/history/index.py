"""Rows of runs in one SQLite file of the cache, which several processes may read and write.

The file's name has a hash of all columns: an index of another version is neither read nor changed.
A run is in the index as a whole or not at all, and is never changed there: its key depends on its
records.
"""

import hashlib
import json
import math
import os
import re
import sqlite3
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from jissoku.errors import InputError, JissokuError
from jissoku.model import Load, history

# Tables whose rows are those of a row type.
TABLES: dict[str, Any] = {
    "runs": history.RunRow,
    "arms": history.ArmRow,
    "verdicts": history.VerdictRow,
    "standings": history.StandingRow,
    "checks": history.CheckRow,
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


Entries = dict[str, history.FolderEntry]

# Bytes of a name that are no UTF-8 (PEP 383).
NO_TEXT = re.compile("[\udc80-\udcff]")


class FolderCache:
    """A file for each root.

    Each of its entries is compared with the folder before it is used, so it does not matter which
    of two writers is the last, or that it is deleted.
    """

    def __init__(self, cache: Path) -> None:
        names = " ".join(history.FolderEntry.__struct_fields__)
        version = hashlib.sha256(names.encode()).hexdigest()[:12]
        self.folder = cache / "history" / f"folders-{version}"

    def read(self, root: Path) -> Entries:
        """What was found below a root; nothing if that is unknown or cannot be read."""
        try:
            return msgspec.msgpack.decode(self._file(root).read_bytes(), type=Entries)
        except (OSError, msgspec.MsgspecError):
            return {}

    def write(self, root: Path, entries: Mapping[str, history.FolderEntry]) -> None:
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

    def add(self, batch: Sequence[history.RunRows]) -> None:
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
        """A connection that shows the runs that are `present`; queries cannot change it."""
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
            # Without its extension; an error of the module itself has no code.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in DAMAGE:
                raise
            for end in ("", *SIDE_FILES):
                with suppress(OSError):
                    self.file.with_name(self.file.name + end).unlink(missing_ok=True)
            raise JissokuError(
                f"the index {self.file} was damaged and is removed: the next command makes it"
                " again from the records"
            ) from error

    def _opened(self) -> sqlite3.Connection:
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


def _create(session: sqlite3.Connection) -> None:
    """Makes the tables, unless another process has made them."""
    session.execute("BEGIN IMMEDIATE")
    with session:
        if session.execute("PRAGMA user_version").fetchone() == (0,):
            for statement in filter(str.strip, script().split(";")):
                session.execute(statement)
            session.execute("PRAGMA user_version = 1")


def _insert(session: sqlite3.Connection, rows: history.RunRows) -> None:
    (run,) = rows.runs
    if session.execute("SELECT 1 FROM runs WHERE run = ?", [run.run]).fetchone():
        return
    for name, kind in TABLES.items():
        holes = ", ".join("?" * len(kind.__struct_fields__))
        session.executemany(
            f"INSERT INTO {name} VALUES ({holes})",  # noqa: S608 - ours
            map(msgspec.structs.astuple, getattr(rows, name)),
        )
    pairs: dict[tuple[object, ...], list[history.BlockRow]] = defaultdict(list)
    for row in rows.blocks:
        pairs[row.run, row.arm, row.other, row.rate_rps, row.level].append(row)
    for pair, blocks in pairs.items():
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


def _text(folder: str) -> str:
    return folder.encode(errors="surrogateescape").decode(errors="replace")


Logs = dict[Load, dict[history.Pair, dict[int, float]]]
Means = dict[Load, dict[history.Pair, history.PairMean]]

# An object for each rate and level.
_load = cache(history.load_of)

# The values of a list that is given as JSON text.
GIVEN = "(SELECT value FROM json_each(?))"

# What a query of the user may do: read tables, and call functions.
READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}


def headers(
    session: sqlite3.Connection, present: Present, keys: Iterable[str] | None = None
) -> tuple[history.IndexedRun, ...]:
    """Runs, earliest first, without their measurements: those of some keys; None: all.

    `present` has by key of a run its folder, and why it is unfinished.
    """
    chosen = _listed(present if keys is None else keys)
    arms = _arms(session, chosen)
    found = []
    query = f"SELECT * FROM runs WHERE run IN {GIVEN} ORDER BY started_utc, run"  # noqa: S608 - ours
    for row in _rows(session, query, chosen):
        folder, unfinished = present[row["run"]]
        found.append(
            history.IndexedRun(
                row=as_struct(history.RunRow, row),
                arms=tuple(arms.get(row["run"], ())),
                folder=folder,
                unfinished=unfinished,
            )
        )
    return tuple(found)


def logs_of(session: sqlite3.Connection, keys: Iterable[str]) -> dict[str, Logs]:
    columns = "run, rate_rps, level, arm, other, block, ln_ratio"
    query = f"SELECT {columns} FROM blocks WHERE run IN {GIVEN}"  # noqa: S608 - ours
    found: dict[str, Logs] = defaultdict(dict)
    for run, rate, level, arm, other, block, log in session.execute(query, [_listed(keys)]):
        pairs = found[run].setdefault(_load(rate, level), {})
        pairs.setdefault((arm, other), {})[block] = log
    return found


def means_of(
    session: sqlite3.Connection, keys: Iterable[str], arms: Iterable[str] | None = None
) -> dict[str, Means]:
    """Means over the blocks, by key of the run: of all pairs, or of pairs with one of some arms."""
    query = (
        "SELECT run, rate_rps, level, arm, other, ln, error * error, blocks FROM pairs"  # noqa: S608 - ours
        f" WHERE blocks >= 2 AND run IN {GIVEN}"
    )
    given = [_listed(keys)]
    if arms is not None:
        query += f" AND (arm IN {GIVEN} OR other IN {GIVEN})"
        given += [_listed(arms)] * 2
    found: dict[str, Means] = defaultdict(dict)
    for run, rate, level, arm, other, *mean in session.execute(query, given):
        found[run].setdefault(_load(rate, level), {})[arm, other] = history.PairMean(*mean)
    return found


def ratios_of(
    session: sqlite3.Connection, arms: Iterable[str], units: Iterable[str]
) -> history.RatioColumns:
    sides = [("arm", "other", "ln"), ("other", "arm", "-ln")]
    query = " UNION ALL ".join(
        f"SELECT run, {arm}, {unit}, coalesce(rate_rps, 0), level, {ln}, error * error, blocks - 1"  # noqa: S608 - ours
        f" FROM pairs WHERE blocks >= 2 AND {arm} IN {GIVEN} AND {unit} IN {GIVEN}"
        for arm, unit, ln in sides
    )
    rows = session.execute(query, [_listed(arms), _listed(units)] * 2).fetchall()
    names = [field.name for field in fields(history.RatioColumns)]
    columns = zip(*rows, strict=True) if rows else ((),) * len(names)
    return history.RatioColumns(
        **{name: list(column) for name, column in zip(names, columns, strict=True)}
    )


def targets(session: sqlite3.Connection) -> tuple[str, ...]:
    found = session.execute("SELECT DISTINCT target FROM arms ORDER BY target")
    return tuple(name for (name,) in found)


def costs(session: sqlite3.Connection) -> dict[str, dict[str, bool]]:
    """By key of a run its arms with a cost, and whether one of their costs is at a rate."""
    query = "SELECT run, arm, count(rate_rps) FROM standings WHERE cost_ns > 0 GROUP BY run, arm"
    found: dict[str, dict[str, bool]] = defaultdict(dict)
    for run, arm, rates in session.execute(query):
        found[run][arm] = rates > 0
    return found


def rejections(session: sqlite3.Connection) -> tuple[tuple[str, str, int], ...]:
    """Key of a run, name of a check, and how many trials it rejected or made invalid."""
    query = (
        "SELECT run, name, count(DISTINCT trial) FROM checks"
        " WHERE outcome IN ('reject', 'invalid') GROUP BY run, name ORDER BY run, name"
    )
    return tuple(session.execute(query).fetchall())


def answer(
    session: sqlite3.Connection, index: HistoryIndex, query: str
) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Runs a query of the user, which may only read tables: names of the columns, and rows."""
    session.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY
    )
    try:
        with index.reading():
            done = session.execute(query)
            return tuple(column[0] for column in done.description or ()), done.fetchall()
    except (sqlite3.Error, sqlite3.Warning) as error:
        tables = ", ".join([*NAMES, "present"])
        raise InputError(f"--sql: {error}. The tables are {tables}") from error
    finally:
        session.set_authorizer(None)


def export(session: sqlite3.Connection, index: HistoryIndex, file: Path) -> None:
    """Writes every table into a new SQLite file, for notebooks."""
    if file.exists():
        raise InputError(f"{file} exists already: name a new file")
    try:
        with index.reading(), closing(sqlite3.connect(file)) as copy, copy:
            for name in (*NAMES, "present"):
                rows = session.execute(f"SELECT * FROM {name}")  # noqa: S608 - ours
                columns = [column[0] for column in rows.description]
                copy.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
                holes = ", ".join("?" * len(columns))
                copy.executemany(f"INSERT INTO {name} VALUES ({holes})", rows)  # noqa: S608 - ours
    except (OSError, sqlite3.Error) as error:
        raise InputError(f"{file} cannot be written: {error}") from error


def _listed(values: Iterable[str]) -> str:
    return json.dumps(list(values))


def _arms(session: sqlite3.Connection, chosen: str) -> dict[str, list[history.ArmRow]]:
    """The arms of each run, in its order. Arms of many runs are equal: these share an object."""
    query = f"SELECT * FROM main.arms WHERE run IN {GIVEN} ORDER BY rowid"  # noqa: S608 - ours
    shared: dict[tuple[object, ...], history.ArmRow] = {}
    found: dict[str, list[history.ArmRow]] = defaultdict(list)
    for row in _rows(session, query, chosen):
        run = row["run"]
        row["run"] = ""
        key = tuple(row.values())
        if key not in shared:
            shared[key] = as_struct(history.ArmRow, row)
        found[run].append(shared[key])
    return found


def _rows(session: sqlite3.Connection, query: str, *given: str) -> Iterator[dict[str, Any]]:
    """Rows by the names of their columns. Equal texts, which most are, become one object."""
    done = session.execute(query, given)
    names = [column[0] for column in done.description]
    texts: dict[str, str] = {}
    for row in done:
        yield {
            name: texts.setdefault(value, value) if isinstance(value, str) else value
            for name, value in zip(names, row, strict=True)
        }
