"""Failures around a campaign are recorded, and no finished trial is lost.

Each campaign here is a separate process, started as by a user. No test asserts a duration: a test
waits for a condition, or for the end of the output that the campaign and its supervisor share.
"""

import fcntl
import itertools
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from jissoku import records
from jissoku.targets.process import MARK as TARGET_MARK
from jissoku.targets.supervisor import MARK as LAB_MARK

pytestmark = [pytest.mark.race, pytest.mark.timeout(280)]

COMPARE = [sys.executable, "-m", "jissoku", "compare", "jissoku", "http-server"]

# Between two looks at a campaign; it writes seldom.
LOOK_S = 0.02
EOF_LIMIT_S = 120.0


class Campaign:
    """A running campaign, and its standard error so far."""

    def __init__(self, folder: Path, *options: str, wrapper: tuple[str, ...] = ()) -> None:
        self.folder = folder
        read, write = os.pipe()
        command = [*wrapper, *COMPARE, "--out", str(folder), *options]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=write, stderr=write
        )
        os.close(write)
        self._read = read
        self._said = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.end()
        os.close(self._read)

    def until(self, is_so: Callable[[], object]) -> None:
        """Waits for a condition, for as long as the campaign runs."""
        while not is_so():
            assert self.process.poll() is None, self._said.decode()
            self.look()

    def look(self) -> None:
        """Reads available output, or waits a moment for it."""
        if select.select([self._read], [], [], LOOK_S)[0]:
            with suppress(OSError):  # A terminal whose other end is closed.
                self._said += os.read(self._read, 65536)

    def end(self) -> tuple[int, str]:
        """Reads until all writers have ended: the campaign and its supervisor.

        Returns:
            The exit code, and what was written to standard error.
        """
        while select.select([self._read], [], [], EOF_LIMIT_S)[0]:
            if not (found := os.read(self._read, 65536)):
                break
            self._said += found
        return self.process.wait(), self._said.decode()

    def lines(self) -> list[bytes]:
        """The finished lines of its record."""
        path = self.folder / "trials.jsonl"
        return path.read_bytes().splitlines(keepends=True) if path.exists() else []

    def load_generator(self) -> int | None:
        """The process that sends load, while there is one."""
        return next((pid for pid in children(self.process.pid) if is_command(pid, "load")), None)

    def supervisor(self) -> int:
        """The supervisor, which ends the processes of a killed campaign."""
        return next(
            pid
            for pid in children(self.process.pid)
            if is_command(pid, "jissoku.targets.supervisor")
        )

    def left(self) -> dict[int, bytes]:
        """Running processes with one of the campaign's marks, and their command lines."""
        marks = [f"{name}={self.process.pid}-".encode() for name in (TARGET_MARK, LAB_MARK)]
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if any(mark in (entry / "environ").read_bytes() for mark in marks):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:
                continue
        return found


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, task.read_text().split())
        except OSError:
            continue
    return found


def is_command(pid: int, word: str) -> bool:
    try:
        return word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Seen:
    """A thread at one instant: where it may run, where it ran last, and its ticks of CPU time."""

    allowed: frozenset[int]
    core: int
    ticks: int


def threads(pid: int) -> dict[int, Seen]:
    found = {}
    for task in Path(f"/proc/{pid}/task").glob("[0-9]*"):
        try:
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            allowed = frozenset(os.sched_getaffinity(int(task.name)))
        except OSError:
            continue
        ticks = int(fields[11]) + int(fields[12])
        found[int(task.name)] = Seen(allowed, int(fields[36]), ticks)
    return found


