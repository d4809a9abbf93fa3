"""`jissoku ui` as a command: bad input is one sentence, a signal ends it."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jissoku import serve_in_thread
from jissoku.errors import InputError
from jissoku.system.background import viewer_pids
from jissoku.ui import fresh_links
from jissoku.ui.server import UiConfig, pages_in_thread
from tests.conftest import Run, jissoku
from tests.ui.conftest import LIMIT_S, client_of

BAD = [
    (["--runs", "missing"], "missing is not a folder: name a folder of runs with --runs"),
    (["--listen", "192.0.2.1"], "192.0.2.1 is no loopback address, .* `ssh -L"),
    (["--listen", "example.org"], "example.org is no address"),
    (["--read-only", "--allow-commands"], "--read-only and --allow-commands exclude each other"),
    (["--port", "70000"], "70000 is not in the range"),
    (["--metrics", "192.0.2.1:9100"], "--metrics 192.0.2.1:9100: write HOST:PORT of this machine"),
]


@pytest.mark.parametrize(("arguments", "sentence"), BAD)
def test_bad_input_is_one_sentence(
    run: Run, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    done = run(["ui", *arguments], tmp_path)
    assert done.returncode == 2
    assert re.search(sentence, done.stderr)
    assert done.stderr.count("\n") == 1


def test_a_port_in_use_is_one_sentence(run: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run(["ui", "--port", port], tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        f"jissoku: 127.0.0.1:{port} is in use: name another port with --port, or 0 for a free one\n"
    )


@contextmanager
def pages(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command in a folder, with the link that it prints."""
    with subprocess.Popen(
        # In the idle class it would wait for a machine that has nothing else to do.
        [sys.executable, "-m", "jissoku", "ui", "--port", "0", "--foreground"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+/enter\?token=[\w-]{43}$", line.strip())
            assert found, line
            yield process, found[0]
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("is_same_folder", [True, False])
def test_a_second_start_opens_the_same_pages_and_no_others(
    tmp_path: Path, *, is_same_folder: bool
) -> None:
    """The pages that have it go on: their session, their queue, and their entry as a viewer."""
    queue = tmp_path / "first" / "runs" / ".ui" / "queue.json"
    queue.parent.mkdir(parents=True)
    queue.write_text("[]")
    folder = tmp_path / "first" if is_same_folder else tmp_path
    with pages(tmp_path / "first") as (process, link):
        client = client_of(link)
        done = jissoku("ui", "--port", str(client.port), folder=folder)
        if is_same_folder:
            assert done.returncode == 0
            (fresh,) = re.findall(r"http://\S+", done.stdout)
            assert client_of(fresh).get("/").status == 200
            assert client.get("/enter?" + fresh.partition("?")[2]).status == 403
            taken = jissoku("ui", "--port", "0", folder=folder)
            assert f"`jissoku ui --port {client.port}` prints a link to them" in taken.stderr
        else:
            assert done.returncode == 2
            assert done.stdout == ""
            assert f"127.0.0.1:{client.port} has the pages of {tmp_path}/first/runs" in done.stderr
            assert done.stderr.count("\n") == 1
        assert client.get("/").status == 200
        assert process.pid in viewer_pids()
        assert queue.read_text() == "[]"


def test_of_two_that_start_at_the_same_instant_one_gets_the_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second starts when the first has found the port free, and has not bound it yet."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def config(name: str) -> UiConfig:
        root = tmp_path / name
        return UiConfig(listen="127.0.0.1", port=port, roots=(root,), cache=tmp_path / "cache")

    def with_another(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr("jissoku.serve_in_thread", serve_in_thread)
        with (
            pytest.raises(InputError, match=f"127.0.0.1:{port} is in use: name another port"),
            pages_in_thread(config("second")),
        ):
            pass
        return serve_in_thread(*arguments, **options)

    monkeypatch.setattr("jissoku.serve_in_thread", with_another)
    with pages_in_thread(config("first")) as link:
        assert client_of(link).get("/").status == 200


def test_no_other_user_gets_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = UiConfig(listen="127.0.0.1", port=0, roots=(tmp_path,), cache=tmp_path / "cache")
    with pages_in_thread(config) as link:
        listen = link.split("/")[2]
        found = fresh_links.ask(listen)
        assert found is not None
        assert found.link == link
        monkeypatch.setattr("os.geteuid", lambda: 65_533)
        assert fresh_links.ask(listen) is None
        with socket.socket(socket.AF_UNIX) as asker:
            asker.connect(f"{fresh_links.NAME}{listen}")
            assert asker.recv(100) == b""
    monkeypatch.undo()
    assert fresh_links.ask(listen) is None


@pytest.mark.slow
def test_it_prints_its_link_and_ends_by_a_signal(tmp_path: Path) -> None:
    with pages(tmp_path) as (process, link):
        client = client_of(link)
        assert "There is no run in runs yet" in client.get("/").text
        assert client.get("/enter?" + link.partition("?")[2]).status == 403
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 0
