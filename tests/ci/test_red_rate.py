"""How often a pull request is red: never without a change, and nearly always with 2 % more work.

    python -m pytest -m endurance tests/ci/test_red_rate.py --pull-requests 50

Each is a real run of the documented command against `cost(head) > 1.01 x cost(base)`, confirmed by
a second one before it is red. A line is printed for each, so that a long campaign can be read while
it lasts.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ci.server_repository import COMMAND, LIMIT_S, run, server_repository, set_work
from tests.endurance.conftest import print_line

BOUND = "cost(head) > 1.01 x cost(base)"
INJECTED = 0.02

# A medium load. At 5,000/s the server's core sleeps after nearly every request, and the ratio of
# two copies varies by twice as much from window to window.
RATE = "20000"

RED, GREEN, UNDECIDED = 3, 0, 4
COLOURS = {RED: "red", GREEN: "green", UNDECIDED: "undecided"}

# With fewer, one that is not red is no evidence against 95 %.
DECIDING_MIN = 20

pytestmark = [pytest.mark.endurance, pytest.mark.timeout(200 * LIMIT_S)]


@pytest.fixture
def count(request: pytest.FixtureRequest) -> int:
    asked = request.config.getoption("--pull-requests")
    assert isinstance(asked, int)
    return asked


def codes(folder: Path, count: int, request: pytest.FixtureRequest) -> Iterator[int]:
    """The exit code of each run."""
    for seed in range(count):
        started = time.monotonic()
        done = run(
            folder, "compare", "--cmd", f"head={COMMAND}", "--baseline", "HEAD", "-R", RATE,
            "--fail-if", BOUND, "--confirm", "--seed", str(1000 * seed), "--out", f"{seed}",
        )  # fmt: skip
        assert done.returncode in COLOURS, done.stderr
        (sentence,) = (line for line in done.stderr.splitlines() if "fail if" in line)
        seconds = time.monotonic() - started
        print_line(request, f"{seed + 1} of {count}: {COLOURS[done.returncode]}, {seconds:.0f} s;"
                   f" {sentence.partition('fail if ')[2]}")  # fmt: skip
        yield done.returncode


def test_without_a_change_nothing_is_red(
    count: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = server_repository(tmp_path / "equal", [0])
    found = Counter(codes(folder, count, request))
    print_line(
        request, f"base against itself: {found[RED]} of {count} red, {found[UNDECIDED]} open"
    )
    assert found[RED] == 0
    assert found[GREEN] > found[UNDECIDED]


def test_two_per_cent_more_work_is_red(
    count: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = server_repository(tmp_path / "more", [0])
    set_work(folder, round(INJECTED * cost_ns(folder)))
    found = Counter(codes(folder, count, request))
    print_line(request, f"2 % injected: {found[RED]} of {count} red, {found[UNDECIDED]} open")
    assert found[GREEN] == 0
    missed = count // DECIDING_MIN if count >= DECIDING_MIN else 1
    assert found[RED] >= count - missed


def cost_ns(folder: Path) -> float:
    """What a request costs at this rate, of which the injected work is a part."""
    done = run(
        folder, "compare", "--cmd", f"head={COMMAND}", "--baseline", "HEAD", "-R", RATE,
        "--out", "cost", "--json",
    )  # fmt: skip
    assert done.returncode in {GREEN, UNDECIDED}, done.stderr
    summary = json.loads((folder / "cost" / "report.json").read_text())
    (found,) = (one for one in summary["arm_summaries"] if one["arm"]["name"] == "base")
    return float(found["points"][-1]["cost_ns"]["value"])
