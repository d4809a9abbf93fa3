import os
import threading
from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.model import CoreAssignment
from jissoku.observe.cores import available_cores, parse, partition_cores, pin_process


def topology(folder: Path, siblings: dict[int, str]) -> Path:
    for core, text in siblings.items():
        place = folder / f"cpu{core}" / "topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(text + "\n")
    return folder


@pytest.mark.parametrize(
    ("siblings", "expected"),
    [
        ({0: "0", 1: "1"}, CoreAssignment(server=(0,), generator=(1,))),
        ({0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, CoreAssignment(server=(0, 2), generator=(1, 3))),
        ({0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, CoreAssignment(server=(0, 1), generator=(2, 3))),
        ({0: "0", 1: "1", 2: "2"}, CoreAssignment(server=(0,), generator=(1, 2))),
        ({0: "0-1", 1: "0-1"}, CoreAssignment(server=(0, 1), generator=(0, 1), shared=True)),
    ],
    ids=["two", "smt-far", "smt-near", "odd", "one-physical"],
)
def test_siblings_stay_together(
    tmp_path: Path, siblings: dict[int, str], expected: CoreAssignment
) -> None:
    assert partition_cores(siblings, topology(tmp_path, siblings)) == expected


def test_a_list_of_cores_is_read() -> None:
    first = available_cores()[0]
    assert parse(f"{first}") == (first,)
    assert parse(f"{first}-{first}") == (first,)


@pytest.mark.parametrize("text", ["", "x", "1-", "0-99999"])
def test_a_bad_list_of_cores_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse(text)


def test_pinning_ends_with_the_block() -> None:
    home = available_cores()
    with pin_process(home[-1:]):
        assert available_cores() == home[-1:]
    assert available_cores() == home


def test_every_thread_is_pinned_and_gets_its_own_cores_back() -> None:
    home = set(available_cores())
    only = min(home)
    stop = threading.Event()
    before = _Waiting(stop)
    os.sched_setaffinity(before.number, {only})
    with pin_process([max(home)]):
        during = _Waiting(stop)
        assert os.sched_getaffinity(before.number) == {max(home)}
        assert os.sched_getaffinity(during.number) == {max(home)}
    assert os.sched_getaffinity(before.number) == {only}
    assert os.sched_getaffinity(during.number) == home
    stop.set()
    before.join()
    during.join()


def test_cores_that_are_not_there_change_nothing() -> None:
    home = available_cores()
    with pytest.raises(OSError, match="Invalid argument"), pin_process([100_000]):
        pass
    assert available_cores() == home


class _Waiting(threading.Thread):
    """A thread that waits, and its number as the kernel counts."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop_event = stop
        self._ready = threading.Event()
        self.number = 0
        self.start()
        self._ready.wait()

    def run(self) -> None:
        self.number = threading.get_native_id()
        self._ready.set()
        self._stop_event.wait()
