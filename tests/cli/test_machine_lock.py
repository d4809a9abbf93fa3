"""Every measuring command takes the machine's lock and releases it."""

from pathlib import Path

import pytest

from jissoku.system.measurement_lock import lock_path, measurement_lock
from tests.conftest import Run

MEASURING = [
    ["compare", "floor"],
    ["run", "parsers"],
    ["tune", "jissoku"],
    ["sweep", "jissoku"],
    ["explain", "jissoku"],
    ["calibrate", "jissoku"],
    ["calibrate", "jissoku", "--cost", "jissoku"],
    ["self-test"],
]


@pytest.mark.parametrize("words", MEASURING, ids=" ".join)
def test_a_verb_that_measures_is_refused_while_another_does(
    run: Run, tmp_path: Path, words: list[str]
) -> None:
    with measurement_lock("sweep"):
        done = run(words, tmp_path)
    assert done.returncode == 2
    assert "another measurement runs on this machine: `jissoku sweep`, process" in done.stderr
    assert list(tmp_path.iterdir()) == [], "nothing was begun"


@pytest.mark.slow
@pytest.mark.parametrize("words", [["targets"], ["doctor"], ["calibrate"], ["run"]], ids=" ".join)
def test_a_verb_that_only_reads_needs_no_lock(run: Run, tmp_path: Path, words: list[str]) -> None:
    with measurement_lock("sweep"):
        assert run(words, tmp_path).returncode == 0


def test_the_lock_is_released_when_a_verb_ends_with_an_error(run: Run, tmp_path: Path) -> None:
    assert run(["compare", "floor", "--path", "no-slash"], tmp_path).returncode == 2
    assert lock_path().exists()
    with measurement_lock("compare"):
        pass
