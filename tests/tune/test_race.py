"""A whole tuning, through the command line. It asserts shape, never speed."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tune.site import write_site

pytestmark = [
    pytest.mark.race,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]

CONFIGURATION = """worker_processes 1;
events {{}}
http {{
    access_log {folder}/access.log;
    keepalive_requests 10;
    server {{ listen 80; root {folder}/www; }}
}}
"""


def test_a_configuration_of_somebodys_own_is_tuned(tmp_path: Path) -> None:
    path = write_site(tmp_path, CONFIGURATION)
    before = path.read_bytes()
    words = ["--config", str(path), "--path", "/a.txt", "--knobs", "open_file_cache"]
    words += ["-c", "4", "-R", "400", "--json", "--out", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-m", "jissoku", "tune", "nginx", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode in {0, 4}, done.stderr
    found = json.loads(done.stdout)
    (result,) = found["results"]
    assert result["knob"]["name"] == "open_file_cache"
    if shutil.which("strace"):
        assert result["before"] >= 0.9
        assert result["after"] <= 0.1
    assert found["proven"] is (found["diff"] != "")
    assert (tmp_path / "out" / "tuning.txt").read_text()
    assert path.read_bytes() == before
    assert not (tmp_path / "access.log").exists(), "its own log is not written to"
