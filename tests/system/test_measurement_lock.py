"""The machine's measurement lock: its holder, rejected processes, and its release."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from jissoku.errors import InputError, JissokuError
from jissoku.system.measurement_lock import (
    FILE_NAME,
    LOAD_NS_MAX,
    PATH_VARIABLE,
    SHARED_FOLDERS,
    Holder,
    is_measuring,
    load_seconds_left,
    load_window,
    lock_path,
    measurement_lock,
)

# Holds the lock, starts a child as a target is started, says so, and waits.
HOLDS = """
import subprocess, sys
from pathlib import Path
from jissoku.system.measurement_lock import measurement_lock
with measurement_lock("compare", Path(sys.argv[1])):
    child = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    print(child.pid, flush=True)
    sys.stdin.read()
"""


def is_free(path: Path) -> bool:
    try:
        with measurement_lock("run", path):
            return True
    except InputError:
        return False


def test_a_display_sees_a_measurement_without_disturbing_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_measuring(path)
    with measurement_lock("compare", path):
        assert is_measuring(path)
    assert not is_measuring(path)
    locks = tmp_path / "locks"
    inode = path.stat().st_ino
    locks.write_text(f"1: -> FLOCK  ADVISORY  WRITE 7 fe:00:{inode} 0 EOF\n2: POSIX\n")
    assert not is_measuring(path, locks)
    assert not is_measuring(path, tmp_path / "gone")


def test_a_second_measurement_is_refused_with_the_holder_of_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with measurement_lock("compare", path):
        words = rf"`jissoku compare`, process {os.getpid()}, since .* UTC"
        with pytest.raises(InputError, match=words), measurement_lock("tune", path):
            pass
    assert is_free(path)


def test_a_holder_that_cannot_be_read_is_refused_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with measurement_lock("compare", path):
        path.write_bytes(b"nonsense")
        with pytest.raises(InputError, match="another measurement runs on this machine"):
            measurement_lock("tune", path).__enter__()


def test_an_error_releases_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with pytest.raises(ZeroDivisionError), measurement_lock("compare", path):
        raise ZeroDivisionError
    assert is_free(path)


def test_the_lock_goes_with_its_holder_though_a_child_lives_on(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    try:
        assert not is_free(path)
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
        os.kill(child, 0)
        assert is_free(path)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JissokuError, match="cannot be opened"):
        is_free(tmp_path / "lock")
    assert not (tmp_path / "elsewhere").exists()


def test_every_user_can_open_the_file(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        assert is_free(tmp_path / "lock")
    finally:
        os.umask(before)
    assert (tmp_path / "lock").stat().st_mode & 0o666 == 0o666


def test_the_first_folder_that_all_can_write_is_taken(tmp_path: Path) -> None:
    own, shared = tmp_path / "own", tmp_path / "shared"
    own.mkdir(mode=0o755)
    shared.mkdir()
    shared.chmod(0o1777)
    folders = (tmp_path / "missing", own, shared)
    assert lock_path({"XDG_RUNTIME_DIR": "/of/a/user"}, folders) == shared / FILE_NAME
    assert lock_path({"XDG_RUNTIME_DIR": str(own)}, (own,)) == own / FILE_NAME
    assert lock_path({PATH_VARIABLE: "/x/lock"}, folders) == Path("/x/lock")
    with pytest.raises(JissokuError, match=PATH_VARIABLE):
        lock_path({}, (own,))
    assert lock_path({}).parent in SHARED_FOLDERS


def test_the_holder_is_written_with_its_verb(tmp_path: Path) -> None:
    with measurement_lock("sweep", tmp_path / "lock"):
        holder = msgspec.json.decode((tmp_path / "lock").read_bytes(), type=Holder)
    assert (holder.pid, holder.verb) == (os.getpid(), "sweep")


HOUR_NS = 3_600_000_000_000


def test_load_is_announced_while_it_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with measurement_lock("compare", path):
        assert load_seconds_left(path) == 0
        with load_window(LOAD_NS_MAX // 2):
            assert 0 < load_seconds_left(path) <= LOAD_NS_MAX / 2e9
        assert load_seconds_left(path) == 0
        with load_window(1):
            assert load_seconds_left(path) == 0, "it is over"
        words = f"`jissoku compare`, process {os.getpid()}"
        with pytest.raises(InputError, match=words), measurement_lock("tune", path):
            pass


def test_without_the_lock_nothing_is_announced(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with load_window(HOUR_NS):
        assert not path.exists()
    path.write_bytes(msgspec.json.encode(Holder(pid=1, verb="run", since_utc="")))
    before = path.read_bytes()
    with load_window(HOUR_NS):
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
        with pytest.raises(ZeroDivisionError), load_window(LOAD_NS_MAX // 2):
            raise ZeroDivisionError
        assert load_seconds_left(path) == 0
