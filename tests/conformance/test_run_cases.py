"""Complete runs over sockets, with our server and with small ones that violate the standard."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.conftest import Done, Run

# Each starts an interpreter or two, and a machine may be busy.
pytestmark = pytest.mark.timeout(240)

OURS = f"{shlex.quote(sys.executable)} -m jissoku lab serve --listen 127.0.0.1:{{port}} --workers 1"

# Answers each head it finds; `sys.argv[2]` selects its fault.
ERRING = """
import os, socket, sys
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen(64)
fault = sys.argv[2]
while True:
    connection, _ = listener.accept()
    data = b""
    while b"\\r\\n\\r\\n" not in data and (more := connection.recv(65536)):
        data += more
    if fault == "dies" and b"Host: a" in data:
        os._exit(7)
    if b"\\r\\n\\r\\n" in data:
        body = b"x" if fault == "garbles" and b"Host: a" in data else b""
        head = b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n"
        connection.sendall(head + body)
    connection.close()
"""


def erring(run: Run, folder: Path, fault: str, *arguments: str) -> Done:
    path = folder / "target.py"
    path.write_text(ERRING)
    command = f"mine={shlex.quote(sys.executable)} {shlex.quote(str(path))} {{port}} {fault}"
    return run(["conformance", "--cmd", command, *arguments], folder)


@pytest.mark.parametrize("site", ["--contract", "--fixed hi", "--echo"])
def test_our_server_holds_to_every_case(site: str, run: Run, tmp_path: Path) -> None:
    done = run(["conformance", "--cmd", f"ours={OURS} {site}", "--json"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    others = [case for case in report["cases"] if case["verdict"] != "pass"]
    assert others == []
    assert report["totals"]["pass"] == len(report["cases"]) > 140


@pytest.mark.slow
@pytest.mark.parametrize("how", ["--splits", "--bytes"])
def test_cuts_on_the_way_change_nothing(how: str, run: Run, tmp_path: Path) -> None:
    arguments = ("--case", "chunks_*", "--case", "*_empty_line*", "--case", "a_client_may_*")
    done = run(
        ["conformance", "--cmd", f"ours={OURS} --fixed hi", how, "--json", *arguments], tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["totals"]["MUST violated"] == 0


def test_a_server_that_takes_everything_breaks_a_must(run: Run, tmp_path: Path) -> None:
    done = erring(run, tmp_path, "none", "--case", "http_1_1_without_a_host_is_refused")
    assert done.returncode == 3
    assert "MUST violated: http_1_1_without_a_host_is_refused" in done.stdout
    assert "RFC 9112 section 3.2, MUST: answers 200 and ends the connection" in done.stdout


def test_a_server_that_sends_too_much_is_reported(run: Run, tmp_path: Path) -> None:
    done = erring(run, tmp_path, "garbles", "--case", "a_plain_get_is_understood")
    assert done.returncode == 3
    assert "malformed" in done.stdout


def test_a_server_that_dies_is_started_again_for_the_next_case(run: Run, tmp_path: Path) -> None:
    cases = ("a_plain_get_is_understood", "http_1_0_closes", "an_empty_body_is_a_body")
    globs = [word for case in cases for word in ("--case", case)]
    done = erring(run, tmp_path, "dies", "--json", *globs)
    assert done.returncode == 3, done.stdout + done.stderr
    found = {case["name"]: case for case in json.loads(done.stdout)["cases"]}
    assert found["http_1_0_closes"]["verdict"] == "pass"
    for name in ("a_plain_get_is_understood", "an_empty_body_is_a_body"):
        assert found[name]["verdict"] == "MUST violated"
        assert "exited with code 7" in found[name]["reason"]


def test_an_unreachable_server_is_reported(run: Run, tmp_path: Path) -> None:
    done = run(["conformance", "--url", "mine=http://127.0.0.1:1/"], tmp_path)
    assert done.returncode == 1
    assert "cannot be reached" in done.stderr
