"""What an agent refuses, and what a client says of it. A good client follows every attack."""

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from jissoku.errors import HostLost, InputError, JissokuError
from jissoku.fleet import agent as agents, connecting, wire
from jissoku.fleet.agent import PENDING_MAX
from jissoku.fleet.channel import Channel, ChannelClosed
from jissoku.fleet.connecting import connected
from jissoku.fleet.keys import AGENT, CLIENT, Keys, ListenAddress, make_keys, read_keys
from jissoku.fleet.remote import RemoteHost
from jissoku.model import Transport, Workload
from jissoku.targets import catalogue
from tests.fleet.conftest import VERSION, RunningAgent


def eventually(is_true: Callable[[], bool], limit_s: float = 10.0) -> None:
    deadline = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def serves(agent: RunningAgent) -> bool:
    """Whether a client with the right keys is served."""
    with agent.client() as host:
        return host.clock().round_trip_ns > 0


def channel_to(agent: RunningAgent, context: ssl.SSLContext) -> Channel:
    plain = socket.create_connection(("127.0.0.1", agent.agent.port), 5)
    channel = Channel(context.wrap_socket(plain, server_hostname="127.0.0.1"), 1 << 20)
    agent.opened.append(channel)
    return channel


def begun(agent: RunningAgent) -> Channel:
    """A session whose next request has the number 1."""
    keys = read_keys(agent.keys, CLIENT)
    channel = channel_to(agent, keys.context)
    greeting = wire.decoded(channel.receive(5), wire.Greeting)
    proof = wire.proof_of(keys.token, greeting.nonce)
    channel.send(wire.encoded(wire.Hello(proof=proof, boot="")), 5)
    assert not wire.decoded(channel.receive(5), wire.Reply).failure
    return channel


def is_cut(channel: Channel) -> bool:
    try:
        channel.receive(5)
    except ChannelClosed:
        return True
    return False


