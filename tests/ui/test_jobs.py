"""Jobs: added by forms, run one at a time, watched, cancelled, and kept when the server ends."""

import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from jissoku.cli.commands import jissoku
from jissoku.design.sampling_plan import MINUTES_MAX
from jissoku.errors import InputError
from jissoku.model import Mode
from jissoku.model.trial import EventKind
from jissoku.ui.jobs import JobQueue, JobState, Runner, is_alive
from tests.ui.conftest import RECORDS
from tests.ui.measurement import (
    Measured,
    Stream,
    event,
    form_key,
    measured,
    post,
    states,
    trial,
    wait_for,
)
from tests.ui.suspicion import record

# Several waits, each with a limit of its own.
pytestmark = pytest.mark.timeout(200)


@pytest.fixture
def live(tmp_path: Path, index_cache: Path) -> Iterator[Measured]:
    with measured(tmp_path / "runs", index_cache) as found:
        yield found


def start(live: Measured, *fields: tuple[str, str]) -> str:
    place = post(live.client, "/start/compare", *(fields or (("target", "jissoku"),)))
    assert re.fullmatch(r"/jobs/[0-9a-f]{16}", place), place
    return place


def state(live: Measured, job: str) -> str:
    return dict(states(live))[job]


def is_in(live: Measured, job: str, wanted: str) -> bool:
    return state(live, job) == wanted


@pytest.mark.slow
def test_a_comparison_runs_and_leads_to_its_report(live: Measured) -> None:
    job = start(live, ("target", "jissoku"), ("connections", "8"), ("rate", "5000"))
    with live.saying() as say:
        wait_for(lambda: state(live, job) == "running")
        say(event(EventKind.START, pid=1))
        say(event(EventKind.NOTE, text="Loads: <b>5,000/s</b>"))
        say(trial(0, "jissoku"))
        say(trial(1, "floor", rejected=True))
        wait_for(lambda: "2 of 8 trials" in live.client.get(job).text)
        text = live.client.get(job).text
        assert "Loads: &lt;b&gt;" in text
        assert "0 of 1" in text
        assert f"records {RECORDS}" not in text
        say(f"records {RECORDS / 'repeatability' / '51'}")
        say("exit 0")
    wait_for(lambda: state(live, job) == "ended")
    text = live.client.get(job).text
    assert "Finished." in text
    found = re.search(r'class="result" href="(/runs/[\w-]+)"', text)
    assert found
    wait_for(lambda: live.client.get(found[1]).status == 200)
    assert "jissoku -c 8 -R 5000" in text


def test_an_experiment_leads_to_its_report(live: Measured) -> None:
    job = post(live.client, "/start/run", ("experiment", "parsers"))
    live.say(f"records {RECORDS / 'parsers'}", "exit 0")
    wait_for(lambda: state(live, job) == "ended")
    found = re.search(r'href="(/runs/[\w-]+/experiment)"', live.client.get(job).text)
    assert found
    wait_for(lambda: live.client.get(found[1]).status == 200)
    assert "claims:" in live.client.get(found[1]).text


def test_one_at_a_time_and_the_queue_in_order(live: Measured) -> None:
    jobs = [start(live) for _ in range(3)]
    wait_for(lambda: state(live, jobs[0]) == "running")
    assert [state(live, job) for job in jobs[1:]] == ["waiting", "waiting"]
    assert "1 job before it" in live.client.get(jobs[2]).text
    post(live.client, f"{jobs[1]}/cancel")
    assert state(live, jobs[1]) == "cancelled"
    live.say("exit 0")
    wait_for(lambda: state(live, jobs[2]) == "running")
    folders = re.findall(r"--out=(\S+)", "".join(live.client.get(job).text for job in jobs))
    assert len(set(folders)) == 3


def test_a_waiting_job_is_put_first(live: Measured) -> None:
    running, second, third = (start(live) for _ in range(3))
    wait_for(lambda: state(live, running) == "running")
    assert "Run it first" not in live.client.get(second).text
    assert "Run it first" in live.client.get(third).text
    assert post(live.client, f"{third}/first") == third
    assert "it is the next one" in live.client.get(third).text
    post(live.client, f"{running}/first")
    live.say("exit 0")
    wait_for(lambda: state(live, third) == "running")
    assert state(live, second) == "waiting"
    assert live.client.post("/jobs/0/first", {"form_key": form_key(live.client)}).status == 404


