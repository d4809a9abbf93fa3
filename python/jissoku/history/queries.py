"""Rows out of the index, as the types of the model."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from jissoku.errors import InputError
from jissoku.history.index import NAMES, HistoryIndex, Present, as_struct
from jissoku.model import Load
from jissoku.model.history import ArmRow, IndexedRun, Pair, PairMean, RatioColumns, RunRow, load_of

Logs = dict[Load, dict[Pair, dict[int, float]]]
Means = dict[Load, dict[Pair, PairMean]]

# An object for each rate and level.
_load = cache(load_of)

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
) -> tuple[IndexedRun, ...]:
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
            IndexedRun(
                row=as_struct(RunRow, row),
                arms=tuple(arms.get(row["run"], ())),
                folder=folder,
                unfinished=unfinished,
            )
        )
    return tuple(found)


def logs_of(session: sqlite3.Connection, keys: Iterable[str]) -> dict[str, Logs]:
    """What was measured block by block, by key of the run."""
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
        found[run].setdefault(_load(rate, level), {})[arm, other] = PairMean(*mean)
    return found


def ratios_of(
    session: sqlite3.Connection, arms: Iterable[str], units: Iterable[str]
) -> RatioColumns:
    """Ratios of some arms to some units, in all runs."""
    sides = [("arm", "other", "ln"), ("other", "arm", "-ln")]
    query = " UNION ALL ".join(
        f"SELECT run, {arm}, {unit}, coalesce(rate_rps, 0), level, {ln}, error * error, blocks - 1"  # noqa: S608 - ours
        f" FROM pairs WHERE blocks >= 2 AND {arm} IN {GIVEN} AND {unit} IN {GIVEN}"
        for arm, unit, ln in sides
    )
    rows = session.execute(query, [_listed(arms), _listed(units)] * 2).fetchall()
    names = [field.name for field in fields(RatioColumns)]
    columns = zip(*rows, strict=True) if rows else ((),) * len(names)
    return RatioColumns(**{name: list(column) for name, column in zip(names, columns, strict=True)})


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


def _arms(session: sqlite3.Connection, chosen: str) -> dict[str, list[ArmRow]]:
    """The arms of each run, in its order. Arms of many runs are equal: these share an object."""
    query = f"SELECT * FROM main.arms WHERE run IN {GIVEN} ORDER BY rowid"  # noqa: S608 - ours
    shared: dict[tuple[object, ...], ArmRow] = {}
    found: dict[str, list[ArmRow]] = defaultdict(list)
    for row in _rows(session, query, chosen):
        run = row["run"]
        row["run"] = ""
        key = tuple(row.values())
        if key not in shared:
            shared[key] = as_struct(ArmRow, row)
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
