"""Parses the output of strace: a table of counts, or calls with their thread, text and result."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# A row of `strace -c`: % time, seconds, usecs/call, calls, errors (or nothing), name.
ROW = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?([a-z_]\w*)$")

# strace fills process ids up to five characters.
WHOLE = re.compile(r"(\d+) +(\w+)\((.*)\) += (\S+)(.*)")
BEGUN = re.compile(r"(\d+) +(\w+)\((.*) <unfinished \.\.\.>")
RESUMED = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>(.*)")
PATH = re.compile(r'"((?:[^"\\]|\\.)*)"')
DESCRIPTOR = re.compile(r"-?\d+<(.*?)>")

WAITS = frozenset(
    ["epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6"]
)
ACCEPTS = frozenset(["accept", "accept4"])
OPENS = frozenset(["open", "openat", "openat2", "creat"])
PATH_QUERIES = frozenset(
    ["stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "readlink"]
)
WRITES = frozenset(["write", "writev", "pwrite64", "pwritev", "pwritev2"])


@dataclass(frozen=True, slots=True)
class Call:
    """One system call that ended.

    Attributes:
        text: The text between the parentheses.
    """

    thread: int
    name: str
    text: str
    result: str
    error: str

    @property
    def is_eagain(self) -> bool:
        """Whether it failed with EAGAIN, where it would have had to wait."""
        return self.error.lstrip().startswith("EAGAIN")

    @property
    def has_failed(self) -> bool:
        """Whether its result is an error."""
        return self.result.startswith("-")


def counts_by_name(table: str) -> dict[str, int]:
    """Reads the table of `strace -c`: calls by name."""
    rows = (ROW.match(line) for line in table.splitlines())
    return {row[2]: int(row[1]) for row in rows if row and row[2] != "total"}


def calls(lines: Iterable[str]) -> Iterator[Call]:
    """The calls in the order of their ends; calls split over two lines are joined."""
    begun: dict[tuple[str, str], str] = {}
    for line in lines:
        if unfinished := BEGUN.match(line):
            thread, name, text = unfinished.groups()
            begun[thread, name] = text
            continue
        if resumed := RESUMED.match(line):
            thread, name, rest = resumed.groups()
            line = f"{thread} {name}({begun.pop((thread, name), '')}{rest}"  # noqa: PLW2901
        if found := WHOLE.match(line):
            thread, name, text, result, error = found.groups()
            yield Call(int(thread), name, text, result, error)


def counts(found: Iterable[Call]) -> tuple[Counter[str], Counter[str]]:
    """Number of calls by name, and of those that failed with EAGAIN."""
    everything: Counter[str] = Counter()
    again: Counter[str] = Counter()
    for call in found:
        everything[call.name] += 1
        again[call.name] += call.is_eagain
    return everything, +again


def paths(found: Iterable[Call], names: frozenset[str]) -> Counter[str]:
    """Paths of successful calls of some names, with their numbers."""
    return Counter(
        path[1]
        for call in found
        if call.name in names and not call.has_failed and (path := PATH.search(call.text))
        if path[1]
    )


def written(found: Iterable[Call]) -> Counter[str]:
    """Number of writes by path; without sockets, pipes and files of the kernel."""
    return Counter(
        path[1]
        for call in found
        if call.name in WRITES and (path := DESCRIPTOR.match(call.text))
        if path[1].startswith("/")
    )


def empty_waits(found: Iterable[Call]) -> int:
    """Number of waits that returned no event, with or without a timeout."""
    return sum(call.name in WAITS and call.result == "0" for call in found)


def spurious_wakeups(found: Iterable[Call]) -> int:
    """Number of wake-ups after which the first accept failed with EAGAIN."""
    count = 0
    is_fresh: dict[int, bool] = {}
    for call in found:
        if call.name in WAITS:
            is_fresh[call.thread] = not call.has_failed and call.result != "0"
        elif call.name in ACCEPTS:
            count += call.is_eagain and is_fresh.get(call.thread, False)
            is_fresh[call.thread] = False
    return count


def upstream_connections(found: Iterable[Call]) -> int:
    """Number of connections opened to another process, completed or not."""
    return sum(
        call.name == "connect" and (not call.has_failed or "EINPROGRESS" in call.error)
        for call in found
    )
