"""Parts of the index that cannot be read, such as after a loss of power.

Which files a part has and how long they are is checked whenever it is listed; what is in them is
seen when it is read.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from jissoku.errors import JissokuError
from jissoku.history.parts import all_parts, remove
from jissoku.history.tables import NAMES, new_memory, quoted


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """The block reads of the index in a folder: views open their files when they are asked.

    Raises:
        JissokuError: A part is damaged, and was removed; or another process has removed one.
    """
    try:
        yield
    except duckdb.Error as error:
        if damage := damage_error(folder):
            raise damage from error
        if not isinstance(error, duckdb.IOException):
            raise
        raise JissokuError(
            "another process changed the index while it was read: run the same command again"
        ) from error


def damage_error(folder: Path) -> JissokuError | None:
    """Removes every part that cannot be read; an error that says so, or None if all can be."""
    session = new_memory()
    damaged = [part for part in all_parts(folder) if not _is_readable(session, part.path)]
    session.close()
    for part in damaged:
        remove(part.path)
    if not damaged:
        return None
    return JissokuError(
        f"the index {folder} was damaged: what cannot be read was removed, and the next command"
        " makes it again from the records"
    )


def _is_readable(session: duckdb.DuckDBPyConnection, part: Path) -> bool:
    """Reads every value of a part."""
    try:
        for table in NAMES:
            session.execute(f"SELECT max(hash(t)) FROM read_parquet({quoted(part / table)}) t")  # noqa: S608 - ours
            session.fetchall()
    except duckdb.Error:
        return False
    return True
