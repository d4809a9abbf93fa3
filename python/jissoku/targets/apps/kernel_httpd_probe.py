"""Whether kernel-httpd can run here; if not, the reason in one sentence, and exit code 1.

Asks the kernel for what the programs hang on, a map of sockets, in the way that libbpf would, and
looks for the headers they are compiled with. Nothing stays: a map without a holder is gone.
"""

import ctypes
import errno
import os
import platform
import struct
import subprocess
import sys

# The number of bpf(2) has no name outside C; these are asm/unistd.h's.
CALLS = {"x86_64": 321, "aarch64": 280, "riscv64": 280}

MAP_CREATE = 0
SOCKHASH = 18
COOKIE_BYTES = 8


def lack() -> str:
    """The reason why not; empty if it can."""
    if subprocess.call(["pkg-config", "--exists", "libbpf"]):  # noqa: S607 - found on the PATH
        return "libbpf, which loads programs into the kernel, is not here to be built with"
    number = CALLS.get(platform.machine())
    if number is None:
        return f"untested on {platform.machine()}"
    # union bpf_attr (linux/bpf.h): kind, sizes of key and value, entries, flags.
    attributes = struct.pack("=5I", SOCKHASH, COOKIE_BYTES, COOKIE_BYTES, 1, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    made = libc.syscall(number, MAP_CREATE, attributes, len(attributes))
    if made >= 0:
        os.close(made)
        return ""
    error = ctypes.get_errno()
    if error == errno.EPERM:
        return "only root may load programs into the kernel"
    if error in {errno.EINVAL, errno.ENOSYS}:
        return "this kernel was built without maps of sockets (CONFIG_BPF_STREAM_PARSER)"
    return f"the kernel gives no map of sockets: {os.strerror(error)}"


if __name__ == "__main__":
    if reason := lack():
        sys.exit(reason)
