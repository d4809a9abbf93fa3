"""Whose is it? The process behind an address, for a server that another process started here."""

import ipaddress

import psutil

from jissoku.targets.address import Address


def listener_pid(address: Address) -> int | None:
    """The process that listens at an address of this machine; of several, the parent of the others.

    Returns:
        None when it listens elsewhere, or its processes are not visible.
    """
    try:
        pids = _listeners(address)
        eldest = [pid for pid in pids if not pids & _ancestors(pid)]
    except psutil.Error:
        return None
    return eldest[0] if len(eldest) == 1 else None


def _listeners(address: Address) -> set[int]:
    if address.socket:
        here = [c for c in psutil.net_connections("unix") if str(c.laddr) == address.socket]
    elif _is_here(address.host):
        listening = [c for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
        here = [c for c in listening if c.laddr and c.laddr.port == address.port]
    else:
        here = []
    return {c.pid for c in here if c.pid}


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _ancestors(pid: int) -> set[int]:
    return {parent.pid for parent in psutil.Process(pid).parents()}