class OnTerminal(Campaign):
    """A campaign whose standard error is a terminal, so that it draws its progress bar."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self._read, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        self.process = subprocess.Popen(
            [*COMPARE, "--out", str(folder), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=terminal,
            env=os.environ | {"TERM": "xterm"},
        )
        os.close(terminal)
        self._said = b""

    def end(self) -> tuple[int, str]:
        """Reading a terminal whose other end is closed is an error."""
        try:
            return super().end()
        except OSError:
            return self.process.wait(), self._said.decode()


def test_no_thread_of_the_lab_may_run_on_the_servers_cores(tmp_path: Path) -> None:
    samples: list[tuple[int, dict[int, Seen]]] = []
    with OnTerminal(tmp_path / "run", "--blocks", "1") as campaign:

        def sample() -> None:
            """Keeps observations made while one load generator runs, when no target is started: a
            thread that starts one moves to the target's cores for that moment.
            """
            generator = campaign.load_generator()
            if generator is not None:
                seen = threads(campaign.process.pid) | threads(campaign.supervisor())
                if campaign.load_generator() == generator:
                    samples.append((generator, seen))

        while campaign.process.poll() is None:
            sample()
            campaign.look()
        code, said = campaign.end()
    assert code in {0, 4}, said
    run, _ = records.read(tmp_path / "run")
    if run.cores.shared:
        pytest.skip("one physical core: server and lab share it")
    server = set(run.cores.server)
    assert "trials" in said, "the progress bar was drawn"
    assert len({generator for generator, _ in samples}) > 3
    for _, seen in samples:
        for thread in seen.values():
            assert not thread.allowed & server
    for (generator, earlier), (same, later) in itertools.pairwise(samples):
        for thread_id, now in later.items() if generator == same else ():
            before = earlier.get(thread_id, now)
            assert now.core not in server or now.ticks == before.ticks


def test_kill_9_leaves_no_process_and_every_finished_trial(tmp_path: Path) -> None:
    with Campaign(tmp_path / "run") as campaign:
        campaign.until(lambda: len(campaign.lines()) >= 2 and campaign.load_generator())
        generator = campaign.load_generator()
        assert generator is None or generator in campaign.left()
        assert len(campaign.left()) >= 2, "a target and the load generator"
        campaign.process.kill()
        code, said = campaign.end()
        assert (code, "could not be ended" in said) == (-signal.SIGKILL, False)
        assert campaign.left() == {}
        finished = [line for line in campaign.lines() if line.endswith(b"\n")]
        with (campaign.folder / "trials.jsonl").open("ab") as file:
            file.write(b'{"schema": "jissoku.trial/2", "ind')
        _, trials = records.read(campaign.folder)
        assert len(trials) == len(finished) >= 2
        assert "or its process was killed" in records.unfinished_reason(campaign.folder)
    done = subprocess.run(
        [sys.executable, "-m", "jissoku", "report", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, 1, 4}, done.stderr
    assert "is not a finished run: it is still being measured, or its process" in done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of some pages: the header and a few trials."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", str(folder)]
    if not mount or not unmount or subprocess.run(command, check=False).returncode:
        pytest.skip("no small file system can be mounted here: it takes root")
    yield folder
    subprocess.run([unmount, str(folder)], check=True)


def is_reported(campaign: Campaign, cause: str) -> None:
    code, said = campaign.end()
    assert code == 1, said
    assert "Traceback" not in said
    assert f"cannot be written to {campaign.folder}: {cause}" in said
    assert "is not a finished run: its records could not be written" in said
    assert campaign.left() == {}
    _, trials = records.read(campaign.folder)
    assert len(trials) >= 1
    assert [trial.index for trial in trials] == list(range(len(trials)))
    assert (
        records.unfinished_reason(campaign.folder) == f"its records could not be written: {cause}"
    )


def test_a_full_disk_keeps_what_was_finished(small_disk: Path) -> None:
    with Campaign(small_disk / "run") as campaign:
        is_reported(campaign, "No space left on device")


def test_a_limit_on_files_keeps_what_was_finished(tmp_path: Path) -> None:
    prlimit = shutil.which("prlimit")
    if not prlimit:
        pytest.skip("no prlimit: it comes with util-linux")
    with Campaign(tmp_path / "run", wrapper=(prlimit, "--fsize=20000")) as campaign:
        is_reported(campaign, "File too large")


DAY_NS = 86_400_000_000_000

# Every reading of the wall clock is a day away from the one before; CLOCK_MONOTONIC is left alone.
STEPPING_CLOCK = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long step(void) {
    static long count;
    return (__atomic_add_fetch(&count, 1, __ATOMIC_RELAXED) % 2 ? 1 : -1) * 86400;
}
int clock_gettime(clockid_t clock, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, clock, at);
    int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (!failed && is_wall) at->tv_sec += step();
    return failed;
}
int gettimeofday(struct timeval *at, void *zone) {
    int failed = syscall(SYS_gettimeofday, at, zone);
    if (!failed && at) at->tv_sec += step();
    return failed;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


@pytest.fixture
def stepping_clock(tmp_path: Path) -> str:
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no cc: the clock is replaced by a few lines of C")
    (tmp_path / "clock.c").write_text(STEPPING_CLOCK)
    library = str(tmp_path / "clock.so")
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", library, str(tmp_path / "clock.c")]
    subprocess.run(command, check=True)
    return library


def test_a_clock_that_steps_changes_no_duration(
    tmp_path: Path, stepping_clock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_PRELOAD", stepping_clock)
    reading = "import time; a = time.time(); b = time.time(); print(abs(b - a) > 80_000)"
    probe = subprocess.run(
        [sys.executable, "-c", reading], capture_output=True, text=True, check=True
    )
    assert probe.stdout == "True\n", "the clock steps"
    with Campaign(tmp_path / "run", "--blocks", "1") as campaign:
        code, said = campaign.end()
    assert code in {0, 4}, said
    _, trials = records.read(tmp_path / "run")
    measured = [trial for trial in trials if trial.failure is None]
    assert measured
    for trial in measured:
        for measurement in trial.measurements:
            assert abs(measurement.duration_ns - trial.window_ns) < DAY_NS // 2
            assert 0 <= measurement.latency_ns.min <= measurement.latency_ns.max < DAY_NS // 2
        assert "latency-order" not in {check.name for check in trial.failed_checks}
