"""What is kept in records/store: the tables of records/README.md are made of it.

`python -m tests.test_store_records` writes them there.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import records_table
from tests.store_study import in_handler, table

RECORDS = Path(__file__).parents[1] / "records"
README = RECORDS / "README.md"

TABLES: dict[str, Callable[[], str]] = {
    "store": lambda: table.text(table.read(table.RESULTS)),
    "store in a handler": lambda: in_handler.table(in_handler.read(in_handler.RESULTS)),
}


@pytest.mark.parametrize("part", TABLES)
def test_a_table_is_made_of_the_records(part: str) -> None:
    made = records_table.fill(README, part, TABLES[part]())
    assert made == README.read_text("utf-8"), "run `python -m tests.test_store_records`"


if __name__ == "__main__":
    for name, text in TABLES.items():
        README.write_text(records_table.fill(README, name, text()), "utf-8")
