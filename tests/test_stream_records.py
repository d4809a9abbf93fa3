"""Turns kept in records/streams: the table of records/README.md is made of them.

`python -m tests.test_stream_records` writes it there.
"""

from pathlib import Path

from tests import records_table
from tests.streams import table

RECORDS = Path(__file__).parents[1] / "records"
README = RECORDS / "README.md"


def made() -> str:
    """The README with the table of the turns."""
    turns = table.read(RECORDS / "streams" / "turns.jsonl")
    return records_table.fill(README, "streams", table.text(turns))


def test_the_table_is_made_of_the_records() -> None:
    assert made() == README.read_text("utf-8"), "run `python -m tests.test_stream_records`"


if __name__ == "__main__":
    README.write_text(made(), "utf-8")
