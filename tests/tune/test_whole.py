"""Whole tunings of nginx, through the command line: what ends them, and what they then say."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jissoku.system.measurement_lock import PATH_VARIABLE
from tests.tune.site import write_site

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]

CONFIGURATION = """worker_processes 1;
events {{}}
http {{
    access_log off;
    {setting}
    server {{ listen 80; root {folder}/www; }}
}}
"""


def command(folder: Path, setting: str, *words: str) -> list[str]:
    path = write_site(folder, CONFIGURATION, setting=setting)
    asked = ["tune", "nginx", "--config", str(path), "--path", "/a.txt", *words]
    return [sys.executable, "-m", "jissoku", *asked, "--out", str(folder / "out")]


def environment(folder: Path) -> dict[str, str]:
    """A lock of its own: what is asserted does not depend on what else is measured here."""
    return {**os.environ, PATH_VARIABLE: str(folder / "lock")}


def run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=280, env=environment(folder)
    )


def test_a_gain_of_many_times_is_proven_at_a_load_that_both_reach(tmp_path: Path) -> None:
    words = command(tmp_path, "keepalive_requests 1;", "--knobs", "keepalive_requests", "--json")
    done = run(words, tmp_path)
    assert done.returncode in {0, 4}, done.stderr
    found = json.loads(done.stdout)
    (result,) = found["results"]
    assert result["alone"]["ratio"]["value"] < 0.9
    if found["proven"]:
        assert (found["kept"], found["confirm"]) == (["keepalive_requests"], "")
    else:  # With other programs on the cores the interval may be too wide.
        assert "--knobs keepalive_requests" in found["confirm"]
    assert (result["before"], result["after"]) == (1.0, pytest.approx(0.01))


def test_a_configuration_that_does_not_start_ends_with_its_reason(tmp_path: Path) -> None:
    words = command(tmp_path, "no_such_directive on;")
    done = run(words, tmp_path)
    assert done.returncode == 1
    assert 'unknown directive "no_such_directive"' in done.stderr


@pytest.mark.parametrize("until", ["Counting what", "Each alone", "Loads: "])
def test_an_interrupted_tuning_concludes_nothing_that_it_did_not_measure(
    tmp_path: Path, until: str
) -> None:
    words = command(tmp_path, "keepalive_requests 1;", "--knobs", "keepalive_requests,sendfile")
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(tmp_path)
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if until in line:
                process.send_signal(signal.SIGINT)
                break
        text, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    last = text.rstrip("\n").rpartition("\n\n")[2]
    assert "was interrupted; what it measured until then stands." in last
    assert "Proven" not in text
    assert "does not pay" not in text
    assert re.search(r"jissoku tune nginx .*--knobs '?keepalive_requests", last)