def test_a_job_is_interrupted_and_cleans_up(live: Measured) -> None:
    job = start(live)
    wait_for(lambda: "arguments: compare" in live.client.get(job).text)
    post(live.client, f"{job}/cancel")
    wait_for(lambda: state(live, job) == "ended")
    text = live.client.get(job).text
    assert "Interrupted: finished trials were kept." in text
    assert "interrupted" in text


def test_a_failed_job_shows_its_output_as_text(live: Measured) -> None:
    job = start(live)
    live.say("exit 2")
    wait_for(lambda: state(live, job) == "ended")
    text = live.client.get(job).text
    assert "Ended with exit code 2" in text
    assert "arguments: compare" in text


def test_events_arrive_once_also_after_a_lost_connection(live: Measured) -> None:
    job = start(live)
    with live.saying() as say:
        wait_for(lambda: state(live, job) == "running")
        say(event(EventKind.START, pid=1))
        say(trial(0, "jissoku"))
        with Stream(live.client, f"{job}/stream?state=running") as first:
            kind, position, text = first.next(lambda text: "1 of 8" in text)
        say(trial(1, "floor"))
        with Stream(live.client, f"{job}/stream?state=running", position) as second:
            kind, later, text = second.next(lambda text: "2 of 8" in text)
            assert kind == "progress"
            assert later != position
            assert text.count('<th scope="row">') == 2
            say("exit 0")
            assert second.next(lambda text: text == "ended")[0] == "reload"
    wait_for(lambda: state(live, job) == "ended")
    with Stream(live.client, f"{job}/stream?state=ended", later) as third:
        assert third.next(lambda text: text == "ended")[0] == "reload"


def test_a_test_leaves_no_made_up_measurement_behind(tmp_path: Path, index_cache: Path) -> None:
    with measured(tmp_path / "runs", index_cache) as live:
        jobs = [start(live) for _ in range(2)]
        wait_for(lambda: state(live, jobs[0]) == "running")
    queue = JobQueue(live.root)
    assert [job.state for job in queue.jobs()] == [JobState.ENDED, JobState.CANCELLED]
    assert not any(map(is_alive, queue.jobs()))
    queue.close()


@pytest.mark.slow
def test_a_job_outlives_the_server_and_the_next_one_adopts_it(
    tmp_path: Path, index_cache: Path
) -> None:
    with measured(tmp_path / "runs", index_cache, ends_jobs=False) as first:
        job = start(first)
        later = start(first)
        wait_for(lambda: state(first, job) == "running")
    with measured(tmp_path / "runs", index_cache) as second:
        assert state(second, job) == "running"
        second.say("exit 0")
        wait_for(lambda: state(second, job) == "ended")
        wait_for(lambda: state(second, later) == "running")


def test_two_servers_do_not_run_one_queue(live: Measured) -> None:
    start(live)
    with pytest.raises(InputError, match="another `jissoku ui` has the queue of"):
        JobQueue(live.root)


def test_a_broken_queue_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / ".ui").mkdir()
    (tmp_path / ".ui" / "queue.json").write_text("{")
    with pytest.raises(InputError, match=r"queue\.json cannot be read: .*; delete it"):
        JobQueue(tmp_path)


def test_the_queue_has_an_end(tmp_path: Path) -> None:
    queue = JobQueue(tmp_path)
    for number in range(20):
        queue.add("one", ("compare",), tmp_path / str(number))
    with pytest.raises(InputError, match="20 jobs wait already"):
        queue.add("one more", ("compare",), tmp_path / "more")
    queue.close()
    assert len(JobQueue(tmp_path).jobs()) == 20


def test_what_cannot_be_written_does_not_happen(tmp_path: Path) -> None:
    queue = JobQueue(tmp_path)
    first, second = (queue.add(name, ("compare",), tmp_path / name) for name in ("one", "two"))
    before = queue.jobs()
    (tmp_path / ".ui" / "queue.new").mkdir()  # Writing it fails, as on a full disk.
    with pytest.raises(InputError, match=r"queue\.json cannot be written"):
        queue.add("three", ("compare",), tmp_path / "three")
    with pytest.raises(InputError, match="cannot be written"):
        queue.put_first(second.id)
    with pytest.raises(InputError, match="cannot be written"):
        Runner(queue).cancel(first.id)
    assert queue.jobs() == before
    assert queue.to_run() == first
    # What has happened already is known all the same.
    queue.note(first.id, state=JobState.ENDED, code=1)
    assert queue.job(first.id).state is JobState.ENDED
    queue.close()


