"""One encrypted connection between the lab and an agent, for messages."""

import select
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress

from jissoku.errors import JissokuError
from jissoku.fleet.wire import Frames, framed

CHUNK = 1 << 16

# How often a wait asks whether it is to be given up.
LOOK_S = 0.2

# After this much silence the kernel asks whether the other end is still there, and how often: a
# host that has lost its power or its network is noticed after half a minute.
KEEPALIVE = {
    socket.TCP_KEEPIDLE: 15,
    socket.TCP_KEEPINTVL: 5,
    socket.TCP_KEEPCNT: 3,
    socket.TCP_USER_TIMEOUT: 30_000,
}

# Data that is sent is small: without a delay, round trips are those of the network.
NO_DELAY = socket.TCP_NODELAY


class ChannelClosed(JissokuError):  # noqa: N818 - it says what happened
    """The connection has ended; the message is the end of a sentence."""


class OnlyProbed(ChannelClosed):
    """The other end has connected and said nothing, as paths are measured."""


class GaveUp(Exception):  # noqa: N818 - not an error
    """A wait was given up, as after Ctrl-C."""


def kept_alive(connection: socket.socket) -> socket.socket:
    """Sets what both ends need: keepalive, and no delay of small messages."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
    connection.setsockopt(socket.IPPROTO_TCP, NO_DELAY, 1)
    return connection


class Channel:
    """Sends and receives whole messages. Only `cut` may be called by another thread meanwhile."""

    def __init__(self, connection: ssl.SSLSocket, bytes_max: int) -> None:
        self._connection = connection
        self._frames = Frames(bytes_max)
        self._received: list[bytes] = []

    def shake_hands(self, limit_s: float) -> None:
        """Does the handshake, in which certificates are verified; ChannelClosed if it fails."""
        try:
            self._connection.settimeout(limit_s)
            self._connection.do_handshake()
        except ssl.SSLEOFError as error:
            raise OnlyProbed("has closed the connection before its handshake") from error
        except (OSError, ValueError) as error:
            reason = error.reason if isinstance(error, ssl.SSLError) else str(error)
            raise ChannelClosed(f"is refused: {reason or 'it has not proven itself'}") from error

    def allow(self, bytes_max: int) -> None:
        """Changes the size of the largest message."""
        self._frames.bytes_max = bytes_max

    def send(self, message: bytes, limit_s: float) -> None:
        """ChannelClosed if the other end is gone, or does not take it in this time."""
        try:
            self._connection.settimeout(limit_s)
            self._connection.sendall(framed(message))
        except OSError as error:
            raise ChannelClosed(_reason(error)) from error

    def receive(self, limit_s: float, give_up: Callable[[], bool] | None = None) -> bytes:
        """The next message.

        Raises ChannelClosed if none has come in this time, WireError for one that is too long, and
        GaveUp when `give_up` returns True, which is asked about five times a second.
        """
        deadline = time.monotonic() + limit_s
        while not self._received:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise ChannelClosed(f"has sent nothing for {limit_s:g} s")
            if give_up is not None and give_up():
                raise GaveUp
            self._connection.settimeout(left_s if give_up is None else min(left_s, LOOK_S))
            try:
                data = self._connection.recv(CHUNK)
            except TimeoutError:
                continue
            except OSError as error:
                raise ChannelClosed(_reason(error)) from error
            if not data:
                raise ChannelClosed("has closed the connection")
            self._received += self._frames.feed(data)
        return self._received.pop(0)

    def is_closed_by_peer(self) -> bool:
        """Whether the other end has closed it, without reading anything."""
        poll = select.poll()
        try:
            poll.register(self._connection.fileno(), select.POLLRDHUP)
        except (OSError, ValueError):
            return True
        return bool(poll.poll(0))

    def addresses(self) -> tuple[str, str]:
        """Our address, and that of the other end."""
        return self._connection.getsockname()[0], self._connection.getpeername()[0]

    def cut(self) -> None:
        """Ends the connection; a thread that waits for a message notices it. From any thread."""
        with suppress(OSError):
            # That of SSLSocket would take its state away from the thread that uses it.
            socket.socket.shutdown(self._connection, socket.SHUT_RDWR)

    def close(self) -> None:
        self.cut()
        with suppress(OSError):
            self._connection.close()


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "does not take what is sent"
    if isinstance(error, ssl.SSLError):
        return f"breaks the encryption: {error.reason or error}"
    return f"has lost the connection: {error.strerror or error}"
