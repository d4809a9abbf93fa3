"""The case files are valid, and a mistake in one is reported."""

from pathlib import Path

import pytest

from jissoku.conformance.case import Ends, Level, read_all
from jissoku.errors import InputError

ROOT = Path(__file__).parents[2]

GOOD = """
title = "Some"
at = "GET / HTTP/1.1\\r\\n"

[[case]]
name = "one"
clause = "RFC 9112 section 3"
send = "@\\r\\n"
"""


def test_every_case_of_ours_is_read() -> None:
    cases = read_all()
    assert len(cases) > 140
    assert {case.level for case in cases} == set(Level)
    assert {case.ends for case in cases} == set(Ends)
    assert all(case.send for case in cases)


def test_a_case_is_filled_in(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(GOOD)
    (case,) = read_all(tmp_path)
    assert case.send == "GET / HTTP/1.1\r\n\r\n"
    assert case.level is Level.MUST


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD + "flavour = 1\n", "flavour"),
        (GOOD + 'level = "maybe"\n', "maybe"),
        (GOOD.replace('clause = "RFC 9112 section 3"\n', ""), "clause"),
        (GOOD.replace("@", "\u20ac"), "case one"),
        (GOOD + GOOD.partition('"\n\n')[2], "called one"),
        ("title = \n", "a.toml"),
        ('title = "None"\ncase = []\n', "no cases"),
    ],
)
def test_a_mistake_is_reported(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(InputError, match=words):
        read_all(tmp_path)


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_all(tmp_path / "nowhere")