def test_a_process_with_the_number_of_an_old_one_is_not_signalled(tmp_path: Path) -> None:
    queue = JobQueue(tmp_path)
    job = queue.add("one", ("compare",), tmp_path / "one")
    queue.update(job.id, state=JobState.RUNNING, pid=os.getpid(), start_ticks=1)
    # This process would be interrupted.
    Runner(queue).cancel(job.id)
    assert queue.job(job.id).state is JobState.RUNNING
    queue.close()


def test_a_form_needs_the_value_of_its_session(live: Measured) -> None:
    for path in (
        "/start/compare",
        "/start/run",
        "/start/explain",
        "/start/prove",
        "/start/publish",
        "/jobs/0/cancel",
        "/jobs/0/first",
    ):
        for key in ("", "x" * 43):
            answer = live.client.post(path, [("form_key", key), ("target", "jissoku")])
            assert answer.status == 403, path
    assert states(live) == []


def test_forms_say_how_long_a_measurement_takes(live: Measured) -> None:
    text = live.client.get("/start").text
    assert "about a minute for each target" in text
    assert f"about {MINUTES_MAX[Mode.STANDARD]:.0f} minutes" in text


def test_the_laboratory_tests_itself_by_a_form(live: Measured) -> None:
    assert 'action="/start/prove"' in live.client.get("/machines").text
    job = post(live.client, "/start/prove", ("campaigns", "30"))
    wait_for(lambda: state(live, job) == "running")
    (command,) = re.findall(r"<code>(jissoku self-test [^<]*)</code>", live.client.get(job).text)
    folder = Path(command.partition("--out=")[2].split()[0])
    assert folder.parent == live.root
    assert folder.name.endswith("-self-test")
    assert command.split()[2:] == [f"--out={folder}", "--campaigns=30"]
    live.say("exit 3")
    wait_for(lambda: state(live, job) == "ended")
    assert "a bound of the laboratory is exceeded" in live.client.get(job).text


@pytest.mark.slow
def test_runs_are_published_by_a_form(tmp_path: Path, index_cache: Path) -> None:
    records = tmp_path / "earlier"
    record(records / "one", 1, "0.1.0", 7_000)
    record(records / "two", 2, "0.2.0", 9_500)
    with measured(tmp_path / "runs", index_cache, more=(records,)) as live:
        board = live.client.get("/board").text
        assert 'action="/start/publish"' in board
        keys = re.findall(r'name="run" value="([\w-]+)"', live.client.get("/").text)
        assert f'name="run" value="{keys[0]}"' in live.client.get(f"/runs/{keys[0]}").text
        # A folder in a form is no field of it.
        every = post(live.client, "/start/publish", ("folder", "/etc"), ("records", "/etc"))
        one = post(live.client, "/start/publish", ("run", keys[0]))
        for job, count in ((every, 2), (one, 1)):
            wait_for(partial(is_in, live, job, "running"))
            live.say("exit 0")
            wait_for(partial(is_in, live, job, "ended"))
            text = live.client.get(job).text
            found = live.queued(job)
            assert found.arguments[:2] == ("publish", found.folder)
            assert Path(found.folder).parent == live.root / ".ui" / "published"
            assert f"jissoku serve {found.folder}" in text
            Path(found.folder).rmdir()  # The made-up measurement has made it.
            assert CliRunner().invoke(jissoku, found.arguments).exit_code == 0
            pages = [path.name for path in Path(found.folder).iterdir()]
            assert {"index.html", "SHA256SUMS", "target-jissoku.html"} <= set(pages)
            assert sum(name.startswith("run-") for name in pages) == count
        assert len(re.findall(r'href="/runs/[\w-]+"', live.client.get("/").text)) == 2


def test_the_queue_says_when_a_job_starts(live: Measured) -> None:
    first = start(live, ("target", "jissoku"), ("mode", "standard"))
    second = start(live)
    last = post(live.client, "/start/explain", ("target", "jissoku"), ("verify", "yes"))
    wait_for(lambda: state(live, first) == "running")
    rows = re.findall(r'<tr><th scope="row".*?</tr>', live.client.get("/jobs").text, re.DOTALL)
    cells = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in rows]
    clock = r"\d\d:\d\d"
    assert [row[0] for row in cells] == ["waiting", "waiting", "running"]
    assert [row[1] for row in cells] == ["2", "1", ""]
    assert cells[0][2] == "at least 45 s"
    assert re.fullmatch(r"about \d+ (s|min)", cells[1][2])
    assert re.fullmatch(rf"{clock} to {clock} UTC", cells[1][3])
    assert re.fullmatch(r"\d+ to \d+ min left", cells[2][3])
    assert re.search(rf"it is the next one.\s+It starts {clock} to", live.client.get(second).text)
    post(live.client, f"{last}/first")
    assert re.search(rf"It starts after {clock} UTC", live.client.get(second).text)


