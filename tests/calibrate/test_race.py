"""The command, with our own load generator: shape and counts, never times."""

import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from jissoku.records.files import read_cards

pytestmark = pytest.mark.race


def command(out: Path, checks: str) -> list[str]:
    words = ["jissoku", "--checks", checks, "--out", str(out)]
    return [sys.executable, "-m", "jissoku", "calibrate", *words]


def test_our_own_generator_counts_right(tmp_path: Path) -> None:
    words = [*command(tmp_path, "C3,C4,C21,C22"), "--json"]
    text = subprocess.run(words, capture_output=True, text=True, timeout=250, check=False)
    card = msgspec.json.decode(text.stdout)
    grades = {score["check"]: score["grade"] for score in card["scores"]}
    assert grades.keys() == {"C3", "C4", "C21", "C22"}
    # A deviation explained by a busy machine is void; an unexplained one is an F.
    assert "A" in grades.values()
    assert set(grades.values()) <= {"A", "void"}
    assert text.returncode == (4 if "void" in grades.values() else 0)
    assert (tmp_path / "scorecard.html").stat().st_size > 10_000


def test_an_interruption_keeps_what_is_finished(tmp_path: Path) -> None:
    with subprocess.Popen(
        command(tmp_path, "C3,C13"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("C13"):  # It begins, so C3 has ended and is on disk.
                process.send_signal(signal.SIGINT)
                break
        process.communicate(timeout=60)
    assert process.returncode == 130
    [card] = read_cards(tmp_path)
    assert [score.check for score in card.scores] == ["C3"]
    assert not card.is_finished
