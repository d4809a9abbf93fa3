"""After the lab is killed, no process of it is left."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jissoku.system.address import Address
from jissoku.system.process_session import ProcessSession
from jissoku.system.processes import start_ticks
from jissoku.targets import process
from jissoku.targets.placeholders import BuildPaths
from jissoku.targets.process import LaunchOptions
from jissoku.targets.supervisor import (
    MARK,
    UNKNOWN_PID,
    Message,
    Supervisor,
    supervise,
    supervisor,
)
from tests.targets.conftest import SERVER, script

# A lab that starts a target, and a process of its own beside it, and waits to be killed.
LAB = """
import subprocess, sys
from pathlib import Path
from jissoku.targets import contract, launch, process
from jissoku.targets.command import from_command
from jissoku.targets.placeholders import BuildPaths
from jissoku.targets.process import LaunchOptions
from jissoku.model import Workload
folder = Path(sys.argv[1])
place = BuildPaths(cache=folder / "cache", files=contract.make_files(folder / "files"))
prepared = from_command(f"mine={sys.executable} {folder}/target.py {{port}}", place)
placement = LaunchOptions(port=int(sys.argv[2]), cores=(int(sys.argv[3]),), workers=1, seed=1)
running = process.start(prepared, placement)
launch.wait_until_ready(running, Workload())
beside = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(running.pid, beside.pid, running._child.folder, flush=True)
sys.stdin.read()
"""

# A master that wipes its environment, as nginx does to set its title, and forks workers: one in
# its session, and one in a session of its own.
FORKING = """
listener = listen()
if os.fork() and os.fork():
    signal.pause()
if os.getppid() == os.getsid(0) and not os.fork():
    os.setsid()
serve(listener)
"""


class Lab:
    """A lab in a process of its own; its standard error ends when its supervisor has ended."""

    def __init__(self, folder: Path, placement: LaunchOptions) -> None:
        words = [str(folder), str(placement.port), str(placement.cores[0])]
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAB, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(folder)},
        )
        assert self.process.stdout is not None
        target, beside, started_in = self.process.stdout.readline().split()
        self.target, self.beside, self.folder = int(target), int(beside), Path(started_in)

    def members(self, placement: LaunchOptions) -> set[int]:
        address = Address(port=placement.port or 0)
        return ProcessSession(self.target, b"-", 0, address).members()

    def kill(self) -> str:
        self.process.send_signal(signal.SIGKILL)
        return self.process.communicate()[1]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


@pytest.mark.slow
@pytest.mark.parametrize("code", ["serve(listen())", FORKING], ids=["one process", "workers"])
def test_nothing_is_left_of_a_lab_that_was_killed(
    tmp_path: Path, placement: LaunchOptions, code: str
) -> None:
    (tmp_path / "target.py").write_text(SERVER + code)
    lab = Lab(tmp_path, placement)
    assert lab.members(placement)
    assert is_alive(lab.beside)
    assert lab.folder.exists()
    assert lab.kill() == ""
    assert lab.members(placement) == set()
    assert not is_alive(lab.beside)
    assert not lab.folder.exists()


def test_a_supervisor_that_was_killed_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARK, supervisor()._mark)
    made = Supervisor()
    try:
        session = ProcessSession(os.getpid(), b"A=1", start_ticks(os.getpid()), Address())
        made.watch(session, tmp_path)
        first = made.pid
        os.kill(first, signal.SIGKILL)
        os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
        made.unwatch(b"A=1")
        assert made.pid != first
        assert is_alive(made.pid)
    finally:
        made.close()
    assert not is_alive(made.pid)


def test_the_supervisor_runs_where_the_lab_does() -> None:
    home = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {max(home)})
        supervisor().announce(b"A=1", Address(), Path("/nowhere"))
        supervisor().unwatch(b"A=1")
        assert os.sched_getaffinity(supervisor().pid) == {max(home)}
    finally:
        os.sched_setaffinity(0, home)


def test_a_target_that_stopped_is_forgotten(
    place: BuildPaths, tmp_path: Path, placement: LaunchOptions
) -> None:
    watched = dict(supervisor()._watched)
    with process.start(script(place, tmp_path, "serve(listen())"), placement) as running:
        (mark,) = set(supervisor()._watched) - set(watched)
        target = supervisor()._watched[mark].target
        assert target is not None
        assert target.pid == running.pid
    assert supervisor()._watched == watched


def lab(mark: bytes) -> bytes:
    return Message(lab=ProcessSession(UNKNOWN_PID, mark, 0, Address())).line()


def test_a_lab_without_a_mark_has_left_nothing() -> None:
    assert supervise([]) == []
    with pytest.raises(AssertionError, match="every environment ends with an empty entry"):
        supervise([lab(b"")])


def test_who_says_that_it_is_done_keeps_what_it_started(tmp_path: Path) -> None:
    with subprocess.Popen(["/bin/sleep", "600"], env={"A": "1"}) as child:
        session = ProcessSession(UNKNOWN_PID, b"A=1", start_ticks(child.pid), Address(port=1))
        folder = tmp_path / "folder"
        folder.mkdir()
        text = Message(target=session, folder=str(folder)).line()
        assert supervise([text, Message(done=True).line()]) == []
        assert child.poll() is None
        assert supervise([text, Message(forget=b"A=1").line(), lab(b"B=1")]) == []
        assert child.poll() is None
        assert folder.exists()
        assert supervise([text, lab(b"B=1")]) == []
        assert child.wait() == -signal.SIGTERM
        assert not folder.exists()


def test_the_folder_of_a_killed_lab_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    session = ProcessSession(UNKNOWN_PID, b"C=" + str(tmp_path).encode(), 0, Address())
    named = Message(lab=session, folder=str(folder)).line()
    assert supervise([named, Message(done=True).line()]) == []
    assert folder.is_dir(), "the lab removes it itself"
    assert supervise([named]) == []
    assert not folder.exists()
