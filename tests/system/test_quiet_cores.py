from collections.abc import Iterator
from pathlib import Path

import pytest

from jissoku.system.cores import QuietCores, first_quiet, idle_fraction
from jissoku.system.processes import core_times

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
