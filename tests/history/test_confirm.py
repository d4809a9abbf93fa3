"""Each suspicion has a run that would prove it, and --confirm runs it."""

import re
import sys
from pathlib import Path
from typing import cast

import msgspec
import pytest

from jissoku.errors import InputError
from jissoku.inference.across_runs import confirmation
from jissoku.model import Origin
from jissoku.model.history import IndexedRun
from jissoku.model.updated import updated
from jissoku.records import RunWriter, files
from jissoku.request import ComparisonRequest, command_line
from tests.ci.server_repository import git
from tests.conftest import Run
from tests.history.factories import ROW, arm
from tests.inference import factories
from tests.inference.factories import Noise, TrueValues


def single(program: str, version: str, labels: str = "{}", **changes: object) -> IndexedRun:
    whole = arm("app", program, version=version, target="server", **changes)
    request = ComparisonRequest(cmd=("app=./app --port {port}",), path="/a b", build="make")
    row = updated(ROW, request=msgspec.json.encode(request).decode(), labels=labels)
    return IndexedRun(row=row, arms=(whole,), logs={})


def test_versions_of_a_recipe_are_named() -> None:
    found = confirmation(single("p", "2.7.1, Python 3.11"), single("q", "2.8.7 (release)"), "app")
    assert found is not None
    assert found.arms == ("app-2.7.1", "app-2.8.7")
    assert command_line(found.request) == (
        "jissoku compare app-2.7.1=server@2.7.1 app-2.8.7=server@2.8.7 --path '/a b'"
    )


def test_a_command_is_compared_with_its_earlier_commit() -> None:
    runs = [
        single(commit, f"sha256 {commit}", f'{{"commit": "{commit}"}}', origin=Origin.COMMAND)
        for commit in ("aaa", "bbb")
    ]
    found = confirmation(runs[0], runs[1], "app")
    assert found is not None
    assert found.arms == ("base", "head")
    assert found.request.cmd == ("head=./app --port {port}",)
    assert (found.request.baseline, found.request.build) == ("aaa", "make")


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (single("p", "1.0"), single("p", "1.0")),
        (single("p", "1.0 (debug)"), single("q", "1.0 (release)")),
        (single("p", "x", origin=Origin.COMMAND), single("q", "y", origin=Origin.COMMAND)),
        (single("p", "x", origin=Origin.URL), single("q", "y", origin=Origin.URL)),
        (single("p", "1.0"), updated(single("q", "2.0"), arms=())),
    ],
)
def test_programs_without_names_of_their_own_have_none(one: IndexedRun, two: IndexedRun) -> None:
    assert confirmation(one, two, "app") is None


def recorded(folder: Path, number: int, cost_ns: float, **changes: object) -> None:
    """A made-up run on an occasion of its own; the last two fields are what changed."""
    truths = {
        "floor": TrueValues(cost_ns=5_000),
        "go": TrueValues(cost_ns=8_000),
        "app": TrueValues(cost_ns=cost_ns),
    }
    fields = {"binary_sha256": f"app {cost_ns}"} | changes
    labels = cast("dict[str, str]", fields.pop("labels", {}))
    arms = [updated(factories.arm(name), binary_sha256=name) for name in truths]
    run = updated(
        factories.sliced(list(truths), floor="floor"),
        arms=(*arms[:-1], updated(arms[-1], **fields)),  # type: ignore[arg-type]
        started_utc=f"2026-11-{number + 1:02}T09:00:00+00:00",
        boot=f"boot{number}",
        labels=labels,
    )
    quiet = Noise(own=0.002)
    with RunWriter(folder / f"{number}", run) as writer:
        for trial in factories.trials(run, truths, seed=number, noise=quiet):
            writer.add(trial)


