"""The tables of the index: row types of the model as columns of SQL."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from jissoku.model.history import (
    ArmRow,
    BlockRow,
    CheckRow,
    RunRow,
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

MEMORY_LIMIT = "256MB"

# A table that is made from another one as a part is written: queries over blocks are slower.
PAIRS = """
SELECT run, arm, other, rate_rps, level, any_value(source) AS source, count(*) AS blocks,
  avg(ln_ratio) AS ln, stddev_samp(ln_ratio) / sqrt(count(*)) AS error, exp(avg(ln_ratio)) AS ratio
FROM {blocks} GROUP BY ALL
"""

NAMES = (*TABLES, "pairs")


def new_memory() -> duckdb.DuckDBPyConnection:
    """A database in memory."""
    return duckdb.connect(config={"threads": 1, "memory_limit": MEMORY_LIMIT})


def version(revision: int) -> str:
    """A name for all columns, as `revision` of the program makes them."""
    text = f"{revision} {PAIRS} " + " ".join(
        f"{table}({_columns(kind)})" for table, kind in TABLES.items()
    )
    return f"v2-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def empty(table: str) -> str:
    """A query with a table's columns and no row."""
    if table == "pairs":
        return PAIRS.format(blocks=f"({empty('blocks')})")
    return f"SELECT {_nulls(TABLES[table])} WHERE false"


def written(scratch: Path, table: str, rows: Iterable[msgspec.Struct]) -> str:
    """Writes rows as JSON lines into a folder; the query that reads them with a table's columns.

    Raises:
        OSError: They cannot be written.
    """
    lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    if not lines:
        return empty(table)
    file = scratch / f".{table}.jsonl"
    file.write_bytes(lines)
    columns = ", ".join(f"{name}: '{sql}'" for name, sql in _fields(TABLES[table]))
    return f"SELECT * FROM read_json({quoted(file)}, format = 'nd', columns = {{{columns}}})"  # noqa: S608


def quoted(path: Path) -> str:
    """A path as a text of SQL."""
    return "'" + str(path).replace("'", "''") + "'"


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
