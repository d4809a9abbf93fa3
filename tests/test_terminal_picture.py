"""The picture of a terminal in the README."""

from pathlib import Path

from tests.terminal_picture import picture
from tests.test_records import ABSOLUTE

PICTURE = Path(__file__).parents[1] / "docs" / "race.svg"
RECORD = Path(__file__).parents[1] / "records" / "repeatability" / "51"
BYTES_MAX = 100_000


def test_it_is_small_and_names_no_machine() -> None:
    kept = PICTURE.read_bytes()
    assert len(kept) < BYTES_MAX
    assert not ABSOLUTE.search(kept)
    assert b"@font-face" not in kept


def test_it_is_drawn_from_the_records_of_a_run() -> None:
    drawn = picture(RECORD)
    assert "make&#160;race" in drawn
    assert "nginx" in drawn
    assert "@font-face" not in drawn
