"""Keys and values that the processes of a server share: `jissoku.store`.

Every worker process, and every script beside them, sees the same entries; see docs/store.md. The
laboratory does not use this module.

    from jissoku import store

    sessions = store.open("sessions")          # [store.sessions] of the configuration file
    sessions.put("anna", b"...", ttl=3600)
    sessions.get("anna")
    sessions.increment("visits")
"""

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from jissoku import _native

# Text stands for its bytes in UTF-8.
Text = str | bytes

# Keys with their values; None removes a key.
Entries = (
    Mapping[str, Text | None] | Mapping[bytes, Text | None] | Iterable[tuple[Text, Text | None]]
)

# Entries that are read at a time, so that a long list keeps no pages from being used again.
_SCAN_COUNT = 1000


@dataclass(frozen=True, slots=True)
class StoreStats:
    """What a store holds.

    Attributes:
        entries: Its entries, with those that have expired and are not removed yet.
        used_bytes: The pages that hold them.
        size_bytes: What they may take at most.
        file_bytes: The file, of which a part may be free.
        ttl_s: The time after which an entry expires; None: never.
        durability: `memory`, `lazy` or `durable`.
        when_full: `refuse` or `drop`.
    """

    entries: int
    used_bytes: int
    size_bytes: int
    file_bytes: int
    ttl_s: float | None
    durability: str
    when_full: str


class Store:
    """A store that is open. Its methods may be called by any thread; each is one transaction.

    Keys have 1 to 500 bytes, values up to 16 MiB. Text is stored in UTF-8; what is read is bytes.

    Times to live (`ttl`) are in seconds. None is the one of the store, and `math.inf` never. An
    entry that has expired is as one that does not exist.

    Every method raises:
        ValueError: A key, a value or a time is invalid.
        OSError: The files cannot be used. `errno` is ENOSPC if the store is full.
    """

    def __init__(self, arguments: tuple[str, str | None, str | None, str | None, str, str]) -> None:
        """Opens it, with the arguments that `open` of this module makes of its own."""
        self._arguments = arguments
        self._native: _native.Store | None = None
        _stores.add(self)
        if notice := self._opened.notice:
            warnings.warn(notice, RuntimeWarning, stacklevel=3)

    @property
    def _opened(self) -> "_native.Store":
        # After a fork, the child opens it again: locks are those of a process.
        if self._native is None:
            # The package is imported without the extension, too.
            from jissoku import _native  # noqa: PLC0415

            self._native = _native.Store(*self._arguments)
        return self._native

    def get(self, key: Text) -> bytes | None:
        """Returns the value of a key; None if it has none."""
        return self._opened.get(_bytes(key))

    def put(self, key: Text, value: Text, *, ttl: float | None = None) -> None:
        """Writes the value of a key."""
        self._opened.put(_bytes(key), _bytes(value), ttl, if_absent=False)

    def put_many(self, entries: Entries, *, ttl: float | None = None) -> None:
        """Writes all of them in their order, or none if it fails; None as a value removes the key.

        It is one transaction: others see all of it or nothing. It takes less time than single
        writes, and what else writes waits meanwhile. An error names the entry, as `entries[2]`.
        """
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        given = [(_bytes(key), None if value is None else _bytes(value)) for key, value in pairs]
        self._opened.put_many(given, ttl)

    def put_if_absent(self, key: Text, value: Text, *, ttl: float | None = None) -> bool:
        """Writes the value of a key that has none; returns whether it had none."""
        return self._opened.put(_bytes(key), _bytes(value), ttl, if_absent=True)

    def compare_and_swap(
        self, key: Text, expected: Text | None, value: Text, *, ttl: float | None = None
    ) -> bool:
        """Writes the value of a key that has the value `expected`, or none; returns whether it had.

        Another process may write at any time: read, compute, swap, and begin again after False.
        """
        old = None if expected is None else _bytes(expected)
        return self._opened.compare_and_swap(_bytes(key), old, _bytes(value), ttl)

    def increment(self, key: Text, by: int = 1, *, ttl: float | None = None) -> int:
        """Adds to the number of a key, and returns the sum; exact over all processes.

        A key without a value has 0, and gets this time to live. One with a value keeps the time
        that it has, so that a counter of a minute ends after a minute. Its value is decimal text.
        """
        return self._opened.increment(_bytes(key), by, ttl)

    def delete(self, key: Text) -> bool:
        """Removes a key; returns whether it had a value."""
        return self._opened.delete(_bytes(key))

    def scan(self, prefix: Text = b"") -> Iterator[tuple[bytes, bytes]]:
        """The entries whose keys begin with `prefix`, in the order of the bytes of their keys.

        A thousand at a time are read: what is written meanwhile may be among them, or not.
        """
        first, after = _bytes(prefix), None
        while entries := self._opened.scan(first, after, _SCAN_COUNT):
            yield from entries
            after = entries[-1][0]

    def sync(self) -> None:
        """Waits until all that was written is on the disk."""
        self._opened.sync()

    def stats(self) -> StoreStats:
        """Returns what it holds."""
        entries, used, size, file, ttl_ms, durability, when_full = self._opened.stats()
        ttl_s = None if ttl_ms is None else ttl_ms / 1000
        return StoreStats(entries, used, size, file, ttl_s, durability, when_full)


_stores: WeakSet[Store] = WeakSet()


def open(  # noqa: A001 - as io.open, shelve.open and dbm.open
    name: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    size: int | str | None = None,
    ttl: float | str | None = None,
    durability: str | None = None,
    when_full: str | None = None,
) -> Store:
    """Opens a store.

    Without options it exists, and has those that it was created with: by `[store.NAME]`, or by the
    first call. With `size`, and other options, it is created if there is none. All processes that
    have it open at the same time have the same options, but for `ttl`.

    Args:
        name: 1 to 64 letters, digits, `-` and `_`.
        folder: Where the stores are; by default where those of the server are.
        size: What its entries may take, in bytes or as text such as `"256MiB"`.
        ttl: The time after which an entry expires, in seconds or as text such as `"1h"`; by default
            entries do not expire.
        durability: What survives: with `memory`, the end of all processes; with `lazy`, the
            default, also a failure of power, but for the last second; with `durable`, all.
        when_full: What happens to a write that does not fit: with `refuse`, the default, it fails;
            with `drop` the entries that were written least recently make room.

    Raises:
        FileNotFoundError: There is no such store.
        ValueError: An option is invalid, or others have opened it with another one.
        OSError: Its files cannot be used.

    Warns:
        RuntimeWarning: Its file was damaged. It was renamed, and the store is empty.
    """
    if size is None and (ttl, durability, when_full) != (None, None, None):
        raise ValueError("options of a store need its size")
    return Store(
        (
            name,
            None if folder is None else os.fspath(folder),
            None if size is None else str(size),
            None if ttl is None else str(ttl),
            durability or "lazy",
            when_full or "refuse",
        )
    )


def _bytes(text: Text) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _forget_after_fork() -> None:
    for store in _stores:
        store._native = None  # noqa: SLF001 - of this module


os.register_at_fork(after_in_child=_forget_after_fork)
