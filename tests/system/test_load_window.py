"""Load is announced in the lock file, and only by the lock's holder."""

import os
import time
from pathlib import Path

import msgspec
import pytest

from jissoku.errors import InputError
from jissoku.system.measurement_lock import (
    LOAD_NS_MAX,
    Holder,
    load_seconds_left,
    load_window,
    measurement_lock,
)

HOUR_NS = 3_600_000_000_000


def test_load_is_announced_while_it_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with measurement_lock("compare", path):
        assert load_seconds_left(path) == 0
        with load_window(LOAD_NS_MAX // 2, path):
            assert 0 < load_seconds_left(path) <= LOAD_NS_MAX / 2e9
        assert load_seconds_left(path) == 0
        with load_window(1, path):
            assert load_seconds_left(path) == 0, "it is over"
        words = f"`jissoku compare`, process {os.getpid()}"
        with pytest.raises(InputError, match=words), measurement_lock("tune", path):
            pass


def test_without_the_lock_nothing_is_announced(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with load_window(HOUR_NS, path):
        assert not path.exists()
    path.write_bytes(msgspec.json.encode(Holder(pid=1, verb="run", since_utc="")))
    before = path.read_bytes()
    with load_window(HOUR_NS, path):
        assert path.read_bytes() == before
    assert load_seconds_left(path) == 0


@pytest.mark.parametrize("text", [b"", b"nonsense", b'{"pid": 1, "load_until_ns": "later"}'])
def test_a_file_that_cannot_be_read_announces_nothing(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "lock"
    path.write_bytes(text)
    assert load_seconds_left(path) == 0
    assert load_seconds_left(tmp_path / "gone") == 0


def test_what_is_of_another_boot_or_of_an_ended_process_is_no_load(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    now_ns = time.monotonic_ns()
    gone = int(Path("/proc/sys/kernel/pid_max").read_text())  # Never given to a process.
    for pid, until_ns in ((os.getpid(), now_ns + HOUR_NS), (gone, now_ns + LOAD_NS_MAX // 2)):
        holder = Holder(pid=pid, verb="run", since_utc="", load_until_ns=until_ns)
        path.write_bytes(msgspec.json.encode(holder))
        assert load_seconds_left(path) == 0


def test_an_error_ends_the_announcement(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with measurement_lock("compare", path):
        with pytest.raises(ZeroDivisionError), load_window(LOAD_NS_MAX // 2, path):
            raise ZeroDivisionError
        assert load_seconds_left(path) == 0
