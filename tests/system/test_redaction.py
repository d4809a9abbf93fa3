import os
import pwd
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jissoku.system import redaction as module
from jissoku.system.redaction import redact


@pytest.fixture(autouse=True)
def user_with_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A user and a machine whose names are known here."""
    monkeypatch.setattr(socket, "gethostname", lambda: "tower-7")
    ours = list(pwd.getpwuid(os.getuid()))
    entry = pwd.struct_passwd(("kazuho", *ours[1:]))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: entry)
    monkeypatch.setenv("HOME", "/home/kazuho")
    monkeypatch.setattr(tempfile, "tempdir", "/somewhere/tmp")
    monkeypatch.chdir(tmp_path)
    module._known.cache_clear()
    yield
    module._known.cache_clear()


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        ("/home/kazuho/notes.txt: no such file", "~/notes.txt: no such file"),
        ("in /home/kazuho", "in ~"),
        ("kazuho@tower-7: hello", "USER@HOST: hello"),
        ("bind() by tower-7 failed", "bind() by HOST failed"),
        ('File "/usr/lib/python3.11/asyncio/base.py", line 3', 'File "…/base.py", line 3'),
        ("open(/etc/nginx/mime.types:7)", "open(…/mime.types:7)"),
        ("/somewhere/tmp/jissoku-x/nginx.conf:2", "TMP/jissoku-x/nginx.conf:2"),
        ("GET /files/1k.bin HTTP/1.1", "GET /files/1k.bin HTTP/1.1"),
        ("http://127.0.0.1:80/a/b 100 req/s", "http://127.0.0.1:80/a/b 100 req/s"),
        ("tower-70 and kazuhos", "tower-70 and kazuhos"),
        ("/home/kazuho2/x", "…/x"),
    ],
)
def test_nothing_that_identifies_the_machine_is_left(text: str, scrubbed: str) -> None:
    if text.startswith("/home") and not Path("/home").exists():
        pytest.skip("this machine has no /home")
    assert redact(text) == scrubbed


def test_our_own_folders_keep_their_meaning(tmp_path: Path) -> None:
    assert redact(f"{sys.prefix}/bin/python") == "PREFIX/bin/python"
    assert redact(f"{module.PACKAGE}/targets/x.py") == "PACKAGE/targets/x.py"
    assert redact(f"{tmp_path}/my-server") == "HERE/my-server"


def test_names_that_every_machine_has_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")
    monkeypatch.setattr(pwd, "getpwuid", lambda _: pwd.struct_passwd(["root"] + [0] * 6))
    module._known.cache_clear()
    assert redact("root of localhost") == "root of localhost"
