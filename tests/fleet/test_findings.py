"""What `fleet doctor` says of machines and of paths."""

import socket
from pathlib import Path

import pytest

from jissoku.fleet.fleet_file import Fleet, Host
from jissoku.fleet.hosts import findings
from jissoku.fleet.load_wire import Echo
from jissoku.fleet.over_ssh import Examined
from jissoku.fleet.path import PROBES, PathSeen, probe
from jissoku.measure.machine import HealthCheck, State

NAMES = ("a", "b", "c")
HOSTS = tuple(Host(name=name, address=f"10.0.0.{name}:7470") for name in NAMES)
FLEET = Fleet(Path("fleet.toml"), HOSTS, (), ("ssh",), Path("fleet.keys"))


def said(**found: Examined) -> list[tuple[str, State, str, str]]:
    rows = findings(FLEET, {}, found).items()
    return [
        (" ".join(names), one.state, one.name, f"{one.observed}; {one.advice}")
        for one, names in rows
    ]


def test_paths_are_those_between_all_hosts() -> None:
    paths = {
        HOSTS[1].address: PathSeen(floor_ns=210_000, lost=0),
        HOSTS[2].address: PathSeen(floor_ns=None, lost=PROBES, failure="No route to host"),
    }
    start = "start what listens: `jissoku fleet up`"
    assert said(a=Examined(checks=(), paths=paths, boot="1")) == [
        (
            *("a", State.BAD, "path to c"),
            f"No route to host; let it connect to 10.0.0.c:7470, and {start}",
        ),
        ("a", State.FINE, "shortest round trips", "to b 210 us; "),
    ]


def test_a_path_that_loses_packets_is_a_warning() -> None:
    paths = {HOSTS[0].address: PathSeen(floor_ns=1_000_000, lost=3)}
    first, second = said(b=Examined(checks=(), paths=paths, boot="1"))
    assert first[:3] == ("b", State.WARN, "path to a")
    assert first[3].startswith("3 of 20 handshakes were not answered within a second; ")
    assert second[3] == "to a 1 ms; "


def test_what_is_found_on_several_hosts_is_said_once_and_hosts_of_one_machine_are_named() -> None:
    check = HealthCheck("turbo", State.WARN, "on", "turn it off")
    found = said(
        c=Examined(checks=(), paths={}, boot="1"),
        a=Examined(checks=(check,), paths={}, boot="1"),
        b=Examined(checks=(check,), paths={}, boot="2"),
    )
    assert [row[:3] for row in found] == [
        ("a b", State.WARN, "turbo"),
        ("a c", State.WARN, "machine"),
    ]
    assert found[1][3].startswith("one has a, c; ")
    unknown = Examined(checks=(), paths={}, boot="")
    assert said(a=unknown, b=unknown) == [], "a kernel without boot identifiers"


def test_a_path_is_tried_by_handshakes() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        echo = Echo(host="127.0.0.1", port=listener.getsockname()[1])
        seen = probe(echo)
    assert seen.floor_ns is not None
    assert (seen.lost, seen.failure) == (0, "")
    assert probe(echo) == PathSeen(floor_ns=None, lost=PROBES, failure="Connection refused")


def test_handshakes_that_are_not_answered_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([250_000, None, 200_000, *[300_000] * (PROBES - 3)])
    monkeypatch.setattr("jissoku.fleet.path.round_trip_ns", lambda _: next(answers))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        seen = probe(Echo(host="127.0.0.1", port=listener.getsockname()[1]))
    assert seen == PathSeen(floor_ns=200_000, lost=1)
