"""Connects to an agent: a session of one client, which ends with its block."""

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from jissoku.errors import InputError, JissokuError
from jissoku.fleet import wire
from jissoku.fleet.bench import Bench
from jissoku.fleet.channel import Channel, ChannelClosed, kept_alive
from jissoku.fleet.fleet_file import with_addresses
from jissoku.fleet.keys import CLIENT, Keys, ListenAddress, default_folder, read_keys
from jissoku.fleet.link import Link
from jissoku.fleet.load_agent import LoadAgent
from jissoku.fleet.remote import RemoteHost
from jissoku.measure.host import LocalHost, ServerHost
from jissoku.measure.machine import boot
from jissoku.measure.selection import RequestOfHost

Session = TypeVar("Session", bound=Link)

CONNECT_S = 5.0

# Pauses before further attempts to connect: an agent is busy for a moment after its last client.
RETRIES_S = (0.1, 0.4, 1.0, 1.5)


def default_keys(given: str) -> Path:
    return Path(given) if given else default_folder()


@contextmanager
def host_of(request: RequestOfHost, version: str) -> Iterator[ServerHost]:
    """The host of a request's targets: this machine, or that of the agent it names."""
    if not request.server_host:
        yield LocalHost()
        return
    request = with_addresses(request)
    address = ListenAddress.parse(request.server_host, "--server-host")
    keys = read_keys(default_keys(request.server_keys), CLIENT)
    names = getattr(request, "load_host", ())
    loads = [ListenAddress.parse(name, "--load-host") for name in names]
    with ExitStack() as held:
        if not loads:
            yield held.enter_context(connected(address, keys, version))
            return
        bench = held.enter_context(session(address, keys, version, Bench))
        sessions = (session(load, keys, version, LoadAgent) for load in loads)
        bench.use([held.enter_context(one) for one in sessions])
        yield bench


def connected(
    address: ListenAddress, keys: Keys, version: str
) -> AbstractContextManager[RemoteHost]:
    """A session with the agent of targets' host; see `session`."""
    return session(address, keys, version, RemoteHost)


@contextmanager
def session(
    address: ListenAddress,
    keys: Keys,
    version: str,
    kind: Callable[[ListenAddress, Channel, wire.Welcome], Session],
    purpose: str = "",
) -> Iterator[Session]:
    """A session with an agent, of this kind and purpose, which ends with the block.

    InputError: the address is unknown, the agent has another version, or it is in use.
    JissokuError: it cannot be reached, or refuses the keys.
    """
    where = f"the agent on {address.text}"
    channel = _opened_in_time(address, keys, where)
    try:
        greeting = _first(channel, wire.Greeting, where)
        if (greeting.protocol, greeting.version) != (wire.PROTOCOL, version):
            raise InputError(
                f"{where} is {greeting.version}, and this is {version}: install the same version on"
                " both hosts"
            )
        proof = wire.proof_of(keys.token, greeting.nonce)
        _send(channel, wire.Hello(proof=proof, boot=boot(), purpose=purpose), where)
        channel.allow(wire.MESSAGE_BYTES_MAX)
        reply = _first(channel, wire.Reply, where)
        if reply.failure:
            raise wire.error_of(reply, where)
        welcome = wire.decoded(bytes(reply.result), wire.Welcome)
        yield kind(address, channel, welcome)
    finally:
        channel.close()


class AgentBusy(JissokuError):  # noqa: N818 - it says what happened
    """The agent closes connections, because it serves a client."""


def _opened_in_time(address: ListenAddress, keys: Keys, where: str) -> Channel:
    for pause_s in RETRIES_S:
        with suppress(AgentBusy):
            return _opened(address, keys, where)
        time.sleep(pause_s)
    return _opened(address, keys, where)


def _opened(address: ListenAddress, keys: Keys, where: str) -> Channel:
    try:
        plain = socket.create_connection((address.host, address.port), CONNECT_S)
    except socket.gaierror as error:
        raise InputError(f"{where}: no such host: {error.strerror}") from error
    except OSError as error:
        raise JissokuError(
            f"{where} cannot be reached: {error.strerror or error}; start it on that host with"
            f" `jissoku agent --listen {address.text}`, or a fleet with `jissoku fleet up`"
        ) from error
    try:
        encrypted = keys.context.wrap_socket(kept_alive(plain), server_hostname=address.host)
    except ssl.SSLCertVerificationError as error:
        raise JissokuError(
            f"{where} is not the one of these keys: {error.verify_message}; make new keys for its"
            " address, and copy them to both hosts"
        ) from error
    except OSError as error:
        plain.close()
        raise AgentBusy(
            f"{where} has closed the connection: another client may be using it, or it is no agent"
        ) from error
    return Channel(encrypted, wire.HELLO_BYTES_MAX)


def _first(channel: Channel, kind: type[wire.Message], where: str) -> wire.Message:
    try:
        return wire.decoded(channel.receive(CONNECT_S), kind)
    except ChannelClosed as error:
        raise JissokuError(
            f"{where} {error}: it refuses these keys, or serves another client; copy the folder of"
            " its keys to this host"
        ) from error
    except wire.WireError as error:
        raise JissokuError(f"{where} sends {error}") from error


def _send(channel: Channel, message: msgspec.Struct, where: str) -> None:
    try:
        channel.send(wire.encoded(message), CONNECT_S)
    except ChannelClosed as error:
        raise JissokuError(f"{where} {error}") from error
