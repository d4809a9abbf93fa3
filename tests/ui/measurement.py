"""The pages beside a made-up measurement that a test controls."""

import http.client
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

from jissoku.cli.ui import _check
from jissoku.model.trial import Event, EventKind, TrialKind
from jissoku.ui.jobs import Job
from jissoku.ui.server import UiConfig, pages_in_thread
from tests.ui.conftest import LIMIT_S, Client, client_of

FAKE = Path(__file__).with_name("fake_measurement.py")


def wait_for(condition: Callable[[], object]) -> None:
    """Looks until something is true that is certain to become so."""
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


@dataclass
class Measured:
    """Pages, a client, and the pipe to the job that runs."""

    link: str
    client: Client
    root: Path
    pipe: Path

    def queued(self, place: str) -> Job:
        """A job by the path of its page, as the queue's file has it."""
        jobs = msgspec.json.decode((self.root / ".ui" / "queue.json").read_bytes(), type=list[Job])
        return next(job for job in jobs if place == f"/jobs/{job.id}")

    def say(self, *lines: str) -> None:
        """Writes to the job that runs now."""
        with self.pipe.open("w") as pipe:
            pipe.write("".join(f"{line}\n" for line in lines))

    @contextmanager
    def saying(self) -> Iterator[Callable[[str], None]]:
        """Writes to the job that runs now, line by line."""
        with self.pipe.open("w") as pipe:

            def say(line: str) -> None:
                pipe.write(f"{line}\n")
                pipe.flush()

            yield say


class Stream:
    """Reads server-sent events; a context manager that closes the connection."""

    def __init__(self, client: Client, path: str, last: str = "") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=LIMIT_S)
        headers = {"Cookie": client.cookie} | ({"Last-Event-ID": last} if last else {})
        self._connection.request("GET", path, headers=headers)
        self._response = self._connection.getresponse()

    def __enter__(self) -> Self:
        assert self._response.status == 200
        assert self._response.getheader("content-type", "").startswith("text/event-stream")
        assert self._fields()["retry"] == "2000"
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()
        self._connection.close()

    def next(self, is_wanted: Callable[[str], bool]) -> tuple[str, str, str]:
        while True:
            fields = self._fields()
            if is_wanted(fields.get("data", "")):
                return fields["event"], fields["id"], fields["data"]

    def _fields(self) -> dict[str, str]:
        found: dict[str, list[str]] = {}
        while line := self._response.readline().decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            found.setdefault(name, []).append(value)
        assert found, "the stream has ended"
        return {name: "\n".join(values) for name, values in found.items()}


def form_key(client: Client) -> str:
    """The value of the session that its forms contain."""
    found = re.search(r'name="form_key" value="([\w-]{43})"', client.get("/start").text)
    assert found
    return found[1]


def post(client: Client, path: str, *fields: tuple[str, str]) -> str:
    """Sends a form of the page; returns the place that follows, or the page."""
    answer = client.post(path, [("form_key", form_key(client)), *fields])
    return answer.headers.get("location", answer.text)


def states(live: Measured) -> list[tuple[str, str]]:
    """Path and state of each job, the newest first."""
    text = live.client.get("/jobs").text
    return re.findall(r'href="(/jobs/\w+)">[^<]*</a></th><td>(\w+)<', text)


def end_jobs(live: Measured) -> None:
    """Ends every job: one that waits for its pipe would wait for ever."""
    for job in states(live):
        if job[1] in {"waiting", "running"}:
            post(live.client, f"{job[0]}/cancel")
    wait_for(lambda: not {"waiting", "running", "stopping"} & {job[1] for job in states(live)})


@contextmanager
def measured(
    root: Path,
    cache: Path,
    *,
    more: tuple[Path, ...] = (),
    allows_commands: bool = False,
    metrics: tuple[str, ...] = (),
    is_background: bool = False,
    ends_jobs: bool = True,
) -> Iterator[Measured]:
    """Pages whose jobs end with the block, also if a test fails; or go on, as those of a user."""
    root.mkdir(exist_ok=True)
    pipe = root.parent / "pipe"
    if not pipe.exists():
        os.mkfifo(pipe)
    config = UiConfig(
        listen="127.0.0.1",
        port=0,
        roots=(root, *more),
        cache=cache,
        check=_check,
        allows_commands=allows_commands,
        metrics=metrics,
        is_background=is_background,
        command=(sys.executable, str(FAKE), str(pipe)),
    )
    with pages_in_thread(config) as link:
        client = client_of(link)
        # The link was used by the client: a browser gets the next one.
        found = Measured(link, client, root, pipe)
        try:
            yield found
        finally:
            if ends_jobs:
                end_jobs(found)


def event(kind: EventKind, **values: object) -> str:
    return msgspec.json.encode(Event(kind=kind, elapsed_s=1.0, **values)).decode()  # type: ignore[arg-type]


def trial(number: int, arm: str, **values: object) -> str:
    given = {"done": number + 1, "total": 8, "seconds_left": 30.0, "arms": (arm,)} | values
    return event(
        EventKind.TRIAL, index=number, block=number // 2, trial_kind=TrialKind.PAIRED, **given
    )
