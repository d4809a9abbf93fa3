"""The server behind a reverse proxy: started and stopped with it, and not measured."""

from dataclasses import replace
from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.model import Transport, Workload
from jissoku.system.processes import process_tree
from jissoku.targets import catalogue, launch, process
from jissoku.targets.placeholders import BuildPaths
from jissoku.targets.prepare import PreparedTarget, prepare
from tests import relay_proxy
from tests.targets.conftest import placed, script

pytestmark = pytest.mark.timeout(120)

# A server that listens later than one that is started after it.
LATE = "signal.sigtimedwait([signal.SIGUSR1], 0.5); listener = listen()"


@pytest.fixture
def relay(tmp_path: Path, place: BuildPaths) -> PreparedTarget:
    path = relay_proxy.write_recipe(tmp_path / "recipes") / "relay.toml"
    found = prepare(catalogue.read(path), place)
    assert isinstance(found, PreparedTarget)
    return found


def test_it_serves_and_is_not_counted(relay: PreparedTarget) -> None:
    with process.start(relay, placed()) as running:
        answer = launch.wait_until_ready(running, Workload())
        assert answer.body == b"Hello, World!"
        behind = running.behind
        assert behind is not None
        assert behind.name == "http-server"
        assert running.pid is not None
        assert behind.pid not in process_tree(running.pid)
    assert not behind.is_alive()


@pytest.mark.slow
def test_a_proxy_is_ready_only_when_the_server_behind_it_listens(
    place: BuildPaths, tmp_path: Path
) -> None:
    """A gateway that gathers parts answers 200 without them; that is not its first answer."""
    late = script(place, tmp_path / "late", f"{LATE}; print('up', flush=True); serve(listener)")
    at_once = script(place, tmp_path / "at-once", "serve(listen())")
    with (
        process.start(late, placed()) as behind,
        process.start(at_once, placed(seed=2)) as gateway,
    ):
        gateway.behind = behind
        launch.wait_until_ready(gateway, Workload())
        assert behind.output_bytes() > 0


@pytest.mark.slow
def test_other_servers_may_be_given(relay: PreparedTarget) -> None:
    assert relay.behind is not None
    with process.start(relay.behind, placed(seed=2)) as server:
        launch.wait_until_ready(server, Workload())
        options = replace(placed(), upstreams=(server.address,))
        with process.start(relay, options) as running:
            assert running.behind is None
            assert launch.wait_until_ready(running, Workload()).status == 200


def test_a_proxy_without_unix_sockets_says_so(relay: PreparedTarget) -> None:
    assert relay.with_upstream(Transport.TCP) is relay
    with pytest.raises(InputError, match="relay cannot forward to a Unix socket"):
        relay.with_upstream(Transport.UNIX)
