"""Complete runs: a scripted client and scripted servers around proxies."""

import json
import shutil
from pathlib import Path

import pytest

from tests import relay_proxy
from tests.conftest import Run

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def recipes(tmp_path: Path) -> Path:
    return relay_proxy.write_recipe(tmp_path / "recipes")


@pytest.mark.slow
def test_a_relay_of_bytes_is_judged_by_what_it_does(
    run: Run, tmp_path: Path, recipes: Path
) -> None:
    names = (
        "a_request_goes_through",
        "connection_fields_are_removed",
        "a_chunked_body_goes_through",
        "103_*",
    )
    chosen = [word for name in names for word in ("--case", name)]
    done = run(
        ["conformance", "--through", "relay", "--recipes", str(recipes), "--json", *chosen],
        tmp_path,
    )
    assert done.returncode == 3, done.stdout + done.stderr
    found = {case["name"]: case for case in json.loads(done.stdout)["cases"]}
    assert found["connection_fields_are_removed"]["reason"] == "forwards X-Hop: 1"
    assert {name for name, case in found.items() if case["verdict"] == "pass"} == {
        "a_request_goes_through",
        "a_chunked_body_goes_through",
        "103_is_forwarded_at_once",
    }


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("haproxy", path="/usr/sbin:/usr/bin") is None, reason="no haproxy")
@pytest.mark.parametrize("how", ["", "--splits", "--bytes"])
def test_divided_messages_change_nothing(run: Run, tmp_path: Path, how: str) -> None:
    chosen = ("--case", "a_chunked_*_goes_through", "--case", "pipelined_*", "--case", "103_*")
    words = ["conformance", "--through", "haproxy-gateway", "--json", *chosen]
    done = run([*words, *([how] if how else [])], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {case["verdict"] for case in json.loads(done.stdout)["cases"]} == {"pass"}
    assert {case["upstream"] for case in json.loads(done.stdout)["cases"]} == {"tcp", "unix"}


def test_a_target_that_forwards_nothing_is_refused(run: Run, tmp_path: Path) -> None:
    done = run(["conformance", "--through", "http-server"], tmp_path)
    assert done.returncode == 2
    assert "http-server is no reverse proxy: its recipe has no [forward]" in done.stderr


def test_through_names_the_only_target(run: Run, tmp_path: Path) -> None:
    done = run(["conformance", "nginx", "--through", "nginx-gateway"], tmp_path)
    assert done.returncode == 2
    assert "--through names the target" in done.stderr
