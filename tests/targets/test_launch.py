"""A target started for a workload: its address, and the verification of its responses."""

import random
from pathlib import Path

import pytest

from jissoku.errors import TargetError
from jissoku.model import Transport, Workload
from jissoku.system.cores import available_cores
from jissoku.targets.launch import Launcher, expected_response
from jissoku.targets.placeholders import BuildPaths
from jissoku.targets.response import TargetResponse
from tests.targets.conftest import script

# Counts its answers, so that each is another one.
CHANGES = """
import itertools
listener = listen()
for count in itertools.count():
    connection, _ = listener.accept()
    connection.recv(65536)
    body = b"%d" % count
    connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
    connection.close()
"""


def launcher(seed: int = 1) -> Launcher:
    return Launcher(cores=available_cores()[:1], rng=random.Random(seed))


def test_a_target_that_keeps_its_answer_is_verified(place: BuildPaths, tmp_path: Path) -> None:
    with launcher().verified(script(place, tmp_path, "serve(listen())"), Workload()) as running:
        assert running.is_alive()
        pid = running.pid
    assert pid is not None
    assert not Path(f"/proc/{pid}").exists()


def test_an_answer_that_changes_is_refused(place: BuildPaths, tmp_path: Path) -> None:
    prepared = script(place, tmp_path, CHANGES)
    with launcher().ready(prepared, Workload()) as running:
        assert running.is_alive(), "it answers, which is all that is asked of it here"
    with (
        pytest.raises(TargetError, match=r"its first answer"),
        launcher().verified(prepared, Workload()),
    ):
        pytest.fail("its second answer is not its first")


def test_a_promised_port_is_not_drawn(place: BuildPaths, tmp_path: Path) -> None:
    prepared = script(place, tmp_path, "serve(listen())")
    with launcher().start(prepared, Workload()) as first:
        promised = {first.address.port}
        with launcher().start(prepared, Workload(), promised) as second:
            assert second.address.port not in promised


def test_a_workload_over_unix_sockets_needs_a_target_that_has_them(
    place: BuildPaths, tmp_path: Path
) -> None:
    prepared = script(place, tmp_path, "serve(listen())")
    with pytest.raises(TargetError, match="cannot listen on a Unix socket"):
        launcher().start(prepared, Workload(transport=Transport.UNIX))


def test_of_a_command_the_first_answer_is_the_right_one(place: BuildPaths, tmp_path: Path) -> None:
    prepared = script(place, tmp_path, "serve(listen())")
    first = TargetResponse(status=200, reason="OK", fields=(), body=b"mine", keeps_alive=False)
    assert expected_response(prepared, Workload(), first).body == b"mine"
    missing = TargetResponse(status=404, reason="No", fields=(), body=b"", keeps_alive=False)
    with pytest.raises(TargetError, match="choose a path that exists"):
        expected_response(prepared, Workload(), missing)
