"""Detection rate of injected causes, and rate of false findings.

`make detection` prints the table. `--detections N` is the number of injections of each cause; the
server without any is explained twice as often.
"""

import shutil
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.endurance.conftest import print_line
from tests.explain.explained import LIMIT_S, causes

# Limits: one of ten injected causes may be missed, and one of twenty clean servers misdiagnosed.
MISSED_MAX = 1 / 10
WRONGED_MAX = 1 / 20

CLEAN_PER_INJECTED = 2
DRIVERS = ("epoll", "uring")


@dataclass(frozen=True, slots=True)
class Injected:
    """A cause in our own server, and the expected name of the finding."""

    plant: str
    name: str
    beside: frozenset[str]
    driver: str

    def __str__(self) -> str:
        return f"{self.plant} on {self.driver}"


INJECTED = [
    Injected(cause["plant"], cause["name"], frozenset(cause.get("beside", ())), driver)
    for cause in tomllib.loads(Path(__file__).with_name("detection.toml").read_text())["cause"]
    for driver in cause["drivers"]
]

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


@pytest.mark.parametrize("injected", INJECTED, ids=str)
def test_an_injected_cause_is_named(
    injected: Injected, runs: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    warnings = ("--driver", injected.driver, "--cause", injected.plant)
    found = [causes(tmp_path, *warnings, seed=seed) for seed in range(runs)]
    named = sum(injected.name in names for names in found)
    others = Counter(
        other for names in found for other in names - {injected.name} - injected.beside
    )
    count = f"{injected.name} in {named} of {runs} runs"
    print_line(request, f"{injected}: {count}; beside it {_counts(others)}")
    assert runs - named <= MISSED_MAX * runs
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
