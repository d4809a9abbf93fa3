"""Addresses of targets: free ones, the processes that listen there, and a connection's counters."""

import ipaddress
import os
import random
import socket as socket_module
import ssl
import struct
import sys
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from jissoku.errors import InputError, TargetError
from jissoku.system.processes import PROC, all_processes, ancestry, read_living

HOST = "127.0.0.1"

# What an address looks like, in messages.
EXAMPLES = "http://127.0.0.1:3000/, https://127.0.0.1:3000/ or unix:/path/of/the.sock"

# Below Linux's range of ephemeral ports (32768 and up), so that no connection of the load generator
# can occupy a target's port between two trials.
PORTS = range(18000, 32000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A TCP port of a host, or a Unix socket; `socket` is empty for TCP.

    `is_tls`: over TCP only. Its certificate is not verified: what is measured is a server that we
    chose, not its identity.
    """

    host: str = HOST
    port: int = 0
    socket: str = ""
    is_tls: bool = False

    def url(self, path: str = "/") -> str:
        """The URL of a path, in the format of the load generator."""
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

    def connect(self, limit_s: float) -> socket_module.socket:
        """Opens a connection; OSError if that fails or takes longer than `limit_s`.

        With TLS this includes the handshake, which is a full one: sessions are not resumed.
        """
        if self.socket:
            connection = socket_module.socket(socket_module.AF_UNIX, socket_module.SOCK_STREAM)
        else:
            connection = socket_module.create_connection((self.host, self.port), limit_s)
        try:
            if self.socket:
                connection.settimeout(limit_s)
                connection.connect(self.socket)
            elif self.is_tls:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
                return context.wrap_socket(connection, server_hostname=self.host)
        except OSError:
            connection.close()
            raise
        return connection


def parse(text: str) -> Address:
    """Reads `http://HOST:PORT/`, `https://HOST:PORT/` or `unix:PATH`; others are an InputError."""
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
    default = 443 if is_tls else 80
    return Address(host=parts.hostname, port=default if port is None else port, is_tls=is_tls)


def free_port(rng: random.Random, promised: Container[int] = (), host: str = HOST) -> int:
    """Finds a port of an IP address that is unused, not in TIME_WAIT and not promised."""
    family = socket_module.AF_INET6 if ":" in host else socket_module.AF_INET
    for _ in range(200):
        port = rng.choice(PORTS)
        if port in promised:
            continue
        with socket_module.socket(family) as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
        return port
    raise TargetError(f"no free port was found between {PORTS.start} and {PORTS.stop - 1}")


LISTEN = "0A"  # TCP state in /proc/net/tcp


def listener_pid(address: Address) -> int | None:
    """The process that listens there, or the parent of several; None if none is visible here."""
    eldest = listener_pids(address)
    return eldest[0] if len(eldest) == 1 else None


def listener_pids(address: Address) -> list[int]:
    """The processes that listen there, without children of one of them, if they are visible."""
    if not address.socket and not is_here(address.host):
        return []
    sockets = listening_sockets(address)
    processes = all_processes()
    pids = {pid for pid in processes if sockets and sockets & sockets_of(pid)}
    return [pid for pid in pids if pids.isdisjoint({*ancestry(pid, processes)} - {pid})]


def listening_sockets(address: Address) -> set[str]:
    """The sockets that listen at an address, as /proc/PID/fd names them."""
    if address.socket:
        return {f"socket:[{row[6]}]" for row in _table("unix") if row[-1] == address.socket}
    return {
        f"socket:[{row[9]}]"
        for table in ("tcp", "tcp6")
        for row in _table(table)
        if row[3] == LISTEN and int(row[1].rpartition(":")[2], 16) == address.port
    }


def listening_addresses(pids: Iterable[int]) -> tuple[str, ...]:
    """The TCP addresses, as HOST:PORT, at which some processes listen."""
    names = set().union(*map(sockets_of, pids))
    rows = (row for table in ("tcp", "tcp6") for row in _table(table))
    found = {_written(row[1]) for row in rows if row[3] == LISTEN and f"socket:[{row[9]}]" in names}
    return tuple(sorted(found))


def sockets_of(pid: int) -> set[str]:
    """The open sockets of a process, as /proc/PID/fd names them; none of another user's process."""
    folder = PROC / str(pid) / "fd"
    try:
        entries = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return set()
    names = read_living(entries, lambda entry: str((folder / entry).readlink()))
    return {name for _, name in names if name.startswith("socket:")}


class Peers:
    """The processes at the other end of sockets, by the names of /proc/PID/fd.

    An instance reads the kernel's tables again for each socket that it does not know yet.
    """

    CLIENT = "its client"
    LISTENER = "its listener"

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The peer's address; empty if there is none, or none is known."""
        if name not in self._known:
            self._read()
        return self._known.setdefault(name, "")

    def _read(self) -> None:
        rows = [row for table in ("tcp", "tcp6") for row in _table(table)]
        ports = {_port(row[1]) for row in rows if row[3] == LISTEN}
        for row in rows:
            peer = self.CLIENT if _port(row[1]) in ports else _written(row[2])
            self._known[f"socket:[{row[9]}]"] = self.LISTENER if row[3] == LISTEN else peer
        for row in _table("unix"):
            self._known.setdefault(f"socket:[{row[6]}]", row[7] if len(row) > 7 else "")


def _port(entry: str) -> int:
    return int(entry.rpartition(":")[2], 16)


def _written(entry: str) -> str:
    """An address and port of /proc/net/tcp, whose words have the byte order of the machine."""
    words, _, port = entry.partition(":")
    packed = b"".join(
        int(words[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(words), 8)
    )
    found = ipaddress.ip_address(packed)
    host = found.ipv4_mapped or found if isinstance(found, ipaddress.IPv6Address) else found
    return f"{f'[{host}]' if host.version == 6 else host}:{int(port, 16)}"


def _table(name: str) -> Iterator[list[str]]:
    for _, text in read_living([PROC / "net" / name], Path.read_text):
        yield from (line.split() for line in text.splitlines()[1:])


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_here(host: str) -> bool:
    """Whether it is an IP address of this host, or `localhost`: only these can be bound."""
    if host == "localhost":
        return True
    try:
        version = ipaddress.ip_address(host).version
        family = socket_module.AF_INET6 if version == 6 else socket_module.AF_INET
        with socket_module.socket(family) as probe:
            probe.bind((host, 0))
    except (OSError, ValueError):
        return False
    return True


# Offsets into struct tcp_info of linux/tcp.h, and its length in kernels with all of these fields
# (4.6 and later).
RTT_AT = 68
ADVMSS_AT = 84
BYTES_RECEIVED_AT = 128
DATA_SEGS_IN_AT = 152
SIZE = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpInfo:
    """Counters of one connection; `segment_bytes` is the maximum size of one received.

    `round_trip_us` is the smoothed round trip (RFC 6298): of a connection that has sent nothing
    yet, that of its handshake, which the kernels of both ends do without their processes.
    """

    round_trip_us: int
    segment_bytes: int
    bytes_received: int
    data_segments_received: int


def duplicate(connection: socket_module.socket) -> socket_module.socket:
    """A second socket of a connection, whose counters can be read after the first was closed.

    It is a plain one also where the first speaks TLS, which Python refuses to duplicate.
    """
    return socket_module.socket(fileno=os.dup(connection.fileno()))


def tcp_info(connection: socket_module.socket) -> TcpInfo | None:
    """Reads the counters; None over a Unix socket, and on kernels without all of them."""
    if connection.family == socket_module.AF_UNIX:
        return None
    info = connection.getsockopt(socket_module.IPPROTO_TCP, socket_module.TCP_INFO, SIZE)
    if len(info) < SIZE:
        return None
    return TcpInfo(
        round_trip_us=struct.unpack_from("=I", info, RTT_AT)[0],
        segment_bytes=struct.unpack_from("=I", info, ADVMSS_AT)[0],
        bytes_received=struct.unpack_from("=Q", info, BYTES_RECEIVED_AT)[0],
        data_segments_received=struct.unpack_from("=I", info, DATA_SEGS_IN_AT)[0],
    )
