from pathlib import Path

import msgspec
import pytest

from jissoku.errors import InputError
from jissoku.system import toml_file


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    count: int
    words: tuple[str, ...] = ()


class Outer(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    inner: Inner
    more: tuple[Inner, ...] = ()


RIGHT = """# prose
title = "a title"

[inner]
count = 1

[[more]]
count = 2
words = ["x"]

[[more]]
count = 3
"""


def read(folder: Path, text: str) -> Outer:
    path = folder / "thing.toml"
    path.write_text(text)
    return toml_file.read(path, Outer, name="thing")


def test_a_right_file_becomes_a_value(tmp_path: Path) -> None:
    more = (Inner(count=2, words=("x",)), Inner(count=3))
    expected = Outer(name="thing", title="a title", inner=Inner(count=1), more=more)
    assert read(tmp_path, RIGHT) == expected


@pytest.mark.parametrize(
    ("old", "new", "line", "key"),
    [
        ('title = "a title"', "title = 3", 2, "title"),
        ('title = "a title"', "", 1, "title"),
        ('title = "a title"', "titel = 3", 2, "titel"),
        ("count = 1", 'count = "one"', 5, "inner.count"),
        ("count = 1", "", 4, "inner.count"),
        ("count = 2", "cuont = 2", 8, "more.cuont"),
        ('["x"]', "[1]", 9, "more.words"),
        ("count = 3", "count = 3.5", 12, "more.count"),
        ("count = 3", "words = []", 11, "more.count"),
        ('title = "a title"', 'title = "a title', 2, "title"),
        ("count = 2", "count = = 2", 8, "count"),
        ("[inner]", "[inner", 4, "inner"),
        ("# prose", "name = 'other'", 1, "name"),
    ],
)
def test_a_mistake_is_reported_with_file_line_and_key(
    tmp_path: Path, old: str, new: str, line: int, key: str
) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, RIGHT.replace(old, new, 1))
    message = str(refused.value)
    assert message.startswith(f"thing.toml, line {line}, key `{key}`: "), message
    assert "\n" not in message


def test_a_file_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.toml: it cannot be read"):
        toml_file.read(tmp_path / "nothing.toml", Outer, name="x")


def test_a_file_that_is_no_text_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "thing.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"thing\.toml: it cannot be read"):
        toml_file.read(path, Outer, name="x")


def test_an_empty_file_misses_its_first_key(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"thing\.toml, line 1, key `title`: is missing"):
        read(tmp_path, "")
