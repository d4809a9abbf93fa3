"""Who runs where: server and stopwatch on different physical cores."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from jissoku.errors import InputError
from jissoku.model import Cores

TOPOLOGY = Path("/sys/devices/system/cpu")


def allowed() -> tuple[int, ...]:
    """Cores this process may use, ascending, as the kernel numbers them."""
    return tuple(sorted(os.sched_getaffinity(0)))


def parse(text: str) -> tuple[int, ...]:
    """Reads a list such as `0,2-3`.

    Raises:
        InputError: It is no such list, or names a core that this process may not use.
    """
    try:
        found = _read(text)
    except ValueError:
        raise InputError(f"{text!r} is no list of cores: write for example 0,2-3") from None
    strangers = found - set(allowed())
    if strangers or not found:
        usable = ",".join(map(str, allowed()))
        raise InputError(f"{text!r} names no cores that can be used here: there are {usable}")
    return tuple(sorted(found))


def siblings(core: int, topology: Path = TOPOLOGY) -> frozenset[int]:
    """The logical cores that share one physical core with `core`, itself included."""
    path = topology / f"cpu{core}" / "topology" / "thread_siblings_list"
    try:
        text = path.read_text().strip()
    except OSError:
        return frozenset({core})
    return frozenset(_read(text))


def split(cores: Iterable[int], topology: Path = TOPOLOGY) -> Cores:
    """Gives the first half of the physical cores to the server, the rest to the stopwatch.

    An odd core goes to the stopwatch: a generator that is the bottleneck spoils a trial, an idle
    one does not. With one physical core both share it, and the run is stamped so.
    """
    usable = set(cores)
    groups = sorted({tuple(sorted(siblings(core, topology) & usable)) for core in usable})
    if len(groups) < 2:
        everything = tuple(sorted(usable))
        return Cores(server=everything, stopwatch=everything, shared=True)
    half = len(groups) // 2
    return Cores(
        server=tuple(sorted(core for group in groups[:half] for core in group)),
        stopwatch=tuple(sorted(core for group in groups[half:] for core in group)),
    )


@contextmanager
def pinned(cores: Iterable[int]) -> Iterator[None]:
    """Keeps this process, and what it starts meanwhile, on `cores`."""
    home = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(cores))
    try:
        yield
    finally:
        os.sched_setaffinity(0, home)


def _read(text: str) -> set[int]:
    """The kernel's own way of writing lists: `0,2-3`."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        found.update(range(int(first), int(last if dash else first) + 1))
    return found
