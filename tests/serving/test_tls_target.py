"""A target that speaks TLS, whose certificate no authority signed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jissoku.model import Workload
from jissoku.system.address import Address
from jissoku.targets import response
from tests.serving.server_process import Start
from tests.serving.test_edge import make_papers, needs_openssl


def _port(start: Start, folder: Path) -> int:
    certificate, key = make_papers(folder, "own")
    tls = ["--tls-cert", str(certificate), "--tls-key", str(key)]
    served = start("--fixed", "Hello, World!", "--listen", "127.0.0.1:0", *tls)
    return int(served.wait_for(r"^listening on https://127\.0\.0\.1:([0-9]+)/$")[1])


@needs_openssl
def test_a_request_to_it_is_answered(tmp_path: Path, start: Start) -> None:
    address = Address(port=_port(start, tmp_path), is_tls=True)
    assert address.url("/x") == f"https://127.0.0.1:{address.port}/x"
    assert response.send_request(address, Workload()).body == b"Hello, World!"


@pytest.mark.slow
@needs_openssl
def test_it_is_profiled_under_load(tmp_path: Path, start: Start) -> None:
    url = f"own=https://127.0.0.1:{_port(start, tmp_path)}/"
    command = ["explain", "--url", url, "--probe", "load", "--no-keepalive", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "jissoku", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["observations"]["load"]["requests"] > 0
