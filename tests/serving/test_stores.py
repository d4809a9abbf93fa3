"""`[store.NAME]` of a server: worker processes share its entries, and a reload keeps them."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jissoku.store import open as open_store
from tests.serving.server_process import PATIENCE_S, Start, ask

APP = """
import os

from jissoku import store

hits = store.open("hits")

def app(environ, start_response):
    text = f"{hits.increment('all')} {os.getpid()}".encode()
    start_response("200 OK", [("Content-Length", str(len(text)))])
    return [text]
"""

TEXT = """
listen = "127.0.0.1:0"
app = "web:app"
workers = 2

[store.hits]
size = "1MiB"
ttl = "1h"
when-full = "drop"
"""


def store(folder: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """`jissoku store` in the folder of a configuration file, with a text as its standard input."""
    command = [sys.executable, "-m", "jissoku", "store", *words]
    return subprocess.run(
        command,
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_entries_are_copied_as_lines(tmp_path: Path) -> None:
    first, second = (
        open_store(name, folder=tmp_path / "stores", size="1MiB") for name in ("first", "second")
    )
    first.put_many([("größe", "M"), (b"\0\t\n\\", bytes(range(256))), ("empty", "")])
    printed = store(tmp_path, "scan", "first", "--values").stdout
    copied = store(tmp_path, "import", "second", given=printed)
    assert (copied.returncode, copied.stderr) == (0, "")
    assert list(second.scan()) == list(first.scan())
    refused = store(tmp_path, "import", "second", given="a\t1\n\tb\n")
    assert refused.returncode == 2
    assert refused.stderr == (
        "jissoku store: line 2: a key has 1 to 500 bytes, and this one 0; nothing is written\n"
    )
    assert second.get("a") is None


def written(folder: Path, text: str = TEXT) -> list[str]:
    """Arguments for a server of the application."""
    (folder / "web.py").write_text(APP)
    (folder / "serve.toml").write_text(text)
    return ["--config", str(folder / "serve.toml"), "--app-dir", str(folder)]


def test_workers_count_together_and_a_killed_one_loses_nothing(
    tmp_path: Path, start: Start
) -> None:
    served = start(*written(tmp_path))
    port = int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
    workers, worker = set(), 0
    for number in range(1, 61):
        status, text = ask(port)
        count, worker = map(int, text.split())
        assert (status, count) == (200, number)
        workers.add(worker)
    os.kill(worker, signal.SIGKILL)
    served.wait_for("was replaced")
    served.reload()
    assert int(ask(port)[1].split()[0]) == 61
    shown = store(tmp_path, "get", "hits", "all")
    assert (shown.returncode, shown.stdout) == (0, "61")
    assert store(tmp_path, "put", "hits", "all", "100").returncode == 0
    assert int(ask(port)[1].split()[0]) == 101
    assert len(workers) > 0


def test_a_damaged_store_is_reported_and_begun_anew(tmp_path: Path, start: Start) -> None:
    (tmp_path / "stores" / "hits").mkdir(parents=True)
    (tmp_path / "stores" / "hits" / "data.mdb").write_bytes(b"no store")
    served = start(*written(tmp_path))
    served.wait_for("the store hits was damaged")
    port = int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
    assert ask(port)[1].split()[0] == b"1"


def test_options_that_need_a_restart_are_not_reloaded(tmp_path: Path, start: Start) -> None:
    served = start(*written(tmp_path))
    port = int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
    written(tmp_path, TEXT.replace("1MiB", "2MiB"))
    served.send_signal(signal.SIGHUP)
    served.wait_for(
        r"not reloaded: .*line 6: the store hits is in use with a size of 1048576 bytes"
    )
    assert ask(port)[0] == 200


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("size = '1KiB'", "line 3: size is at least 1 MiB"),
        ("size = 5", "line 3: size must be a size in quotes"),
        ("ttl = '1us'", "line 3: ttl is at least 1ms"),
        ("ttl = 'soon'", "line 3: ttl is a time"),
        (
            "durability = 'strong'",
            'line 3: durability is "memory" or "lazy" or "durable", not "strong"',
        ),
        ("when-full = 'wait'", 'line 3: when-full is "refuse" or "drop", not "wait"'),
        ("seize = '1MiB'", 'line 3: store "hits" has no key "seize"; did you mean "size"?'),
        ("[store.'a/b']", "line 3: the name of a store has 1 to 64 letters"),
    ],
)
def test_wrong_options_are_refused_with_their_line(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(f"fixed = 'x'\n[store.hits]\n{text}\n")
    command = [sys.executable, "-m", "jissoku", "check", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (sentence,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert words in sentence


def test_the_printed_configuration_has_the_stores(tmp_path: Path) -> None:
    (tmp_path / "serve.toml").write_text("fixed = 'x'\n[store.hits]\nttl = '1h'\n")
    command = [sys.executable, "-m", "jissoku", "serve", "--print-config", "--config"]
    done = subprocess.run(
        [*command, str(tmp_path / "serve.toml")], capture_output=True, text=True, check=True
    )
    assert re.search(rf'^store-folder = "{tmp_path}/stores"$', done.stdout, re.MULTILINE)
    assert '[store.hits]\nttl = "1h"\n' in done.stdout
