"""Rows out of the index, as the types of the model."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from jissoku.errors import InputError
from jissoku.history.damage import damage_error
from jissoku.history.tables import NAMES, quoted
from jissoku.model import Load
from jissoku.model.history import ArmRow, IndexedRun, Pair, PairMean, RunRow, load_of
from jissoku.model.ratio_columns import RatioColumns

# A fetched row takes much more memory than what is made from it.
ROWS_AT_ONCE = 2048

Logs = dict[Load, dict[Pair, dict[int, float]]]
Means = dict[Load, dict[Pair, PairMean]]
Present = Mapping[str, tuple[str, str]]


def headers(
    session: duckdb.DuckDBPyConnection, present: Present, keys: Iterable[str] | None = None
) -> tuple[IndexedRun, ...]:
    """Runs, earliest first, without their measurements: those of some keys, or all.

    Args:
        session: The database.
        present: By key of a run its folder, and why it is unfinished.
        keys: Which; None: all.
    """
    chosen = "SELECT run FROM runs"
    if keys is not None:
        chosen = _chosen(session, keys)
    arms = _arms(session, chosen)
    found = []
    query = (
        f"SELECT * FROM runs WHERE run IN ({chosen})"  # noqa: S608 - ours
        " ORDER BY started_utc, run"
    )
    for row in _rows(session, query):
        folder, unfinished = present[row["run"]]
        found.append(
            IndexedRun(
                row=RunRow(**row),
                arms=arms.get(row["run"], ()),
                folder=folder,
                unfinished=unfinished,
            )
        )
    return tuple(found)


def logs_of(session: duckdb.DuckDBPyConnection, keys: Iterable[str]) -> dict[str, Logs]:
    """What was measured block by block, by key of the run."""
    columns = "run, rate_rps, level, arm, other, block, ln_ratio"
    query = f"SELECT {columns} FROM blocks WHERE run IN ({_chosen(session, keys)})"  # noqa: S608 - ours
    loads = _Loads()
    found: dict[str, Logs] = defaultdict(dict)
    for run, rate, level, arm, other, block, log in session.execute(query).fetchall():
        pairs = found[run].setdefault(loads[rate, level], {})
        pairs.setdefault((arm, other), {})[block] = log
    return found


def means_of(
    session: duckdb.DuckDBPyConnection, keys: Iterable[str], arms: Iterable[str] | None = None
) -> dict[str, Means]:
    """Means over the blocks, by key of the run: of all pairs, or of pairs with one of some arms."""
    query = (
        "SELECT run, rate_rps, level, arm, other, ln, error * error, blocks FROM pairs"  # noqa: S608 - ours
        f" WHERE blocks >= 2 AND run IN ({_chosen(session, keys)})"
    )
    if arms is not None:
        session.execute("SET VARIABLE arms = ?", [list(arms)])
        query += " AND (list_contains(getvariable('arms')::VARCHAR[], arm)"
        query += " OR list_contains(getvariable('arms')::VARCHAR[], other))"
    loads = _Loads()
    found: dict[str, Means] = defaultdict(dict)
    for run, rate, level, arm, other, *mean in session.execute(query).fetchall():
        found[run].setdefault(loads[rate, level], {})[arm, other] = PairMean(*mean)
    return found


def ratios_of(
    session: duckdb.DuckDBPyConnection, arms: Iterable[str], units: Iterable[str]
) -> RatioColumns:
    """Ratios of some arms to some units, in all runs."""
    session.execute("SET VARIABLE arms = ?", [list(arms)])
    session.execute("SET VARIABLE units = ?", [list(units)])
    sides = [("arm", "other", "ln"), ("other", "arm", "-ln")]
    query = " UNION ALL ".join(
        f"SELECT run, {arm} AS arm, {unit} AS unit, coalesce(rate_rps, 0) AS rate, level,"  # noqa: S608 - ours
        f" {ln} AS mean, error * error AS variance, blocks - 1 AS freedom"
        f" FROM pairs WHERE blocks >= 2"
        f" AND list_contains(getvariable('arms')::VARCHAR[], {arm})"
        f" AND list_contains(getvariable('units')::VARCHAR[], {unit})"
        for arm, unit, ln in sides
    )
    columns = session.execute(query).fetchnumpy()
    return RatioColumns(**{name: column.tolist() for name, column in columns.items()})


def targets(session: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Every target that has a run, by name."""
    found = session.execute("SELECT DISTINCT target FROM arms ORDER BY target").fetchall()
    return tuple(name for (name,) in found)


