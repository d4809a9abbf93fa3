import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.model import CoreAssignment
from jissoku.system.cores import (
    QuietCores,
    available_cores,
    first_quiet,
    idle_fraction,
    parse,
    partition_cores,
    pin_process,
)
from jissoku.system.processes import core_times


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


#                user nice system idle iowait irq softirq steal guest guest_nice
Row = tuple[int, int, int, int, int, int, int, int, int, int]
START: Row = (100, 5, 50, 9000, 20, 1, 2, 30, 0, 0)


def stat(*cores: Row) -> str:
    """A /proc/stat with these cores, and the lines around them."""
    whole = " ".join(map(str, map(sum, zip(*cores, strict=True))))
    rows = [f"cpu{core} {' '.join(map(str, row))}" for core, row in enumerate(cores)]
    return "\n".join([f"cpu  {whole}", *rows, "intr 12345 0 7", "ctxt 99"]) + "\n"


def later(
    *, idle: int = 0, user: int = 0, softirq: int = 0, iowait: int = 0, steal: int = 0
) -> Row:
    changes = (user, 0, 0, idle, iowait, 0, softirq, steal, 0, 0)
    first, *rest = (before + more for before, more in zip(START, changes, strict=True))
    return (first, *rest)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("row", "idle"),
    [
        (later(idle=10), 1.0),
        (later(idle=9, user=1), 0.9),
        (later(idle=9, softirq=1), 0.9),
        (later(idle=5, iowait=5), 1.0),
        (later(user=10), 0.0),
        (later(), 1.0),
    ],
)
def test_idle_is_unused_time(row: Row, idle: float) -> None:
    assert idle_fraction(stat(START), stat(row), [0]) == pytest.approx(idle)


def test_time_that_the_host_took_is_not_busy() -> None:
    assert idle_fraction(stat(START), stat(later(idle=2, steal=8)), [0]) == 1.0


def test_only_the_named_cores_count() -> None:
    before = stat(START, START)
    after = stat(later(idle=10), later(user=10))
    assert idle_fraction(before, after, [0]) == 1.0
    assert idle_fraction(before, after, [1]) == 0.0
    assert idle_fraction(before, after, [0, 1]) == pytest.approx(0.5)


def test_an_iowait_that_goes_down_is_no_busy_time() -> None:
    assert idle_fraction(stat(START), stat(later(idle=1, iowait=-3, user=1)), [0]) == 0.0


def test_waiting_ends_with_the_first_quiet_span() -> None:
    taken = []

    def readings() -> Iterator[str]:
        for row in (START, later(user=10), later(user=10, idle=10), later(user=10, idle=20)):
            taken.append(row)
            yield stat(row)

    assert first_quiet(readings(), [0]) == 1.0
    assert len(taken) == 3, "nothing is read once the cores are quiet"


def test_cores_that_stay_busy_are_reported_by_their_last_span() -> None:
    rows = (START, later(user=10), later(user=18, idle=2))
    assert first_quiet(map(stat, rows), [0]) == pytest.approx(0.2)


@pytest.mark.parametrize("texts", [[], [stat(START)]])
def test_less_than_one_span_is_no_answer(texts: list[str]) -> None:
    assert first_quiet(texts, [0]) is None


def test_an_interruption_ends_the_waiting() -> None:
    assert QuietCores([0]).wait(give_up=lambda: True) is None


def test_this_machine_has_the_fields() -> None:
    text = Path("/proc/stat").read_text()
    assert idle_fraction(text, text, []) == 1.0
    assert 0 in core_times(text)
