"""A whole sweep through the command line. It asserts shape, never speed."""

import json
from pathlib import Path

import pytest

from tests.conftest import jissoku

pytestmark = pytest.mark.race

REPORTS = ("report.html", "report.json", "report.txt")


def test_a_sweep_is_measured_reported_and_rebuilt_byte_for_byte(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = jissoku(
        "sweep", "http-server", "--over", "connections", "--levels", "1-6", "--blocks", "3",
        "--at", "8", "--out", str(folder), "--json",
    )  # fmt: skip
    assert done.returncode in {0, 4}, done.stderr
    summary = json.loads(done.stdout)
    (target,) = summary["targets"]
    assert [result["level"] for result in target["results"]] == [1, 2, 3, 4, 5, 6]
    # On a machine that others use, trials are disturbed, and a level may have no figure at all.
    assert all(result["blocks"] == 0 or result["percentiles"] for result in target["results"])
    assert summary["trials_total"] >= 18
    assert (target["model"] is None) == bool(target["reason"])
    before = {name: (folder / name).read_bytes() for name in REPORTS}
    for name in REPORTS:
        (folder / name).unlink()
    assert jissoku("report", str(folder)).returncode == done.returncode
    assert {name: (folder / name).read_bytes() for name in REPORTS} == before
    for name in ("run.json", "sweep.json", "trials.jsonl", *REPORTS):
        assert str(tmp_path) not in (folder / name).read_text(), name
