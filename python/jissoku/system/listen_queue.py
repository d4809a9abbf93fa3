"""The queue of connections that a listening socket has not accepted yet, by sock_diag(7)."""

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h.
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST_DUMP = 0x301
INET_DIAG_SKMEMINFO = 7
TCP_LISTEN = 10

HEADER = struct.Struct("=IHHII")
REQUEST = struct.Struct("=BBBBI48x")
# Family, state, two more, the port in network order, the rest of the addresses, expiry, both queue
# lengths, user and inode.
MESSAGE = struct.Struct("=BBBB2s46xIIIII")
ATTRIBUTE = struct.Struct("=HH")
# The ninth number of the memory information.
DROPS_AT = 8 * 4


@dataclass(frozen=True, slots=True)
class ListenQueue:
    """The shortest limit of a port's listen queues, and how many connections were turned away.

    `drops` counts connections and requests for one that found the queue full, since the socket
    listens.
    """

    limit: int
    drops: int


def listen_queues() -> dict[int, ListenQueue]:
    """The queues of all TCP ports of this machine that are listened on; none if unknown."""
    found: dict[int, ListenQueue] = {}
    try:
        for port, limit, drops in (*_queues(socket.AF_INET), *_queues(socket.AF_INET6)):
            known = found.get(port, ListenQueue(limit, 0))
            found[port] = ListenQueue(min(known.limit, limit), known.drops + drops)
    except OSError:
        return {}
    return found


def _queues(family: int) -> Iterator[tuple[int, int, int]]:
    """(port, limit, drops) of every listening socket of an address family."""
    request = REQUEST.pack(
        family, socket.IPPROTO_TCP, 1 << (INET_DIAG_SKMEMINFO - 1), 0, 1 << TCP_LISTEN
    )
    header = HEADER.pack(HEADER.size + len(request), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST_DUMP, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as asking:
        asking.settimeout(1.0)
        asking.send(header + request)
        while True:
            answer = asking.recv(1 << 16)
            at = 0
            while at + HEADER.size <= len(answer):
                size, kind, *_ = HEADER.unpack_from(answer, at)
                if kind != SOCK_DIAG_BY_FAMILY or size < HEADER.size + MESSAGE.size:
                    return  # NLMSG_DONE, or an error.
                yield _queue(answer[at + HEADER.size : at + size])
                at += (size + 3) & ~3


def _queue(message: bytes) -> tuple[int, int, int]:
    _, _, _, _, port, _, _, limit, _, _ = MESSAGE.unpack_from(message)
    drops, at = 0, MESSAGE.size
    while at + ATTRIBUTE.size <= len(message):
        size, kind = ATTRIBUTE.unpack_from(message, at)
        if size < ATTRIBUTE.size:
            break
        if kind == INET_DIAG_SKMEMINFO and size >= ATTRIBUTE.size + DROPS_AT + 4:
            (drops,) = struct.unpack_from("=I", message, at + ATTRIBUTE.size + DROPS_AT)
        at += (size + 3) & ~3
    return int.from_bytes(port, "big"), limit, drops
