"""A measurement must not feel the pages: where their threads run, and where jobs do."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from jissoku.system.background import background_cores, call_in_idle_class, on_cores
from jissoku.ui import server
from tests.ui.measurement import measured, post, wait_for
from tests.ui.test_jobs import state

# Several waits, each with a limit of its own.
pytestmark = pytest.mark.timeout(200)

IS_PERMITTED = call_in_idle_class(lambda: os.sched_getscheduler(0)) == os.SCHED_IDLE
needs_idle_class = pytest.mark.skipif(not IS_PERMITTED, reason="SCHED_IDLE is refused here")


@needs_idle_class
def test_the_idle_class_does_not_reach_the_caller() -> None:
    def work() -> tuple[int, int]:
        inherited = subprocess.run(
            [sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"],
            stdout=subprocess.PIPE,
            check=True,
        )
        return os.sched_getscheduler(0), int(inherited.stdout)

    assert call_in_idle_class(work) == (os.SCHED_IDLE, os.SCHED_IDLE)
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_a_failure_reaches_the_caller() -> None:
    def fail() -> None:
        raise OSError("in use")

    with pytest.raises(OSError, match="in use"):
        call_in_idle_class(fail)


def test_a_thread_comes_back_to_its_cores() -> None:
    before = os.sched_getaffinity(0)
    some = {min(before)}
    with on_cores(some):
        assert os.sched_getaffinity(0) == some
    assert os.sched_getaffinity(0) == before


def test_a_job_has_the_normal_class_and_all_cores(
    tmp_path: Path, index_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In the idle class a page would wait for a machine that has nothing else to do.
    monkeypatch.setattr(server, "call_in_idle_class", lambda work: work())
    every, ours = os.sched_getaffinity(0), background_cores()
    with measured(tmp_path / "runs", index_cache, is_background=True) as live:
        assert os.sched_getaffinity(0) == ours
        job = post(live.client, "/start/compare", ("target", "jissoku"))
        wait_for(lambda: "class " in live.client.get(job).text)
        cores = ",".join(map(str, sorted(every)))
        assert f"class {os.SCHED_OTHER}, cores {cores}\n" in live.client.get(job).text
        live.say("exit 0")
        wait_for(lambda: state(live, job) == "ended")
    assert os.sched_getaffinity(0) == every


@pytest.mark.slow
@needs_idle_class
def test_the_command_runs_off_the_servers_cores_and_serves_in_the_idle_class(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "jissoku", "ui", "--port", "0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert "/enter?token=" in process.stdout.readline()
            found = threads(process.pid)
        finally:
            process.send_signal(signal.SIGINT)
    assert found[process.pid][0] == os.SCHED_OTHER
    assert os.SCHED_IDLE in [policy for policy, _ in found.values()]
    assert all(cores == background_cores() for _, cores in found.values())


SERVING = """
import gc, os, signal, sys
from pathlib import Path
from jissoku.ui.server import UiConfig, serve_pages
def announce(link):
    print(gc.get_freeze_count())
    os.kill(os.getpid(), signal.SIGINT)
serve_pages(UiConfig(listen="127.0.0.1", port=0, roots=(Path(sys.argv[1]),)), announce)
"""


@pytest.mark.slow
def test_what_was_imported_is_not_collected_again(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVING, str(tmp_path)],
        stdout=subprocess.PIPE,
        check=True,
    )
    assert int(done.stdout) > 10_000


def threads(pid: int) -> dict[int, tuple[int, set[int]]]:
    """Class and cores of each thread of a process."""
    found = {}
    for path in Path(f"/proc/{pid}/task").iterdir():
        thread = int(path.name)
        with suppress(ProcessLookupError):  # It has ended just now.
            found[thread] = os.sched_getscheduler(thread), os.sched_getaffinity(thread)
    return found
