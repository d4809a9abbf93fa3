"""The causes of a badly configured nginx, found and tested through the command line."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from jissoku.cli.explain import explain
from jissoku.design.sampling_plan import SAMPLING_PLANS, SECOND
from jissoku.errors import InputError
from jissoku.explain.causes import CAUSES
from jissoku.model import Mode
from jissoku.model.updated import updated
from jissoku.targets import catalogue
from tests.tune.site import write_site

SLOW = """worker_processes 1;
events {{
    accept_mutex on;
    accept_mutex_delay 500ms;
}}
http {{
    access_log off;
    sendfile on;
    tcp_nopush off;
    keepalive_requests 10;
    server {{ listen 8080; root {folder}/www; }}
}}
"""


@pytest.mark.race
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")
def test_a_slow_nginx_is_explained_and_its_remedies_are_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_site(tmp_path, SLOW)
    before = path.read_bytes()
    # Shape needs no precision: the fewest blocks that a verdict may rest on, and short windows.
    brief = updated(
        SAMPLING_PLANS[Mode.QUICK],
        blocks=6,
        blocks_max=6,
        closed_loop_blocks=1,
        fixed_rate_blocks=0,
        cross_check_blocks=0,
        warmup_requests=200,
        warmup_ns=SECOND // 10,
        window_ns=SECOND // 5,
    )
    monkeypatch.setitem(SAMPLING_PLANS, Mode.QUICK, brief)
    monkeypatch.setattr("jissoku.measure.trial.RERUNS_MAX", 0)
    words = ["nginx", "--config", str(path), "--path", "/a.txt", "--verify", "--json"]
    words += ["-c", "8", "-R", "400", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(explain, words, standalone_mode=False)
    assert done.return_value in {0, 4}, done.output
    found = json.loads(done.stdout)
    causes = {one["name"] for one in found["findings"]}
    assert {"open-per-request", "connection-closed"} <= causes
    tried = {one["knob"]["name"]: one for one in found["verification"]["results"]}
    assert {"open_file_cache", "keepalive_requests"} <= set(tried)
    assert tried["open_file_cache"]["before"] >= 0.9
    assert tried["open_file_cache"]["after"] <= 0.1
    assert tried["keepalive_requests"]["before"] >= 0.09
    assert tried["keepalive_requests"]["after"] <= 0.05
    assert "+    keepalive_requests 100000;" in found["changes"]
    assert found["verification"]["proven"] is (found["verification"]["diff"] != "")
    assert (tmp_path / "out" / "tuning.txt").read_text()
    assert path.read_bytes() == before


def test_without_knobs_there_is_nothing_to_verify() -> None:
    words = ["--cmd", "mine=sleep {port}", "--verify"]
    found = CliRunner().invoke(explain, words)
    assert isinstance(found.exception, InputError)
    assert "needs knobs to switch, and mine has none" in str(found.exception)


def test_every_knob_is_against_a_finding_that_there_is() -> None:
    for recipe in catalogue.recipes().values():
        for knob in recipe.knob:
            assert set(knob.for_findings) <= CAUSES.keys(), f"{recipe.name}, {knob.name}"
