"""What is asked of another host, what of it is recorded, and what the report and history say."""

from typing import Any

import pytest

from jissoku.errors import InputError, TargetError
from jissoku.inference.run_rows import _run_row
from jissoku.measure.comparison import check_request
from jissoku.measure.selection import check_server_host, recorded
from jissoku.model.run import LoadHost, NetworkPath
from jissoku.model.updated import updated
from jissoku.report import method
from jissoku.request import (
    ComparisonRequest,
    ProfileRequest,
    SweepRequest,
)
from jissoku.request.options import is_complete
from jissoku.targets.process import _at_host
from tests.inference import factories


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({"baseline": "main"}, "--baseline"),
        ({"unix": True}, "--unix"),
    ],
)
def test_what_needs_this_machine_is_refused(asked: dict[str, Any], word: str) -> None:
    request = ComparisonRequest(arms=("nginx",), server_host="srv:7470", **asked)
    with pytest.raises(InputError, match=f"--server-host and {word} exclude each other: .*; .*"):
        check_request(request)


def test_a_sweep_over_a_unix_socket_of_another_host_is_refused() -> None:
    request = SweepRequest(arms=("nginx",), server_host="srv:7470", unix=True)
    with pytest.raises(InputError, match=r"--server-host and --unix exclude each other: .*; .*"):
        check_server_host(request)


def test_a_profile_on_another_host_ends_before_the_agent_gives_up() -> None:
    check_server_host(ProfileRequest(arms=("go",), server_host="srv:7470", duration=600.0))
    with pytest.raises(InputError, match="a longer -d than 10m exclude each other"):
        check_server_host(ProfileRequest(arms=("go",), server_host="srv:7470", duration=601.0))


def test_keys_without_a_host_are_refused() -> None:
    with pytest.raises(InputError, match="--server-keys goes with --server-host"):
        check_request(ComparisonRequest(arms=("nginx",), server_keys="keys"))
    check_request(ComparisonRequest(arms=("nginx",), server_host="srv:7470", server_keys="keys"))


def test_load_hosts_without_a_host_of_targets_are_refused() -> None:
    with pytest.raises(InputError, match="--load-host goes with --server-host"):
        check_request(ComparisonRequest(arms=("nginx",), load_host=("l1:7470",)))
    asked = ComparisonRequest(arms=("nginx",), server_host="srv:7470", load_host=("l1:7470",))
    check_request(asked)
    with pytest.raises(InputError, match=r"--load-host and --profile exclude each other: .*; .*"):
        check_request(updated(asked, profile=True))
    several = updated(asked, load_host=("l1:7470", "l2:7470"))
    with pytest.raises(InputError, match="2 load hosts need as many connections: give -c 2"):
        check_request(updated(several, connections=1))
    with pytest.raises(InputError, match="l1:7470 is given twice"):
        check_request(updated(asked, load_host=("l1:7470", "l1:7470")))


def test_a_record_has_the_number_of_load_hosts_and_not_their_names() -> None:
    hosts = ("10.1.2.4:7470", "10.1.2.5:7470")
    request = ComparisonRequest(arms=("nginx",), server_host="10.1.2.3:7470", load_host=hosts)
    assert recorded(request).load_host == ("HOST", "HOST")
    assert not is_complete(recorded(request))


def test_runs_with_other_numbers_of_load_hosts_are_of_other_classes() -> None:
    run = factories.sliced(["a", "b"])
    load = LoadHost(machine=run.machine, path=NetworkPath.WIRE, round_trip_ns=150_000)
    runs = [updated(run, load_host=updated(load, hosts=hosts)) for hosts in (0, 1, 2)]
    rows = [_run_row("key", one, (), None) for one in runs]
    assert len({row.machine for row in rows}) == 3
    assert rows[1].machine_text.endswith("load from 1 load host (wire)")
    assert rows[2].machine_text.endswith("load from 2 load hosts (wire)")
    assert "2 load hosts, the first with" in dict(method.machine(runs[2]))["Load from"]


def test_a_record_names_no_other_host() -> None:
    request = ComparisonRequest(
        arms=("nginx",), server_host="10.1.2.3:7470", server_keys="/usr/share/keys"
    )
    kept = recorded(request)
    assert (kept.server_host, kept.server_keys) == ("HOST", "…/keys")
    assert not is_complete(kept)


def test_reports_and_history_know_where_the_load_came_from() -> None:
    run = factories.sliced(["a", "b"])
    assert "Load from" not in dict(method.machine(run))
    load = LoadHost(machine=run.machine, path=NetworkPath.WIRE, round_trip_ns=150_000)
    remote = updated(run, load_host=load)
    said = dict(method.machine(remote))["Load from"]
    assert "over a network; shortest round trip 150" in said
    here, there = (_run_row("key", one, (), None) for one in (run, remote))
    assert here.machine != there.machine
    assert there.machine_text.endswith("load from another host (wire)")


def test_a_target_listens_on_another_address_if_its_recipe_says_where() -> None:
    assert _at_host("a", ("127.0.0.1:{port}",), "10.1.2.3") == ("10.1.2.3:{port}",)
    assert _at_host("a", ("{port}",), "127.0.0.1") == ("{port}",)
    assert _at_host("a", ("--bind", "127.0.0.1:{port}"), "::1") == ("--bind", "[::1]:{port}")
    assert _at_host("a", ("--host", "127.0.0.1"), "::1") == ("--host", "::1")
    with pytest.raises(TargetError, match=r"a listens on 127\.0\.0\.1 only"):
        _at_host("a", ("{port}",), "10.1.2.3")
