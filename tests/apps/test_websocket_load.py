"""The load generator sends messages over WebSockets and verifies that each comes back."""

import itertools
import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jissoku.errors import TargetError
from jissoku.measure.loadgen import LoadSpec, TrialTiming, run_load
from jissoku.model import CoreAssignment, UnavailableTarget, Workload
from jissoku.model.updated import updated
from jissoku.system.address import Address
from jissoku.system.cores import available_cores
from jissoku.targets import catalogue, launch, response
from jissoku.targets.launch import Launcher
from tests.apps.conftest import APPS, port_of, serve
from tests.conftest import Run
from tests.targets.conftest import place, prepared_or_skipped

sync_server = pytest.importorskip("websockets.sync.server")

__all__ = ["place"]  # a fixture

WORKLOAD = Workload(path="/echo", websocket=True)


@contextmanager
def answering(reply: Any) -> Iterator[Address]:
    """A server of the package `websockets`; `reply` handles one message of a connection."""

    def handle(connection: Any) -> None:
        for message in connection:
            reply(connection, message)

    with sync_server.serve(handle, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Address(port=server.socket.getsockname()[1])
        finally:
            server.shutdown()
            thread.join()


def load(run: Run, folder: Path, address: Address, *options: str) -> dict[str, Any]:
    """The target's part of the report of 40 messages on 2 connections."""
    words = ["load", *(options or ["--websocket"]), "-c", "2", "-n", "40", "--json"]
    done = run([*words, address.url("/echo")], folder)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)["targets"][0]
    return report


def errors(report: dict[str, Any]) -> dict[str, int]:
    return {kind: count for kind, count in report["errors"].items() if count}


def require_echo(address: Address) -> None:
    given = response.send_request(address, WORKLOAD)
    response.check_response(given, response.expect_echo(WORKLOAD))


def echo(connection: Any, message: Any) -> None:
    connection.send(message)


@pytest.mark.slow
def test_our_own_server_sends_every_message_back(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILES", str(tmp_path))
    served = serve("asgi_app:app")
    try:
        address = Address(port=port_of(served))
        first = response.send_request(address, WORKLOAD)
        assert (first.status, first.body) == (101, WORKLOAD.message)
        for options in (
            ["--websocket=text"],
            ["--websocket=binary", "-b", "x" * 70_000],
            ["--websocket", "-R", "1000"],
            ["--websocket", "-r", "4"],
        ):
            report = load(run, tmp_path, address, *options)
            assert (report["requests"], errors(report)) == (40, {}), options
    finally:
        served.end()


def test_the_package_websockets_sends_every_message_back(run: Run, tmp_path: Path) -> None:
    with answering(echo) as address:
        require_echo(address)
        report = load(run, tmp_path, address)
        assert (report["requests"], errors(report)) == (40, {})
        assert report["connections_opened"] == 2
        assert report["handshake_ns"]["p50"] > 0


@pytest.mark.parametrize("body", [b"", b"text", b"\xff\xfe"])
def test_a_trial_of_the_lab_sends_messages(body: bytes) -> None:
    core = available_cores()[:1]
    with answering(echo) as address:
        workload = updated(WORKLOAD, body=body, connections=2, rate_rps=200)
        spec = LoadSpec(
            arms=("echo",),
            urls=(address.url(workload.path),),
            roots=(None,),
            body=workload.message,
            status=response.send_request(address, workload).status,
            workload=workload,
            timing=TrialTiming(0, 30_000_000_000),
            seed=1,
            requests=40,
        )
        cores = CoreAssignment(server=core, generator=core, shared=True)
        (measurement,), _ = run_load(spec, cores, lambda _: None)
    assert measurement.requests == 40
    assert not any(measurement.errors.values())


# The preparation of all but the first installs packages.
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "uvicorn",
        *(
            pytest.param(name, marks=[pytest.mark.race, pytest.mark.timeout(600)])
            for name in ("uvicorn-asgi-pages", "granian-asgi-pages", "gunicorn-asgi")
        ),
    ],
)
def test_each_server_of_the_experiment_sends_every_message_back(
    name: str, run: Run, tmp_path: Path, place: Any
) -> None:
    prepared = prepared_or_skipped(catalogue.recipes()[name], place)
    if isinstance(prepared, UnavailableTarget):
        pytest.skip(f"{prepared.name} is not available here: {prepared.reason}")
    launcher = Launcher(cores=(0,), rng=random.Random(1))
    with launcher.verified(prepared, WORKLOAD) as running:
        report = load(run, tmp_path, running.address)
        assert (report["requests"], errors(report)) == (40, {})


def test_fragments_are_joined(run: Run, tmp_path: Path) -> None:
    def fragmented(connection: Any, message: str) -> None:
        connection.send([message[:5], "", message[5:]])

    with answering(fragmented) as address:
        assert response.send_request(address, WORKLOAD).body == WORKLOAD.message
        report = load(run, tmp_path, address)
        assert (report["requests"], errors(report)) == (40, {})


WRONG: dict[str, tuple[Any, str, str]] = {
    "other bytes": (lambda c, m: c.send(m[::-1]), "body", "wrong bytes"),
    "fewer bytes": (lambda c, m: c.send(m[1:]), "length", "wrong bytes"),
    "another type": (lambda c, m: c.send(m.encode()), "body", "a message of type 2"),
    "a close": (lambda c, _: c.close(1011), "closed", "closes the WebSocket with code 1011"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_echo_is_an_error(run: Run, tmp_path: Path, wrong: str) -> None:
    reply, kind, said = WRONG[wrong]
    numbers = itertools.count()

    def sometimes(connection: Any, message: Any) -> None:
        (echo if next(numbers) % 2 else reply)(connection, message)

    with answering(sometimes) as address:
        with pytest.raises(TargetError, match=said):
            require_echo(address)
        report = load(run, tmp_path, address)
        assert (report["requests"], errors(report)) == (20, {kind: 20})


@pytest.mark.slow
def test_a_refused_handshake_is_said(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILES", str(APPS))
    served = serve("wsgi_app:app")
    try:
        address = Address(port=port_of(served))
        assert not response.send_request(address, WORKLOAD).is_success
        done = run(["load", "--websocket", "-n", "1", "-c", "1", address.url("/echo")], tmp_path)
        assert done.returncode != 0
        assert "the WebSocket handshake was refused with status" in done.stderr
    finally:
        served.end()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--no-keepalive"], "--websocket and --no-keepalive exclude each other"),
        (["-p", "2"], "--websocket and --pipeline exclude each other"),
        (["-m", "POST"], "--method"),
        (["-H", "Upgrade: h2c"], "Upgrade is set by the WebSocket handshake"),
    ],
)
def test_what_excludes_websockets_is_refused(
    run: Run, tmp_path: Path, options: list[str], said: str
) -> None:
    done = run(["load", "--websocket", *options, "http://127.0.0.1:1/"], tmp_path)
    assert done.returncode == 2
    assert said in done.stderr


def test_the_expected_answer_is_the_message() -> None:
    workload = Workload(websocket=True, body=b"\xff")
    prepared: Any = None  # not looked at
    first: Any = None
    expected = launch.expected_response(prepared, workload, first)
    assert (expected.status, expected.body) == (101, b"\xff")
