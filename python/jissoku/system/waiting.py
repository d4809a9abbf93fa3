"""What threads wait for, read from /proc without stopping them.

A thread that does not run is in a system call, whose number and first argument are in
/proc/PID/task/TID/syscall for who may trace the process; the kernel's function in which it sleeps
is in wchan for every other user.
"""

import platform
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import msgspec

from jissoku.system.address import Peers
from jissoku.system.processes import read_living, read_stat, tasks
from jissoku.system.program import PROGRAM

SLEEPS = frozenset("SD")

_DATA = tomllib.loads(files("jissoku.system").joinpath("calls.toml").read_text(encoding="utf-8"))
_PAIRS = (pair.split(":") for pair in _DATA["numbers"].get(platform.machine(), "").split())
_NAMES: dict[int, str] = {int(number): name for name, number in _PAIRS}

POLLS = frozenset(["poll", "ppoll"])


def places(pids: Iterable[int], peers: Peers) -> dict[tuple[int, int, str], str]:
    """Where each thread (process, thread, name) waits, and for what; empty if it does not."""
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
    command = [*PROGRAM, "sample", "--waiting", "--cores", own, str(root)]
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
        named: str = _DATA["functions"].get(function, function)
        return named if named != "0" else "another call"
    first, second = (int(field, 16) for field in fields[1:3])
    process = task.parent.parent
    if name in POLLS and second == 1:
        # The descriptor of a poll(2), which begins with it.
        with (process / "mem").open("rb", buffering=0) as memory:
            memory.seek(first)
            first = int.from_bytes(memory.read(4), sys.byteorder)
    elif name in _DATA["without_descriptor"] or name.startswith("epoll"):
        return name
    return f"{name} {_what(process / 'fd' / str(first), peers)}".strip()


def _what(descriptor: Path, peers: Peers) -> str:
    try:
        name = str(descriptor.readlink())
    except OSError:
        return ""
    return peers.of(name) if name.startswith("socket:") else name.partition(":[")[0]
