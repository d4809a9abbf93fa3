"""What threads wait for, read from /proc without stopping them.

A thread that does not run is in a system call, whose number and first argument are in
/proc/PID/task/TID/syscall for who may trace the process; the kernel's function in which it sleeps
is in wchan for every other user.
"""

import platform
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from jissoku.system.address import Peers
from jissoku.system.processes import read_living, read_stat, tasks

SLEEPS = frozenset("SD")

# Calls in which servers wait, by their numbers (asm/unistd_64.h, asm-generic/unistd.h).
NUMBERS = {
    "x86_64": """
        read:0 write:1 poll:7 pread64:17 pwrite64:18 readv:19 writev:20 select:23
        nanosleep:35 sendfile:40 connect:42 accept:43 sendto:44 recvfrom:45 sendmsg:46
        recvmsg:47 wait4:61 fcntl:72 flock:73 fsync:74 fdatasync:75 rt_sigtimedwait:128
        futex:202 clock_nanosleep:230 epoll_wait:232 waitid:247 openat:257 pselect6:270
        ppoll:271 epoll_pwait:281 accept4:288 io_uring_enter:426 epoll_pwait2:441
        futex_waitv:449
    """,
    "aarch64": """
        epoll_pwait:22 fcntl:25 flock:32 openat:56 read:63 write:64 readv:65 writev:66
        pread64:67 pwrite64:68 sendfile:71 pselect6:72 ppoll:73 fsync:82 fdatasync:83
        waitid:95 futex:98 nanosleep:101 clock_nanosleep:115 rt_sigtimedwait:137 accept:202
        connect:203 sendto:206 recvfrom:207 sendmsg:211 recvmsg:212 accept4:242 wait4:260
        io_uring_enter:426 epoll_pwait2:441
    """,
}

# Calls whose first argument is no descriptor.
WITHOUT_DESCRIPTOR = frozenset(
    (
        *("poll", "select", "pselect6", "ppoll", "nanosleep", "clock_nanosleep", "wait4", "waitid"),
        *("futex", "futex_waitv", "rt_sigtimedwait", "openat"),
    )
)

POLLS = frozenset(["poll", "ppoll"])

# The kernel's functions, where the call itself may not be read.
FUNCTIONS = {
    "ep_poll": "epoll_wait",
    "hrtimer_nanosleep": "clock_nanosleep",
    "futex_wait_queue": "futex",
    "futex_wait_queue_me": "futex",
    "futex_do_wait": "futex",
    "poll_schedule_timeout.constprop.0": "poll",
    "do_poll.constprop.0": "poll",
    "do_wait": "wait4",
    "inet_csk_accept": "accept",
    "pipe_read": "read",
    "pipe_write": "write",
    "anon_pipe_read": "read",
    "anon_pipe_write": "write",
}

_PAIRS = (pair.split(":") for pair in NUMBERS.get(platform.machine(), "").split())
_NAMES = {int(number): name for name, number in _PAIRS}


def places(pids: Iterable[int], peers: Peers) -> dict[tuple[int, int, str], str]:
    """Where each thread (process, thread, name) waits: a call and what it waits for.

    Empty for a thread that runs or is ready.
    """
    found = read_living(tasks(pids), lambda task: (_name(task), _place(task, peers)))
    return {(int(task.parts[-3]), int(task.name), name): place for task, (name, place) in found}


class _Wait(msgspec.Struct, frozen=True):
    """How often a thread was met in a call, by its number, and in a function of Python."""

    thread: int
    call: int
    function: str
    count: int


@contextmanager
def python_functions(root: int, cores: Sequence[int]) -> Iterator[dict[int, dict[str, str]]]:
    """Functions of Python in which threads of a process tree wait meanwhile.

    By thread and call, known at the end; none of other programs, and where none may be read.
    `cores` are those of the sampler.
    """
    own = ",".join(map(str, cores))
    command = [sys.executable, "-m", "jissoku", "sample", "--waiting", "--cores", own, str(root)]
    found: dict[int, dict[str, str]] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as sampler:
        try:
            yield found
        finally:
            sampler.send_signal(signal.SIGINT)
            text, _ = sampler.communicate()
    waits = msgspec.json.decode(text or b"[]", type=list[_Wait])
    for one in sorted(waits, key=lambda one: one.count):  # The most frequent one comes last.
        if one.call in _NAMES:
            found.setdefault(one.thread, {})[_NAMES[one.call]] = one.function


def _name(task: Path) -> str:
    return (task / "comm").read_text().strip()


def _place(task: Path, peers: Peers) -> str:
    if read_stat(task).state not in SLEEPS:
        return ""
    try:
        fields = (task / "syscall").read_text().split()
    except PermissionError:
        fields = []
    if fields[:1] == ["running"]:
        return ""
    name = _NAMES.get(int(fields[0])) if fields else None
    if name is None:
        function = (task / "wchan").read_text().strip()
        return FUNCTIONS.get(function, function if function != "0" else "another call")
    first, second = (int(field, 16) for field in fields[1:3])
    process = task.parent.parent
    if name in POLLS and second == 1:
        first = _polled(process, first)
    elif name in WITHOUT_DESCRIPTOR or name.startswith("epoll"):
        return name
    return f"{name} {_what(process / 'fd' / str(first), peers)}".strip()


def _polled(process: Path, address: int) -> int:
    """The descriptor of a poll(2), which begins with it."""
    with (process / "mem").open("rb", buffering=0) as memory:
        memory.seek(address)
        return int.from_bytes(memory.read(4), sys.byteorder)


def _what(descriptor: Path, peers: Peers) -> str:
    try:
        name = str(descriptor.readlink())
    except OSError:
        return ""
    return peers.of(name) if name.startswith("socket:") else name.partition(":[")[0]