def test_what_cannot_be_had_stays_open(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own recipe has one version, the installed one, and that is neither of the two."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for number in range(4):
        version = f"0.0.{1 + number // 2}"
        cost = 7_000.0 * (1 + 0.2 * (number // 2))
        recorded(tmp_path / "runs", number, cost, version=version, target="jissoku")
    listed = run(["history", "jissoku", "--changes"], tmp_path)
    assert listed.returncode == 3, listed.stderr
    assert "to confirm: jissoku compare app-0.0.1=jissoku@0.0.1 app-0.0.2=" in listed.stdout
    done = run(["history", "jissoku", "--confirm"], tmp_path)
    assert done.returncode == 4, done.stderr
    assert "Not measured: jissoku@0.0.1 is not available here: its recipe uses" in done.stdout


@pytest.mark.slow
def test_a_dismissed_suspicion_is_listed_with_its_reason(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for number in range(4):
        recorded(
            tmp_path / "runs", number, 7_000.0 * (1 + 0.2 * (number // 2)), version=f"{number // 2}"
        )
    listed = run(["history", "--changes"], tmp_path)
    assert listed.returncode == 3, listed.stderr
    (key,) = set(re.findall(r"--dismiss (\w+) --reason TEXT", listed.stdout))

    done = run(["history", "--dismiss", key, "--reason", " another\ncompiler "], tmp_path)
    assert (done.returncode, done.stdout) == (0, f"Dismissed: {key}\n")
    listed = run(["history", "--changes"], tmp_path)
    assert listed.returncode == 0, listed.stdout
    assert listed.stdout.startswith("No change is suspected.\nDismissed: ")
    assert ": another compiler\n" in listed.stdout

    # A later run of the same program does not open it, nor does a new index.
    recorded(tmp_path / "runs", 4, 8_400.0, version="1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other cache"))
    assert run(["history", "--changes"], tmp_path).returncode == 0

    done = run(["history", "--dismiss", key, "--reason", ""], tmp_path)
    assert (done.returncode, done.stdout) == (0, f"Open again: {key}\n")
    assert run(["history", "--changes"], tmp_path).returncode == 3


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--dismiss", "000000000000", "--reason", "x"], "no suspected change has the key"),
        (["--dismiss", "000000000000"], "--dismiss and --reason belong together"),
        (["--reason", "x"], "--dismiss and --reason belong together"),
    ],
)
def test_a_dismissal_without_a_suspicion_is_bad_input(
    options: list[str], sentence: str, tmp_path: Path, run: Run
) -> None:
    recorded(tmp_path / "runs", 0, 7_000.0, version="1")
    done = run(["history", *options], tmp_path)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_the_latest_decision_counts_in_whatever_folder_it_stands(tmp_path: Path) -> None:
    for name, day, reason in (("a", 2, ""), ("b", 1, "a compiler"), ("c", 3, "a kernel")):
        (tmp_path / name).mkdir()
        line = f'"key":"k","target":"app","reason":"{reason}","dismissed_utc":"2026-11-0{day}"'
        (tmp_path / name / files.DISMISSALS_FILE).write_text(f"{{{line}}}\n")
    a, b, c = (tmp_path / name for name in "abc")
    assert files.read_dismissals([a, b]) == files.read_dismissals([b, a]) == {}
    assert (
        files.read_dismissals([c, a])["k"].reason
        == files.read_dismissals([a, c])["k"].reason
        == "a kernel"
    )


def test_a_malformed_dismissal_is_named_with_its_line(tmp_path: Path) -> None:
    files.dismiss(tmp_path, "a", "app", "one")
    with (tmp_path / files.DISMISSALS_FILE).open("a") as file:
        file.write("{}\n")
    with pytest.raises(InputError, match=r"dismissed.jsonl, line 2: "):
        files.read_dismissals([tmp_path])


SERVER = """
import asyncio, sys
WORK = {work}
class Answer(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        for _ in range(data.count(b"\\r\\n\\r\\n")):
            for _ in range(WORK):
                pass
            self.transport.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
async def main():
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Answer, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()
asyncio.run(main())
"""


@pytest.mark.race
def test_an_injected_change_is_confirmed_by_a_run_of_both(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    commits = []
    for work in (0, 20_000):
        (tmp_path / "app.py").write_text(SERVER.format(work=work))
        git(tmp_path, "add", "app.py")
        git(tmp_path, "commit", "--quiet", "-m", f"{work} iterations")
        commits.append(git(tmp_path, "rev-parse", "HEAD"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    for number in range(4):
        recorded(
            tmp_path / "runs",
            number,
            7_000.0 * (1 + number // 2),
            origin=Origin.COMMAND,
            target="app",
            command=("python", "app.py", "{port}"),
            labels={"commit": commits[number // 2]},
        )
    done = run(["history", "app", "--confirm"], tmp_path)
    assert done.returncode == 3, done.stderr + done.stdout
    assert "Confirmed: cost(head) > cost(base): exceeded, proven" in done.stdout
    assert len(git(tmp_path, "worktree", "list").splitlines()) == 1
