from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.model import Cores
from jissoku.observe.cores import allowed, parse, pinned, split


def topology(folder: Path, siblings: dict[int, str]) -> Path:
    for core, text in siblings.items():
        place = folder / f"cpu{core}" / "topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(text + "\n")
    return folder


@pytest.mark.parametrize(
    ("siblings", "expected"),
    [
        ({0: "0", 1: "1"}, Cores(server=(0,), stopwatch=(1,))),
        ({0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, Cores(server=(0, 2), stopwatch=(1, 3))),
        ({0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, Cores(server=(0, 1), stopwatch=(2, 3))),
        ({0: "0", 1: "1", 2: "2"}, Cores(server=(0,), stopwatch=(1, 2))),
        ({0: "0-1", 1: "0-1"}, Cores(server=(0, 1), stopwatch=(0, 1), shared=True)),
    ],
    ids=["two", "smt-far", "smt-near", "odd", "one-physical"],
)
def test_siblings_stay_together(tmp_path: Path, siblings: dict[int, str], expected: Cores) -> None:
    assert split(siblings, topology(tmp_path, siblings)) == expected


def test_a_list_of_cores_is_read() -> None:
    first = allowed()[0]
    assert parse(f"{first}") == (first,)
    assert parse(f"{first}-{first}") == (first,)


@pytest.mark.parametrize("text", ["", "x", "1-", "0-99999"])
def test_a_bad_list_of_cores_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse(text)


def test_pinning_ends_with_the_block() -> None:
    home = allowed()
    with pinned(home[-1:]):
        assert allowed() == home[-1:]
    assert allowed() == home
