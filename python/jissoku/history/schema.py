"""The tables of the index: row types of the model as tables of SQLite."""

import hashlib
from typing import Any

import msgspec

from jissoku.model.history import ArmRow, CheckRow, RunRow, StandingRow, VerdictRow

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
