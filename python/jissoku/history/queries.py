"""Rows out of the index, as the types of the model."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb

from jissoku.errors import InputError
from jissoku.history.index import TABLES
from jissoku.model import Load
from jissoku.model.history import ArmRow, IndexedRun, RunRow, load_of

# A fetched row takes much more memory than what is made from it.
ROWS_AT_ONCE = 2048

LogsByPair = dict[Load, dict[tuple[str, str], dict[int, float]]]
# A target's workloads with all their runs: tau is estimated from those without it, too.
OF_TARGET = """
SELECT run FROM runs SEMI JOIN (
  SELECT machine, workload FROM runs JOIN arms USING (run) WHERE target = getvariable('target')
) USING (machine, workload)
"""

LogsByRun = dict[str, dict[tuple[int | None, str, str, str], dict[int, float]]]


def headers(session: duckdb.DuckDBPyConnection) -> tuple[IndexedRun, ...]:
    """All runs, earliest first, without their measurements."""
    return _runs(session, "SELECT run FROM runs", is_measured=False)


def runs(session: duckdb.DuckDBPyConnection, target: str = "") -> tuple[IndexedRun, ...]:
    """Runs, earliest first, with the measurements of each block.

    Args:
        session: An open index.
        target: Only of the classes of machines and workloads that it was measured with; empty: all.
    """
    if not target:
        return _runs(session, "SELECT run FROM runs")
    session.execute("SET VARIABLE target = ?", [target])
    return _runs(session, OF_TARGET)


def runs_of(session: duckdb.DuckDBPyConnection, keys: Iterable[str]) -> tuple[IndexedRun, ...]:
    """The runs of some keys, earliest first, with what was measured block by block."""
    session.execute("SET VARIABLE keys = ?", [list(keys)])
    return _runs(session, "SELECT unnest(getvariable('keys')::VARCHAR[])")


def targets(session: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Every target that has a run, by name."""
    found = session.execute("SELECT DISTINCT target FROM arms ORDER BY target").fetchall()
    return tuple(name for (name,) in found)


def _runs(
    session: duckdb.DuckDBPyConnection, chosen: str, *, is_measured: bool = True
) -> tuple[IndexedRun, ...]:
    """The runs whose keys a query gives."""
    arms = _arms(session, chosen)
    logs: LogsByRun = defaultdict(lambda: defaultdict(dict))
    columns = "run, rate_rps, level, arm, other, block, ln_ratio"
    query = f"SELECT {columns} FROM blocks WHERE run IN ({chosen})"  # noqa: S608 - ours
    blocks = session.execute(query).fetchall() if is_measured else []
    for run, rate, level, arm, other, block, log in blocks:
        logs[run][rate, level, arm, other][block] = log
    found = []
    query = (
        f"SELECT * FROM runs JOIN present USING (run) WHERE run IN ({chosen})"  # noqa: S608 - ours
        " ORDER BY started_utc, run"
    )
    for row in _rows(session, query):
        folder, unfinished = row.pop("folder"), row.pop("unfinished")
        by_load: LogsByPair = defaultdict(dict)
        for (rate, level, arm, other), values in logs[row["run"]].items():
            by_load[load_of(rate, level)][arm, other] = values
        found.append(
            IndexedRun(
                row=RunRow(**row),
                arms=arms.get(row["run"], ()),
                logs=dict(by_load),
                folder=folder,
                unfinished=unfinished,
            )
        )
    return tuple(found)


def _arms(session: duckdb.DuckDBPyConnection, chosen: str) -> dict[str, tuple[ArmRow, ...]]:
    """The arms of each run, in its order. Arms of many runs are equal: these share an object."""
    columns = ", ".join(name for name in ArmRow.__struct_fields__ if name != "run")
    query = (
        f"SELECT {columns}, list(run) AS runs, list(place) AS places FROM ("  # noqa: S608 - ours
        f"SELECT *, row_number() OVER () AS place FROM arms WHERE run IN ({chosen}))"
        " GROUP BY ALL"
    )
    found: dict[str, list[tuple[int, ArmRow]]] = defaultdict(list)
    for row in _rows(session, query):
        runs, places = row.pop("runs"), row.pop("places")
        arm = ArmRow(run="", **row)
        for run, place in zip(runs, places, strict=True):
            found[run].append((place, arm))
    return {
        run: tuple(arm for _, arm in sorted(placed, key=lambda one: one[0]))
        for run, placed in found.items()
    }


def answer(
    session: duckdb.DuckDBPyConnection, query: str, cache: Path
) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Runs a query of the user, and returns the names of the columns, and rows.

    It reads the tables, and no file beside the index.

    Raises:
        InputError: The query is invalid, or reads a table that the index does not have.
    """
    session.execute("SET allowed_directories = [?]", [f"{cache.absolute()}/"])
    session.execute("SET enable_external_access = false")
    try:
        done = session.execute(query)
        return tuple(column[0] for column in done.description or ()), done.fetchall()
    except duckdb.Error as error:
        tables = ", ".join([*TABLES, "pairs", "present"])
        raise InputError(f"--sql: {error}. The tables are {tables}") from error


def export(session: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Writes every table as a Parquet file, for notebooks.

    Raises:
        InputError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for table in (*TABLES, "pairs"):
            path = str(folder / f"{table}.parquet").replace("'", "''")
            session.execute(f"COPY (FROM {table}) TO '{path}' (FORMAT parquet)")
    except (OSError, duckdb.Error) as error:
        raise InputError(f"{folder} cannot be written: {error}") from error


def _rows(session: duckdb.DuckDBPyConnection, query: str) -> Iterator[dict[str, Any]]:
    """Rows by the names of their columns. Equal texts, which most are, become one object."""
    done = session.execute(query)
    names = [column[0] for column in done.description or ()]
    texts: dict[str, str] = {}
    while part := done.fetchmany(ROWS_AT_ONCE):
        for row in part:
            yield {
                name: texts.setdefault(value, value) if isinstance(value, str) else value
                for name, value in zip(names, row, strict=True)
            }
