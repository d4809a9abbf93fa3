"""What the kernel counts of one TCP connection (tcp(7), TCP_INFO)."""

import os
import socket
import struct
from dataclasses import dataclass

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
