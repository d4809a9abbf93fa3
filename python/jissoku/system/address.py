"""Listen addresses of targets, and finding free ones."""

import random
import socket as sockets
import ssl
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from jissoku.errors import InputError, TargetError

HOST = "127.0.0.1"

HTTP_PORT = 80
HTTPS_PORT = 443

# What an address looks like, in messages.
EXAMPLES = "http://127.0.0.1:3000/, https://127.0.0.1:3000/ or unix:/path/of/the.sock"

# Below Linux's range of ephemeral ports (32768 and up), so that no connection of the load generator
# can occupy a target's port between two trials.
PORTS = range(18000, 32000)
TRIES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A TCP port of a host, or a Unix socket; `socket` is empty for TCP.

    `is_tls`: it speaks TLS, over TCP only. Its certificate is not verified: what is measured is a
    server that we chose, not its identity.
    """

    host: str = HOST
    port: int = 0
    socket: str = ""
    is_tls: bool = False

    def url(self, path: str = "/") -> str:
        """The URL of a path at this address, in the format of the load generator."""
        if self.socket:
            return f"unix:{self.socket}:{path}"
        return f"{'https' if self.is_tls else 'http'}://{self.authority}{path}"

    @property
    def authority(self) -> str:
        """The value of the Host field (RFC 9110 section 7.2)."""
        if self.socket:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def connect(self, limit_s: float) -> sockets.socket:
        """Opens a connection; OSError if that fails or takes longer than `limit_s`.

        With TLS this includes the handshake, which is a full one: sessions are not resumed.
        """
        if not self.socket:
            connection = sockets.create_connection((self.host, self.port), limit_s)
            return _over_tls(connection, self.host) if self.is_tls else connection
        connection = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        try:
            connection.settimeout(limit_s)
            connection.connect(self.socket)
        except OSError:
            connection.close()
            raise
        return connection


def _over_tls(connection: sockets.socket, host: str) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        return context.wrap_socket(connection, server_hostname=host)
    except OSError:
        connection.close()
        raise


def parse(text: str) -> Address:
    """Reads `http://HOST:PORT/`, `https://HOST:PORT/` or `unix:PATH`.

    Raises:
        InputError: It is none of them, or it has a path, which belongs to the workload.
    """
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not Path(path).is_absolute() or ":" in path:
            raise InputError(f"{text!r}: write unix:/path/of/the.sock")
        return Address(socket=path)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise InputError(f"{text!r} is not a URL ({error}): write {EXAMPLES}") from error
    is_tls = parts.scheme == "https"
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None:
        raise InputError(f"{text!r}: write {EXAMPLES}")
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise InputError(
            f"{text!r}: give the path with --path, so that all targets get the same request"
        )
    default = HTTPS_PORT if is_tls else HTTP_PORT
    return Address(host=parts.hostname, port=default if port is None else port, is_tls=is_tls)


def free_port(rng: random.Random, promised: Container[int] = ()) -> int:
    """Finds an unused port of 127.0.0.1 that has no connections in TIME_WAIT either.

    Args:
        rng: Draws the port.
        promised: Ports of targets that were started and may not listen yet.

    Raises:
        TargetError: None was found in a bounded number of tries.
    """
    for _ in range(TRIES):
        port = rng.choice(PORTS)
        if port in promised:
            continue
        with sockets.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        return port
    raise TargetError(f"no free port was found between {PORTS.start} and {PORTS.stop - 1}")
