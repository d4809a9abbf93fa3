"""Rows of runs as Parquet files in a cache, read by DuckDB in memory.

A part is a folder with one file per table, written beside the others and renamed: a reader finds
it whole or not at all, and two writers may add the same run, which is then read from one part only.
DuckDB's own files would let one process write or many read; these have no lock.

The folder's name is a hash of all columns: an index of another version is neither read nor changed.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from jissoku.errors import JissokuError
from jissoku.model.history import (
    ArmRow,
    BlockRow,
    CheckRow,
    RunRow,
    RunRows,
    StandingRow,
    VerdictRow,
)

TABLES: dict[str, Any] = {
    "runs": RunRow,
    "arms": ArmRow,
    "blocks": BlockRow,
    "verdicts": VerdictRow,
    "standings": StandingRow,
    "checks": CheckRow,
}

SQL_TYPES = {str: "VARCHAR", int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN"}

# Each query opens every part: above this many they become one.
PARTS_MAX = 64

MEMORY_LIMIT = "256MB"

# Views over tables: of each run the part that sorts first.
VIEW = """
CREATE VIEW {table} AS
SELECT * EXCLUDE (part, filename) FROM (SELECT *, parse_path(filename)[-2] AS part
  FROM read_parquet({files}, filename = true, union_by_name = true))
SEMI JOIN chosen USING (run, part)
"""

CHOSEN = """
CREATE TABLE chosen AS SELECT run, min(parse_path(filename)[-2]) AS part
FROM read_parquet({files}, filename = true) SEMI JOIN present USING (run) GROUP BY run
"""

PAIRS = """
CREATE VIEW pairs AS
SELECT run, arm, other, rate_rps, level, any_value(source) AS source, count(*) AS blocks,
  avg(ln_ratio) AS ln, stddev_samp(ln_ratio) / sqrt(count(*)) AS error, exp(avg(ln_ratio)) AS ratio
FROM blocks GROUP BY ALL
"""


class HistoryIndex:
    """The parts of one cache folder."""

    def __init__(self, cache: Path, revision: int) -> None:
        """Creates nothing yet. `revision` is that of the program that makes rows."""
        self.folder = cache / "history" / _version(revision)

    def known(self) -> set[str]:
        """Keys of all runs in the index; a part that cannot be read is removed, to be made anew."""
        found: set[str] = set()
        with _memory() as session:
            for part in self._parts():
                try:
                    for table in TABLES:
                        session.execute(
                            f"SELECT count(*) FROM read_parquet({_quoted(part / table)})"  # noqa: S608
                        )
                    rows = session.execute(
                        f"SELECT run FROM read_parquet({_quoted(part / 'runs')})"  # noqa: S608
                    ).fetchall()
                except duckdb.Error:
                    shutil.rmtree(part, ignore_errors=True)
                else:
                    found |= {key for (key,) in rows}
        return found

    def add(self, batch: Sequence[RunRows]) -> None:
        """Adds runs as one part.

        Raises:
            JissokuError: The cache cannot be written.
        """
        if not batch:
            return
        rows = {table: [row for one in batch for row in getattr(one, table)] for table in TABLES}
        with _memory() as session:
            self._write(session, {table: _json(rows[table]) for table in TABLES}, {})
            if len(self._parts()) > PARTS_MAX:
                self._compact(session)

    def connect(self, present: Mapping[str, tuple[str, str]]) -> duckdb.DuckDBPyConnection:
        """A database in memory with a view per table, over some runs.

        Args:
            present: By key of the run: its folder, and why it is unfinished.
        """
        session = _memory()
        session.execute("CREATE TABLE present (run VARCHAR, folder VARCHAR, unfinished VARCHAR)")
        if present:
            rows = [[key, *place] for key, place in present.items()]
            columns = [list(column) for column in zip(*rows, strict=True)]
            session.execute("INSERT INTO present SELECT unnest(?), unnest(?), unnest(?)", columns)
        parts = self._parts()
        if parts and present:
            session.execute(CHOSEN.format(files=_list(part / "runs" for part in parts)))
        for table, kind in TABLES.items():
            if parts and present:
                files = _list(part / table for part in parts)
                session.execute(VIEW.format(table=table, files=files))
            else:
                session.execute(f"CREATE TABLE {table} ({_columns(kind)})")
        session.execute(PAIRS)
        return session

    def _parts(self) -> list[Path]:
        with suppress(OSError):
            return sorted(p for p in self.folder.iterdir() if not p.name.startswith("."))
        return []

    def _write(
        self,
        session: duckdb.DuckDBPyConnection,
        lines: Mapping[str, bytes],
        selects: Mapping[str, str],
    ) -> Path:
        """A part made from JSON lines, or from queries, by table."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=self.folder))
            try:
                for table, kind in TABLES.items():
                    source = selects.get(table) or _reading(scratch, table, kind, lines[table])
                    session.execute(
                        f"COPY ({source}) TO {_quoted(scratch / table)} (FORMAT parquet)"
                    )
                digest = hashlib.sha256((scratch / "runs").read_bytes()).hexdigest()[:16]
                part = self.folder / digest
                with suppress(OSError):  # Another process has written the same part.
                    os.rename(scratch, part)  # noqa: PTH104 - Path.rename replaces an empty folder
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
        except (OSError, duckdb.Error) as error:
            raise JissokuError(f"the index {self.folder} cannot be written: {error}") from error
        return part

    def _compact(self, session: duckdb.DuckDBPyConnection) -> None:
        """Makes one part of all; those that another process adds meanwhile stay as they are."""
        parts = self._parts()
        whole = self._write(
            session,
            {},
            {
                table: f"SELECT * FROM read_parquet({_list(part / table for part in parts)})"  # noqa: S608
                for table in TABLES
            },
        )
        for part in parts:
            if part != whole:
                shutil.rmtree(part, ignore_errors=True)


def _memory() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1, "memory_limit": MEMORY_LIMIT})


def _reading(scratch: Path, table: str, kind: Any, lines: bytes) -> str:
    """The query that reads JSON lines with a table's columns; none give none."""
    if not lines:
        return f"SELECT {_nulls(kind)} WHERE false"
    file = scratch / f".{table}.jsonl"
    file.write_bytes(lines)
    columns = ", ".join(f"{name}: '{sql}'" for name, sql in _fields(kind))
    return f"SELECT * FROM read_json({_quoted(file)}, format = 'nd', columns = {{{columns}}})"  # noqa: S608


def _json(rows: Iterable[msgspec.Struct]) -> bytes:
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def _fields(kind: Any) -> list[tuple[str, str]]:
    """Columns of a row type with their SQL types."""
    found = []
    for field in msgspec.structs.fields(kind):
        types = getattr(field.type, "__args__", (field.type,))
        found.append((field.name, SQL_TYPES[next(one for one in types if one in SQL_TYPES)]))
    return found


def _columns(kind: Any) -> str:
    return ", ".join(f"{name} {sql}" for name, sql in _fields(kind))


def _nulls(kind: Any) -> str:
    return ", ".join(f"NULL::{sql} AS {name}" for name, sql in _fields(kind))


def _version(revision: int) -> str:
    text = f"{revision} " + " ".join(f"{table}({_columns(kind)})" for table, kind in TABLES.items())
    return f"v1-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def _list(paths: Iterable[Path]) -> str:
    return "[" + ", ".join(_quoted(path) for path in paths) + "]"
