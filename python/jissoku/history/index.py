"""Rows of runs as Parquet files in a cache, read by DuckDB in memory.

A part is a folder with one file per table (`parts`), written beside the others and renamed: a
reader finds it whole or not at all, and two writers may add the same run, which is then read from
one part only. DuckDB's own files would let one process write or many read; these have no lock.

The folder's name is a hash of all columns: an index of another version is neither read nor changed.
"""

import os
import shutil
import tempfile
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from jissoku.errors import JissokuError
from jissoku.history.damage import damage_error
from jissoku.history.parts import (
    Part,
    PartFile,
    all_parts,
    live_parts,
    part_digest,
    remove_replaced,
    write_part_file,
)
from jissoku.history.tables import (
    NAMES,
    PAIRS,
    TABLES,
    empty,
    new_memory,
    quoted,
    version,
    written,
)
from jissoku.model.history import RunRows

# A query opens every part: above this many, some of the smallest become one.
PARTS_MAX = 8

# How many at least, so that not every new run has parts merged.
MERGED_MIN = 4


@dataclass(frozen=True, slots=True)
class Shown:
    """A part, and which of its runs are read from it; None: all."""

    part: Part
    runs: tuple[str, ...] | None


class HistoryIndex:
    """The parts of one cache folder."""

    def __init__(
        self, cache: Path, revision: int, memory: duckdb.DuckDBPyConnection | None = None
    ) -> None:
        """Creates nothing yet.

        Args:
            cache: The folder of all indexes.
            revision: Of the program that makes rows.
            memory: A connection that `connect` has returned, whose database is used again: a new
                one takes 20 ms.
        """
        self.folder = cache / "history" / version(revision)
        self._memory = memory

    def parts(self) -> tuple[Part, ...]:
        """All parts that are read; one that is not whole is removed, and its runs made anew."""
        return live_parts(all_parts(self.folder))

    def known(self) -> set[str]:
        """Keys of all runs in the index."""
        return {run for part in self.parts() for run in part.file.runs}

    def add(self, batch: Sequence[RunRows]) -> None:
        """Adds runs as one part.

        Raises:
            JissokuError: The cache cannot be written.
        """
        if not batch:
            return
        rows = {table: [row for one in batch for row in getattr(one, table)] for table in TABLES}
        runs = tuple(dict.fromkeys(row.run for row in rows["runs"]))
        session = self._session()
        try:
            with self._scratch() as scratch:
                selects = {table: written(scratch, table, rows[table]) for table in TABLES}
                selects["pairs"] = PAIRS.format(blocks=f"({selects['blocks']})")
                self._write(session, scratch, selects, PartFile(runs=runs))
            every = all_parts(self.folder)
            parts = live_parts(every)
            if len(parts) > PARTS_MAX:
                self._compact(session, parts)
            remove_replaced(self.folder, every)
        except (OSError, duckdb.Error) as error:
            self._memory = None
            if isinstance(error, duckdb.Error) and (damage := damage_error(self.folder)):
                raise damage from error
            raise JissokuError(f"the index {self.folder} cannot be written: {error}") from error
        finally:
            session.close()

    def connect(
        self, present: Container[str], parts: Sequence[Part] | None = None
    ) -> duckdb.DuckDBPyConnection:
        """A connection to a database in memory, with a view per table over some runs.

        Args:
            present: Keys of the runs.
            parts: What `parts` has returned.
        """
        session = self._session()
        _create_views(session, _shown(self.parts() if parts is None else parts, present))
        return session

    def _session(self) -> duckdb.DuckDBPyConnection:
        """A connection with views of its own; they end with it."""
        if self._memory is None:
            self._memory = new_memory()
        return self._memory.cursor()

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        """A folder of the index that becomes a part; it is removed if it does not."""
        self.folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=self.folder))
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _write(
        self,
        session: duckdb.DuckDBPyConnection,
        scratch: Path,
        selects: Mapping[str, str],
        file: PartFile,
    ) -> None:
        """Makes a folder a part, from a query for each table."""
        for table in NAMES:
            session.execute(
                f"COPY ({selects[table]}) TO {quoted(scratch / table)} (FORMAT parquet)"
            )
        write_part_file(scratch, file, NAMES)
        part = self.folder / part_digest(scratch, file)
        try:
            os.rename(scratch, part)  # noqa: PTH104 - Path.rename replaces an empty folder
        except OSError:
            if not part.is_dir():
                raise  # Otherwise another process has written the same part.

    def _compact(self, session: duckdb.DuckDBPyConnection, parts: Sequence[Part]) -> None:
        """Makes one part of the smallest ones. Other processes may still read those."""
        merged = _smallest(parts)
        shown = _shown(merged, None)
        runs = tuple(dict.fromkeys(run for one in merged for run in one.file.runs))
        replaced = {one.name for one in merged}.union(*(one.file.replaces for one in merged))
        _create_views(session, shown)
        selects = {table: f"FROM {table}" for table in NAMES}
        file = PartFile(runs=runs, replaces=tuple(sorted(replaced)))
        with self._scratch() as scratch:
            self._write(session, scratch, selects, file)


def _smallest(parts: Sequence[Part]) -> list[Part]:
    """The parts to be merged: with the smallest each further one that is no larger than those.

    So a part is written again when it doubles, and not whenever there are a few new runs.
    """
    by_size = sorted(parts, key=lambda part: (len(part.file.runs), part.name))
    count = max(MERGED_MIN, len(by_size) - PARTS_MAX + 1)
    sizes = [len(part.file.runs) for part in by_size]
    while count < len(sizes) and sizes[count] <= sum(sizes[:count]):
        count += 1
    return by_size[:count]


def _shown(parts: Sequence[Part], present: Container[str] | None) -> list[Shown]:
    """Of each run the part that comes first; only runs that are present, or all."""
    found: list[Shown] = []
    seen: set[str] = set()
    for part in parts:
        runs = [
            run for run in part.file.runs if run not in seen and (present is None or run in present)
        ]
        seen.update(runs)
        if runs:
            is_whole = len(runs) == len(part.file.runs)
            found.append(Shown(part, None if is_whole else tuple(runs)))
    return found


def _create_views(session: duckdb.DuckDBPyConnection, shown: Sequence[Shown]) -> None:
    """A view over each table; only parts of which some runs are not read are joined."""
    session.execute("CREATE OR REPLACE TEMP TABLE shown (part VARCHAR, run VARCHAR)")
    for one in shown:
        if one.runs is not None:
            session.execute(
                "INSERT INTO shown SELECT ?, unnest(?)", [one.part.name, list(one.runs)]
            )
    whole = [one.part for one in shown if one.runs is None]
    some = [one.part for one in shown if one.runs is not None]
    for table in NAMES:
        selects = [f"FROM read_parquet({_list(part.path / table for part in whole)})"] * bool(whole)
        selects += [_selected(table, part) for part in some]
        session.execute(
            f"CREATE OR REPLACE TEMP VIEW {table} AS {' UNION ALL '.join(selects) or empty(table)}"
        )


def _selected(table: str, part: Part) -> str:
    """A query for the rows of a part that are shown."""
    runs = f"SELECT run FROM shown WHERE part = '{part.name}'"  # noqa: S608 - hexadecimal digits
    return f"FROM read_parquet({quoted(part.path / table)}) WHERE run IN ({runs})"


def _list(paths: Iterable[Path]) -> str:
    return "[" + ", ".join(quoted(path) for path in paths) + "]"