BAD_FORMS = [
    ("compare", [("target", "; rm -rf /")], "is no target"),
    ("compare", [("target", "--cmd=x")], "is no target"),
    ("compare", [("target", "../../etc/passwd")], "is no target"),
    ("compare", [("target", "../../mine=jissoku")], "is no target"),
    ("compare", [("target", "mine=/bin/sh")], "is no target"),
    ("compare", [("target", "jissoku@1.0; id")], "write TARGET@VERSION"),
    ("compare", [("target", "jissoku@" + "1" * 200)], "is no target"),
    ("compare", [], "select at least one target"),
    ("compare", [("target", "jissoku"), ("path", "/; rm -rf /")], "is no path that targets serve"),
    ("compare", [("target", "jissoku"), ("path", "/files/../../etc/passwd")], "is no path"),
    ("compare", [("target", "jissoku"), ("connections", "99999")], "not a number from 1 to 20000"),
    ("compare", [("target", "jissoku"), ("connections", "1; rm")], "not a number from 1"),
    ("compare", [("target", "jissoku"), ("connections", "--out=/tmp")], "not a number from 1"),
    ("compare", [("target", "jissoku"), ("rate", "-1")], "not a number from 1"),
    ("compare", [("target", "jissoku"), ("rate", "1e9")], "not a number from 1"),
    ("compare", [("target", "jissoku"), ("blocks", "201")], "not a number from 1 to 200"),
    ("compare", [("target", "jissoku"), ("mode", "--cmd=x")], "is no mode"),
    ("compare", [("target", "jissoku"), ("mode", "quick"), ("mode", "x")], "was sent 2 times"),
    ("compare", [("target", "jissoku"), ("path", "/\r\nX: y")], "control characters"),
    ("compare", [("target", "jissoku"), ("path", "/" * 600)], "too long"),
    ("compare", [("cmd", "mine=sh -c true")], "need `jissoku ui --allow-commands`"),
    ("compare", [("url", "mine=http://127.0.0.1:1/")], "need `jissoku ui --allow-commands`"),
    ("run", [("experiment", "/etc/passwd.toml")], "is no experiment"),
    ("run", [("experiment", "--standard")], "is no experiment"),
    ("explain", [("target", "$(id)")], "is no target"),
    ("prove", [("campaigns", "0")], "not a number from 1 to 200"),
    ("prove", [("campaigns", "1; id")], "not a number from 1 to 200"),
    ("prove", [("campaigns", "--out=/etc")], "not a number from 1 to 200"),
    ("publish", [], "there is no run to publish"),
    ("publish", [("run", "../../etc")], "no run has the key"),
    ("publish", [("run", "--records=/etc")], "no run has the key"),
    ("publish", [("run", "a"), ("run", "b")], "was sent 2 times"),
    ("publish", [("run", "<script>alert(1)</script>")], "no run has the key"),
    ("serve", [("target", "jissoku")], "there is no form"),
    ("compare", [("target", "<script>alert(1)</script>")], "is no target"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "fields", "sentence"), BAD_FORMS, ids=lambda value: str(value)[:60]
)
def test_a_bad_form_starts_nothing(
    live: Measured, kind: str, fields: list[tuple[str, str]], sentence: str
) -> None:
    answer = live.client.post(f"/start/{kind}", [("form_key", form_key(live.client)), *fields])
    assert answer.status == 400
    assert sentence in answer.text.replace("&#39;", "'")
    assert "<script>alert" not in answer.text
    assert states(live) == []


def test_a_command_is_shown_before_it_starts(tmp_path: Path, index_cache: Path) -> None:
    with measured(tmp_path / "runs", index_cache, allows_commands=True) as live:
        fields = [("target", "jissoku"), ("cmd", "mine=./server --port {port}")]
        shown = post(live.client, "/start/compare", *fields)
        assert "<code>mine=./server --port {port}</code>" in shown
        assert states(live) == []
        job = post(live.client, "/start/compare", *fields, ("confirmed", "yes"))
        wait_for(lambda: state(live, job) == "running")
        away = post(live.client, "/start/compare", ("url", "mine=http://192.0.2.1/"))
        assert "is not on this machine" in away
        unnamed = post(live.client, "/start/compare", ("cmd", "./server"))
        assert "has no name" in unnamed
