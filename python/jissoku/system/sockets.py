"""Listening sockets and their processes, and what the kernel counts of a connection (TCP_INFO)."""

import ipaddress
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from jissoku.system.address import Address
from jissoku.system.processes import PROC, Processes, all_processes

LISTEN = "0A"  # TCP state in /proc/net/tcp


def listener_pid(address: Address) -> int | None:
    """The process that listens on an address of this machine; of several, their parent.

    Returns:
        None if none listens on this machine, or its processes are not visible.
    """
    eldest = listener_pids(address)
    return eldest[0] if len(eldest) == 1 else None


def listener_pids(address: Address) -> list[int]:
    """The processes that listen on an address of this machine, without children of one of them.

    Empty if none listens on this machine, or its processes are not visible.
    """
    if not address.socket and not _is_here(address.host):
        return []
    sockets = listening_sockets(address)
    processes = all_processes()
    pids = {pid for pid in processes if sockets and sockets & sockets_of(pid)}
    return [pid for pid in pids if not pids & _ancestors(pid, processes)]


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


def sockets_of(pid: int) -> set[str]:
    """The open sockets of a process, as /proc/PID/fd names them; none of another user's process."""
    folder = PROC / str(pid) / "fd"
    found: set[str] = set()
    try:
        entries = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return found
    for entry in entries:
        try:
            found.add(str((folder / entry).readlink()))
        except OSError:
            continue  # It was closed meanwhile.
    return {name for name in found if name.startswith("socket:")}


def _table(name: str) -> Iterator[list[str]]:
    try:
        lines = (PROC / "net" / name).read_text().splitlines()[1:]
    except OSError:
        return
    yield from (line.split() for line in lines)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _ancestors(pid: int, processes: Processes) -> set[int]:
    found: set[int] = set()
    while pid in processes and processes[pid].parent not in found:
        pid = processes[pid].parent
        found.add(pid)
    return found


# Offsets into struct tcp_info of linux/tcp.h, and its length in kernels with all of these fields
# (4.6 and later).
ADVMSS_AT = 84
BYTES_RECEIVED_AT = 128
DATA_SEGS_IN_AT = 152
SIZE = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpInfo:
    """Counters of one connection.

    Attributes:
        segment_bytes: Maximum size of a segment in the receiving direction.
        bytes_received: Since the connection was established.
        data_segments_received: Segments with data, since the connection was established.
    """

    segment_bytes: int
    bytes_received: int
    data_segments_received: int


def duplicate(connection: socket.socket) -> socket.socket:
    """A second socket of a connection, whose counters can be read after the first was closed.

    It is a plain one also where the first speaks TLS, which Python refuses to duplicate.
    """
    return socket.socket(fileno=os.dup(connection.fileno()))


def tcp_info(connection: socket.socket) -> TcpInfo | None:
    """Reads the counters; None over a Unix socket, and on kernels without all of them."""
    if connection.family == socket.AF_UNIX:
        return None
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, SIZE)
    if len(info) < SIZE:
        return None
    return TcpInfo(
        segment_bytes=struct.unpack_from("=I", info, ADVMSS_AT)[0],
        bytes_received=struct.unpack_from("=Q", info, BYTES_RECEIVED_AT)[0],
        data_segments_received=struct.unpack_from("=I", info, DATA_SEGS_IN_AT)[0],
    )
