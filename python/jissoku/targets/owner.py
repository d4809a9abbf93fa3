"""Whose is it? The process behind an address, for a server that somebody else started here."""

import ipaddress

import psutil

from jissoku.targets.address import Address


def owner(address: Address) -> int | None:
    """The process that listens at an address of this machine; of several, the parent of the others.

    Returns:
        None when it listens elsewhere, or belongs to somebody whose processes we may not see.
    """
    try:
        pids = _listeners(address)
        eldest = [pid for pid in pids if not pids & _ancestors(pid)]
    except psutil.Error:
        return None
    return eldest[0] if len(eldest) == 1 else None


def _listeners(address: Address) -> set[int]:
    if address.socket:
        found = psutil.net_connections("unix")
        return {c.pid for c in found if c.pid is not None and c.laddr == address.socket}
    if not _is_here(address.host):
        return set()
    return {
        c.pid
        for c in psutil.net_connections("tcp")
        if c.pid is not None and c.status == psutil.CONN_LISTEN and c.laddr.port == address.port
    }


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _ancestors(pid: int) -> set[int]:
    return {parent.pid for parent in psutil.Process(pid).parents()}
