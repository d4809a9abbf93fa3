"""What kind of network interface a connection uses."""

import fcntl
import ipaddress
import socket
import struct
from pathlib import Path

# linux/sockios.h, and struct ifreq of linux/if.h, in which the address is that of an IPv4 socket.
SIOCGIFADDR = 0x8915
IFREQ = struct.Struct("16s24x")
ADDRESS_AT = 20

INTERFACES = Path("/sys/class/net")

# A line for each address of version 6: its 32 digits, four numbers, and the interface.
ADDRESSES_IPV6 = Path("/proc/net/if_inet6")


def path_kind(here: str, there: str) -> str:
    """`loopback` between addresses of one host; `wire` over an interface with a device.

    `virtual` over any other one, such as a veth pair, a bridge or a tunnel.
    """
    if here == there or ipaddress.ip_address(there).is_loopback:
        return "loopback"
    name = _interface_of(here)
    return "wire" if name and (INTERFACES / name / "device").exists() else "virtual"


def _interface_of(address: str) -> str:
    """The name of the interface that has an address first; empty if there is none."""
    if ":" in address:
        return _interface_of_ipv6(address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            try:
                found = fcntl.ioctl(asking, SIOCGIFADDR, IFREQ.pack(name.encode()))
            except OSError:
                continue  # It has no address.
            if socket.inet_ntoa(found[ADDRESS_AT : ADDRESS_AT + 4]) == address:
                return name
    return ""


def _interface_of_ipv6(address: str) -> str:
    digits = ipaddress.IPv6Address(address).packed.hex()
    try:
        lines = ADDRESSES_IPV6.read_text(encoding="ascii").splitlines()
    except OSError:  # The kernel was built without IPv6.
        return ""
    return next((line.split()[-1] for line in lines if line.startswith(digits)), "")
