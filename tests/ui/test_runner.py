"""What starts jobs: nothing beside another measurement, and it outlives what goes wrong."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from jissoku.system.measurement_lock import PATH_VARIABLE, measurement_lock
from jissoku.ui import jobs
from jissoku.ui.jobs import Job, JobQueue, JobState, Runner, log_file
from tests.ui.measurement import measured, post, states, wait_for

pytestmark = pytest.mark.timeout(200)

# A job that ends at once, whatever its arguments are.
DONE = (sys.executable, "-c", "")


@pytest.fixture(autouse=True)
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path / "lock"))
    monkeypatch.setattr(jobs, "ADOPTED_LOOK_S", 0.02)


def queued(folder: Path, count: int) -> JobQueue:
    queue = JobQueue(folder)
    for number in range(count):
        queue.add(f"job {number}", ("compare",), folder / str(number))
    return queue


def ended(queue: JobQueue, command: Sequence[str]) -> list[Job]:
    """All jobs, after a runner has run them."""
    with Runner(queue, command):
        wait_for(lambda: not any(job.is_live for job in queue.jobs()))
    queue.close()
    return list(queue.jobs())


def test_a_job_waits_for_a_measurement_that_was_started_elsewhere(
    tmp_path: Path, index_cache: Path
) -> None:
    with measured(tmp_path / "runs", index_cache) as live:
        with measurement_lock("compare"):
            job, gone = (
                post(live.client, "/start/compare", ("target", "jissoku")) for _ in range(2)
            )
            text = live.client.get(job).text
            assert "it is the next one, after the measurement that runs on this machine" in text
            assert "It starts after " in text
            assert "starts after the measurement that runs" in live.client.get("/jobs").text
            post(live.client, f"{gone}/cancel")
            assert dict(states(live)) == {job: "waiting", gone: "cancelled"}
        wait_for(lambda: dict(states(live))[job] == "running")
        assert "after the measurement" not in live.client.get("/jobs").text
        live.say("exit 0")
        wait_for(lambda: dict(states(live))[job] == "ended")


def test_a_program_that_cannot_be_started_ends_its_job_only(tmp_path: Path) -> None:
    queue = queued(tmp_path, 2)
    jobs = ended(queue, ["/nowhere/jissoku"])
    assert [(job.state, job.code) for job in jobs] == [(JobState.ENDED, 1)] * 2
    log = log_file(queue, jobs[0])
    assert log.read_text() == "It cannot be started: No such file or directory\n"


def test_a_job_is_stopped_though_the_queue_cannot_be_written(tmp_path: Path) -> None:
    queue = queued(tmp_path, 1)
    (job,) = queue.jobs()
    runs = Runner(queue, [sys.executable, "-c", "import signal; signal.pause()"])
    with runs:
        wait_for(lambda: queue.job(job.id).state is JobState.RUNNING)
        queue._file = tmp_path / "missing" / "queue.json"
        runs.cancel(job.id)
        wait_for(lambda: queue.job(job.id).state is JobState.ENDED)
    queue.close()


def test_a_queue_that_cannot_be_written_goes_on(tmp_path: Path) -> None:
    queue = queued(tmp_path, 2)
    queue._file = tmp_path / "missing" / "queue.json"
    jobs = ended(queue, DONE)
    assert [(job.state, job.code) for job in jobs] == [(JobState.ENDED, 0)] * 2