def rejections(session: duckdb.DuckDBPyConnection) -> tuple[tuple[str, str, int], ...]:
    """Key of a run, name of a check, and how many trials it rejected or made invalid."""
    query = (
        "SELECT run, name, count(DISTINCT trial) FROM checks"
        " WHERE outcome IN ('reject', 'invalid') GROUP BY ALL ORDER BY ALL"
    )
    return tuple(session.execute(query).fetchall())


class _Loads(dict[tuple[int | None, str], Load]):
    """Loads by rate and level, an object for each."""

    def __missing__(self, key: tuple[int | None, str]) -> Load:
        self[key] = load_of(*key)
        return self[key]


def _chosen(session: duckdb.DuckDBPyConnection, keys: Iterable[str]) -> str:
    """A query for some keys, until the next one."""
    session.execute("SET VARIABLE keys = ?", [list(keys)])
    return "SELECT unnest(getvariable('keys')::VARCHAR[])"


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
    session: duckdb.DuckDBPyConnection, query: str, cache: Path, present: Present
) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Runs a query of the user, and returns the names of the columns, and rows.

    It reads the tables, and no file beside the index.

    Args:
        session: The database.
        query: In SQL.
        cache: The folder of the index.
        present: By key of a run its folder, and why it is unfinished: the table of that name.

    Raises:
        InputError: The query is invalid, or reads a table that the index does not have.
        JissokuError: The index is damaged.
    """
    _create_present(session, present)
    session.execute("SET allowed_directories = [?]", [f"{cache.absolute()}/"])
    session.execute("SET enable_external_access = false")
    try:
        done = session.execute(query)
        return tuple(column[0] for column in done.description or ()), done.fetchall()
    except duckdb.Error as error:
        if damage := damage_error(cache):
            raise damage from error
        tables = ", ".join([*NAMES, "present"])
        raise InputError(f"--sql: {error}. The tables are {tables}") from error


def _create_present(session: duckdb.DuckDBPyConnection, present: Present) -> None:
    """The runs that were found; bytes of a folder's name that are no text are replaced."""
    session.execute("CREATE TEMP TABLE present (run VARCHAR, folder VARCHAR, unfinished VARCHAR)")
    rows = [
        (key, os.fsencode(folder).decode(errors="replace"), unfinished)
        for key, (folder, unfinished) in present.items()
    ]
    # Of ten thousand runs, lists as parameters of a query take ten times as long.
    columns = zip(("run", "folder", "unfinished"), zip(*rows, strict=True), strict=True)
    given = {name: np.array(column, dtype=object) for name, column in columns}
    session.register("given", given)
    session.execute("INSERT INTO present FROM given")
    session.unregister("given")


def export(session: duckdb.DuckDBPyConnection, folder: Path, cache: Path) -> None:
    """Writes every table as a Parquet file, for notebooks.

    Args:
        session: The database.
        folder: Created if needed.
        cache: The folder of the index.

    Raises:
        InputError: The folder cannot be written.
        JissokuError: The index is damaged.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for table in NAMES:
            path = quoted(folder / f"{table}.parquet")
            session.execute(f"COPY (FROM {table}) TO {path} (FORMAT parquet)")
    except (OSError, duckdb.Error) as error:
        if isinstance(error, duckdb.Error) and (damage := damage_error(cache)):
            raise damage from error
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