def context_of(agent: RunningAgent, *, has_certificate: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(agent.keys / "ca.crt")
    if has_certificate:
        context.load_cert_chain(agent.keys / "client.crt", agent.keys / "client.key")
    return context


def test_a_client_with_keys_is_served(agent: RunningAgent) -> None:
    with agent.client() as host:
        bounds = [host.clock() for _ in range(3)]
    # Both clocks are the same one.
    assert all(abs(bound.offset_ns) <= bound.error_ns for bound in bounds)
    assert serves(agent), "after the first client has gone"


def test_no_certificate_is_refused(agent: RunningAgent) -> None:
    channel = channel_to(agent, context_of(agent, has_certificate=False))
    assert is_cut(channel)
    eventually(lambda: any("refused" in note for note in agent.notes))
    assert serves(agent)


def test_the_certificate_of_the_agent_is_none_of_a_client(agent: RunningAgent) -> None:
    context = context_of(agent, has_certificate=False)
    context.load_cert_chain(agent.keys / "agent.crt", agent.keys / "agent.key")
    assert is_cut(channel_to(agent, context))
    assert serves(agent)


def test_a_certificate_of_another_authority_is_refused(agent: RunningAgent, tmp_path: Path) -> None:
    make_keys(tmp_path / "other", "127.0.0.1")
    context = context_of(agent, has_certificate=False)
    context.load_cert_chain(tmp_path / "other" / "client.crt", tmp_path / "other" / "client.key")
    assert is_cut(channel_to(agent, context))
    other = read_keys(tmp_path / "other", CLIENT)
    with (
        pytest.raises(JissokuError, match="is not the one of these keys"),
        connected(agent.address, other, VERSION),
    ):
        pytest.fail("its certificate is of another authority")
    assert serves(agent)


def test_older_versions_of_tls_are_refused(agent: RunningAgent) -> None:
    context = context_of(agent, has_certificate=True)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(OSError, match=r"alert|version|reset|EOF"):
        channel_to(agent, context)
    assert serves(agent)


def test_what_is_no_tls_is_cut(agent: RunningAgent) -> None:
    with socket.create_connection(("127.0.0.1", agent.agent.port), 5) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: there\r\n\r\n")
        plain.settimeout(5)
        said = b""
        with suppress(ConnectionResetError):
            while data := plain.recv(100):
                said += data
    assert b"HTTP" not in said
    assert serves(agent)


def test_a_wrong_token_is_refused(agent: RunningAgent) -> None:
    keys = read_keys(agent.keys, CLIENT)
    with (
        pytest.raises(JissokuError, match="the token is wrong: both hosts need the same keys"),
        connected(agent.address, Keys(keys.context, b"x" * 32), VERSION),
    ):
        pytest.fail("its token is another one")
    eventually(lambda: any("wrong token" in note for note in agent.notes))
    assert serves(agent)


def test_a_proof_of_an_earlier_session_is_refused(agent: RunningAgent) -> None:
    keys = read_keys(agent.keys, CLIENT)
    first = channel_to(agent, keys.context)
    nonce = wire.decoded(first.receive(5), wire.Greeting).nonce
    recorded = wire.encoded(wire.Hello(proof=wire.proof_of(keys.token, nonce), boot=""))
    first.close()
    second = channel_to(agent, keys.context)
    second.receive(5)
    second.send(recorded, 5)
    assert "token is wrong" in wire.decoded(second.receive(5), wire.Reply).failure
    assert is_cut(second)
    assert serves(agent)


@pytest.mark.parametrize("size", [wire.HELLO_BYTES_MAX + 1, 2**31, 2**32 - 1])
def test_a_message_that_is_too_long_is_cut(agent: RunningAgent, size: int) -> None:
    keys = read_keys(agent.keys, CLIENT)
    channel = channel_to(agent, keys.context)
    channel.receive(5)
    channel._connection.sendall(struct.pack("!I", size) + b"x" * 100)
    assert is_cut(channel)
    eventually(lambda: any("are allowed" in note for note in agent.notes))
    assert serves(agent)


def test_a_message_that_is_too_long_ends_a_session(agent: RunningAgent) -> None:
    channel = begun(agent)
    channel._connection.sendall(struct.pack("!I", wire.MESSAGE_BYTES_MAX + 1))
    assert is_cut(channel)
    assert serves(agent)


@pytest.mark.parametrize("numbers", [(1, 1), (0,), (2,), (1, 3)])
def test_a_request_that_is_repeated_or_left_out_ends_the_session(
    agent: RunningAgent, numbers: tuple[int, ...]
) -> None:
    channel = begun(agent)
    *good, bad = numbers
    for number in good:
        channel.send(wire.encoded(wire.Numbered(number=number, request=wire.AskTime())), 5)
        assert wire.decoded(channel.receive(5), wire.Reply).number == number
    channel.send(wire.encoded(wire.Numbered(number=bad, request=wire.AskTime())), 5)
    assert is_cut(channel)
    assert serves(agent)


def test_what_is_no_request_ends_the_session(agent: RunningAgent) -> None:
    channel = begun(agent)
    channel.send(wire.encoded({"number": 1, "request": {"type": "shell", "command": "id"}}), 5)
    assert is_cut(channel)
    assert serves(agent)


@pytest.mark.parametrize(
    "name",
    ["../recipes/go", "/etc/passwd", "../../../../etc/passwd", "go\0", "", "~/x", "go.toml"],
)
def test_nothing_but_a_recipe_of_the_agent_is_prepared(agent: RunningAgent, name: str) -> None:
    with (
        agent.client() as host,
        pytest.raises(InputError, match=r"the agent on 127.0.0.1:\d+: no such target"),
    ):
        host.ask(wire.Prepare(recipe=name), wire.PrepareResult)
    assert serves(agent)


def refused(host: RemoteHost, request: wire.Request, match: str) -> None:
    with pytest.raises(InputError, match=match):
        host.ask(request, wire.Answer)


def test_requests_without_their_condition_are_refused(agent: RunningAgent) -> None:
    with agent.client() as host:
        start = wire.Start(prepared=0, workload=Workload(), seed=1)
        refused(host, start, "no cores are chosen")
        refused(host, wire.AwaitIdleCores(), "no cores are chosen")
        refused(host, wire.ChooseCores(given="9999"), "names no cores that can be used here")
        host.ask(wire.ChooseCores(), wire.ChosenCores)
        refused(host, wire.ChooseCores(), "chosen already")
        for number in (0, -1, 10**9):
            refused(host, wire.Start(prepared=number, workload=Workload(), seed=1), "was prepared")
        host.ask(wire.Prepare(recipe="http-server"), wire.PrepareResult)
        on_unix = wire.Start(prepared=0, workload=Workload(transport=Transport.UNIX), seed=1)
        refused(host, on_unix, "a Unix socket cannot be reached")
        refused(host, wire.Stop(target=1), "no target 1 runs here")
        refused(host, wire.AskState(target=1), "no target 1 runs here")
        refused(host, wire.Observe(targets=(1,)), "no target 1 runs here")
        refused(host, wire.EndObservation(at_ns=(1,)), "nothing is observed")
        assert host.clock().round_trip_ns > 0, "a refusal does not end the session"


def test_a_flood_of_connections_costs_few_threads_and_passes(
    agent: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "HANDSHAKE_S", 1.0)
    before = threading.active_count()
    opened = [socket.create_connection(("127.0.0.1", agent.agent.port), 5) for _ in range(200)]
    # Of each pending connection a thread, and the timer that ends it.
    assert threading.active_count() - before <= 2 * PENDING_MAX + 2
    eventually(lambda: threading.active_count() <= before)
    assert serves(agent)
    for one in opened:
        one.close()


def test_a_flood_does_not_reach_a_session(agent: RunningAgent) -> None:
    with agent.client() as host:
        host.clock()
        before = threading.active_count()
        for _ in range(100):
            with socket.create_connection(("127.0.0.1", agent.agent.port), 5) as other:
                other.settimeout(5)
                assert other.recv(1) == b"", "it is closed at once"
        assert threading.active_count() == before
        assert host.clock().round_trip_ns > 0


def test_one_client_is_served_at_a_time(
    agent: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "RETRIES_S", (0.01,))
    with (
        agent.client(),
        pytest.raises(JissokuError, match="another client may be using it"),
        agent.client(),
    ):
        pytest.fail("there is one already")
    assert serves(agent)


def test_another_version_is_refused_with_both(agent: RunningAgent) -> None:
    with (
        pytest.raises(InputError, match=f"is {VERSION}, and this is another: install the same"),
        agent.client("another"),
    ):
        pytest.fail("it is another version")


def test_an_agent_that_is_not_there_is_named_with_what_to_do(agent: RunningAgent) -> None:
    keys = read_keys(agent.keys, CLIENT)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    with (
        pytest.raises(
            JissokuError, match=rf"127.0.0.1:{free} cannot be reached: .*`jissoku agent --listen"
        ),
        connected(ListenAddress("127.0.0.1", free), keys, VERSION),
    ):
        pytest.fail("nothing listens there")


def test_an_agent_that_ends_is_reported_by_every_later_request(agent: RunningAgent) -> None:
    with agent.client() as host:
        host.clock()
        agent.agent.close()
        for _ in range(2):
            with pytest.raises(HostLost, match=r"the agent on 127.0.0.1:\d+ has .*connection"):
                host.clock()
        assert host.lost


def test_an_address_in_use_is_refused(agent: RunningAgent) -> None:
    with pytest.raises(InputError, match=r"--listen 127\.0\.0\.1:[0-9]+: Address already in use$"):
        agents.Agent(agent.address, read_keys(agent.keys, AGENT), VERSION, str)


def test_targets_that_are_not_there_are_named_with_what_installs_them(
    agent: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jissoku.targets.placeholders.find_program", lambda _: None)
    with agent.client() as host:
        found = host.prepare(catalogue.recipes()["nginx"], "")
    assert getattr(found, "install_hint", "") == "sudo apt-get install nginx"
