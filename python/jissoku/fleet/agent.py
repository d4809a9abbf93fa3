"""Listens for one client at a time, and serves it a session.

A client has a certificate of the authority, and the token. Before it has proven both, a connection
costs a thread for some seconds, and few are served at once; while a session runs, others are closed
before anything of them is read, because that would disturb what is measured.

Clients of campaigns do not exclude each other, since their campaigns do. While one of these sends
load, nothing of a new connection is read, and the handshake follows it.
"""

import secrets
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import FrameType

import msgspec

from jissoku.errors import InputError, JissokuError, TargetError
from jissoku.fleet import wire
from jissoku.fleet.campaign_wire import CAMPAIGNS
from jissoku.fleet.campaigns import Campaigns, CampaignSession
from jissoku.fleet.channel import Channel, ChannelClosed, OnlyProbed, kept_alive
from jissoku.fleet.keys import Keys, ListenAddress
from jissoku.fleet.leftovers import end_leftovers
from jissoku.fleet.permissions import Permissions
from jissoku.fleet.session import Session
from jissoku.measure.client import ProbeError
from jissoku.measure.machine import boot
from jissoku.system.measurement_lock import load_seconds_left, measurement_lock
from jissoku.targets.supervisor import supervisor

# Connections that are proving themselves at once, and how long each may take.
PENDING_MAX = 8
HANDSHAKE_S = 5.0

# A client that says nothing for this long is gone; no load of a comparison lasts as long, and no
# build, during which the agent of a load host has nothing to do.
SILENCE_S = 1_800.0
SEND_LIMIT_S = 30.0

# How long a session that is to be closed may still take, to end its targets.
CLOSING_S = 30.0

BACKLOG = 16

IN_USE = "another client measures here: try again when it has ended"


