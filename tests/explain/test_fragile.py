"""A server of the user that does not survive a request that only the lab sends."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

SERVER = """
import http.server, os, sys

class Fragile(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path.startswith("/delay?ms=20"):
            os._exit(3)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Fragile).serve_forever()
"""


@pytest.mark.slow
def test_what_was_observed_before_is_kept(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    command = shlex.join([sys.executable, str(tmp_path / "server.py")])
    words = ["--cmd", f"mine={command} {{port}}", "--probe", "timers", "--json", "--seed", "73"]
    done = subprocess.run(
        [sys.executable, "-m", "jissoku", "explain", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    # Nothing else was to be observed, so that nothing is known.
    assert done.returncode == 4, done.stderr
    failures = json.loads(done.stdout)["observations"]["failures"]
    assert [one["probe"] for one in failures] == ["the cost of its timers"]


@pytest.mark.slow
def test_no_observation_begins_after_the_time(tmp_path: Path) -> None:
    command = f"{sys.executable} -m http.server --bind 127.0.0.1 {{port}}"
    words = ["--cmd", f"mine={command}", "--probe", "wire", "--probe", "load", "--for", "100ms"]
    done = subprocess.run(
        [sys.executable, "-m", "jissoku", "explain", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    lost = "Not observed: load; the time was over before. To see it: a longer --for."
    assert lost in " ".join(done.stdout.split()), done.stderr
