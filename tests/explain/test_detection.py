"""Detection rate of injected causes, and rate of false findings.

`make detection` prints the table. `--detections N` is the number of injections of each cause; the
server without any is explained twice as often. Causes that do not hide each other are injected
together, so that a run of a quarter of a minute counts for several.
"""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.endurance.conftest import print_line
from tests.explain.explained import GROUPS, INJECTED, LIMIT_S, causes, expected

# Limits: one of ten injected causes may be missed, and one of twenty clean servers misdiagnosed.
MISSED_MAX = 1 / 10
WRONGED_MAX = 1 / 20

CLEAN_PER_INJECTED = 2
DRIVERS = ("epoll", "uring")

pytestmark = [
    pytest.mark.endurance,
    pytest.mark.timeout(100 * LIMIT_S),
    pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace"),
]


@pytest.fixture
def runs(request: pytest.FixtureRequest) -> int:
    asked = request.config.getoption("--detections")
    assert isinstance(asked, int)
    return asked


def on(driver: str, group: tuple[str, ...]) -> tuple[str, ...]:
    """The causes of a group that are some on a driver."""
    return tuple(plant for plant in group if driver in INJECTED[plant]["drivers"])


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("group", GROUPS, ids=" ".join)
def test_injected_causes_are_named(
    group: tuple[str, ...],
    driver: str,
    runs: int,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    group = on(driver, group)
    options = ["--driver", driver, *(word for plant in group for word in ("--cause", plant))]
    found = [causes(tmp_path, *options, seed=seed) for seed in range(runs)]
    names, beside = expected(group)
    others = Counter(other for seen in found for other in seen - names - beside)
    named = {name: sum(name in seen for seen in found) for name in sorted(names)}
    for name, count in named.items():
        print_line(request, f"{name} on {driver}: named in {count} of {runs} runs")
    print_line(request, f"beside {' '.join(group)} on {driver}: {_counts(others)}")
    assert all(runs - count <= MISSED_MAX * runs for count in named.values())
    assert others.total() <= MISSED_MAX * runs


@pytest.mark.parametrize("driver", DRIVERS)
def test_nothing_is_named_in_a_clean_server(
    driver: str, runs: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    count = CLEAN_PER_INJECTED * runs
    found = [causes(tmp_path, "--driver", driver, seed=seed) for seed in range(count)]
    wronged = sum(bool(names) for names in found)
    others = Counter(name for names in found for name in names)
    print_line(
        request, f"clean on {driver}: a cause in {wronged} of {count} runs: {_counts(others)}"
    )
    assert wronged <= WRONGED_MAX * count


def _counts(names: Counter[str]) -> str:
    return ", ".join(f"{name} {count} times" for name, count in names.items()) or "nothing"