class Agent:
    """Serves clients at an address until `close`.

    `version` is that of jissoku, which a client must have, too. `note` receives a line for each
    session and each refusal. `permissions` None: nothing beside the installed recipes.
    `campaigns` None: it runs no comparisons of its own.
    """

    def __init__(
        self,
        address: ListenAddress,
        keys: Keys,
        version: str,
        note: Callable[[str], object],
        *,
        permissions: Permissions | None = None,
        campaigns: Campaigns | None = None,
    ) -> None:
        """Binds the address; InputError if that is not possible."""
        self._keys = keys
        self._version = version
        self._note = note
        self._permissions = permissions or Permissions()
        self._campaigns = campaigns
        try:
            family, self._host = _resolved(address)
            here = (self._host, address.port)
            self._listener = socket.create_server(here, family=family, backlog=BACKLOG)
        except OSError as error:
            # Of a port that is taken, Python adds the address in words of its own.
            reason = str(error.strerror).partition(" (while")[0]
            raise InputError(f"--listen {address.text}: {reason}") from error
        self._pending = threading.BoundedSemaphore(PENDING_MAX)
        self._serving = threading.Lock()
        self._channels: set[Channel] = set()
        self._threads: list[threading.Thread] = []
        self._closing = threading.Event()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def run(self) -> None:
        """Serves until SIGINT or SIGTERM, and ends all targets then."""
        for sentence in end_leftovers():
            self._note(sentence)
        supervisor()  # It ends targets if this process is killed.
        before = {
            number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            self.serve()
        except KeyboardInterrupt:
            self._note("Ending.")
        finally:
            for number in before:
                signal.signal(number, signal.SIG_IGN)
            self.close()
            for number, handler in before.items():
                signal.signal(number, handler)

    def serve(self) -> None:
        """Accepts connections until the agent is closed."""
        while not self._closing.is_set():
            try:
                connection, peer = self._listener.accept()
            except OSError:
                return  # It was closed.
            if self._serving.locked() or not self._pending.acquire(blocking=False):
                connection.close()
                continue
            words = (connection, peer[0])
            thread = threading.Thread(target=self._serve_one, args=words, daemon=True)
            self._threads = [one for one in self._threads if one.is_alive()] + [thread]
            thread.start()

    def close(self) -> None:
        """Ends the session, with its targets, and stops listening."""
        self._closing.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for channel in list(self._channels):
            channel.cut()
        for thread in self._threads:
            thread.join(CLOSING_S)
        if self._campaigns is not None:
            self._campaigns.close()

    def _serve_one(self, connection: socket.socket, peer: str) -> None:
        with ExitStack() as held:
            held.callback(self._pending.release)
            try:
                channel = self._channel(connection, held)
                self._wait_for_the_end_of_load()
                # For the whole proof together: a client may send one byte a second.
                limit = threading.Timer(HANDSHAKE_S, channel.cut)
                held.callback(limit.cancel)
                limit.start()
                hello = self._authenticated(channel)
                limit.cancel()
                if hello.purpose != CAMPAIGNS:
                    if not self._serving.acquire(blocking=False):
                        _refuse(channel, IN_USE)
                        return
                    held.callback(self._serving.release)
                self._serve_session(channel, hello, peer)
            except OnlyProbed:
                pass
            except (ChannelClosed, wire.WireError) as error:
                self._note(f"{peer}: the client {error}")
            except JissokuError as error:
                self._note(f"{peer}: {error}")

    def _wait_for_the_end_of_load(self) -> None:
        while self._campaigns is not None and (left_s := load_seconds_left()) > 0:
            if self._closing.wait(left_s):
                return

    def _channel(self, connection: socket.socket, held: ExitStack) -> Channel:
        """The connection for messages, before its handshake; it is closed when `held` is."""
        held.callback(connection.close)
        try:
            encrypted = self._keys.context.wrap_socket(
                kept_alive(connection), server_side=True, do_handshake_on_connect=False
            )
        except (OSError, ValueError) as error:
            raise ChannelClosed(f"has closed the connection: {error}") from error
        channel = Channel(encrypted, wire.HELLO_BYTES_MAX)
        self._channels.add(channel)
        held.callback(self._channels.discard, channel)
        held.callback(channel.close)
        return channel

    def _authenticated(self, channel: Channel) -> wire.Hello:
        """The first message of a client that has proven its certificate and its token."""
        channel.shake_hands(HANDSHAKE_S)
        nonce = secrets.token_bytes(wire.NONCE_BYTES)
        greeting = wire.Greeting(protocol=wire.PROTOCOL, version=self._version, nonce=nonce)
        channel.send(wire.encoded(greeting), HANDSHAKE_S)
        hello = wire.decoded(channel.receive(HANDSHAKE_S), wire.Hello)
        if not wire.is_proof(self._keys.token, nonce, hello.proof):
            _refuse(channel, "the token is wrong: both hosts need the same keys")
            raise wire.WireError("has a wrong token")
        return hello

    def _serve_session(self, channel: Channel, hello: wire.Hello, peer: str) -> None:
        is_same = bool(hello.boot) and hello.boot == boot()
        with ExitStack() as held:
            try:
                session: Session | CampaignSession
                if hello.purpose == CAMPAIGNS:  # A campaign takes the lock of its machine itself.
                    session = CampaignSession(self._campaigns, channel.is_closed_by_peer)
                else:
                    if not is_same:  # The client has the lock of a machine that both share.
                        held.enter_context(measurement_lock("agent"))
                    session = Session(
                        self._host,
                        is_same_machine=is_same,
                        permissions=self._permissions,
                        give_up=channel.is_closed_by_peer,
                    )
            except JissokuError as error:
                _refuse(channel, str(error), kind="input")
                raise
            self._note(f"{peer}: a session begins")
            try:
                channel.allow(wire.MESSAGE_BYTES_MAX)
                channel.send(_result(0, session.welcome()), SEND_LIMIT_S)
                _serve_requests(channel, session)
            except (ChannelClosed, wire.WireError) as error:
                self._note(f"{peer}: the session ends: the client {error}")
            finally:
                try:
                    session.close()
                except TargetError as error:
                    self._note(f"{peer}: {error}")


def _resolved(address: ListenAddress) -> tuple[socket.AddressFamily, str]:
    """The IP address to listen on, and its family; of a name the first of version 4, if any."""
    try:
        found = socket.getaddrinfo(address.host, address.port, socket.AF_INET)
    except socket.gaierror:
        found = socket.getaddrinfo(address.host, address.port, socket.AF_INET6)
    return found[0][0], str(found[0][4][0])


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _serve_requests(channel: Channel, session: Session | CampaignSession) -> None:
    """Answers one request after the other, until the client closes the connection."""
    number = 0
    while True:
        asked = wire.decoded(channel.receive(SILENCE_S), wire.Numbered)
        number += 1
        if asked.number != number:
            raise wire.WireError(f"has sent request {asked.number} in place of {number}")
        try:
            answer = _result(number, session.handle(asked.request))
            if len(answer) > wire.MESSAGE_BYTES_MAX:
                raise ProbeError(
                    f"what it has read is larger than a message may be: {len(answer):,} of"
                    f" {wire.MESSAGE_BYTES_MAX:,} bytes"
                )
        except JissokuError as error:
            answer = wire.encoded(wire.failure(number, error))
        except OSError as error:
            answer = wire.encoded(wire.failure(number, JissokuError(str(error))))
        channel.send(answer, SEND_LIMIT_S)


def _result(number: int, result: msgspec.Struct) -> bytes:
    return wire.encoded(wire.Reply(number=number, result=msgspec.Raw(wire.encoded(result))))


def _refuse(channel: Channel, reason: str, kind: str = "") -> None:
    with suppress(ChannelClosed):
        channel.send(wire.encoded(wire.Reply(number=0, failure=reason, kind=kind)), HANDSHAKE_S)
