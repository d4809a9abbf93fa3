"""The tutorial: its commands are understood, and its servers answer alike before and after."""

import re
import subprocess
from pathlib import Path

import click
import pytest

from jissoku.cli.commands import jissoku
from tests.conftest import JISSOKU
from tests.document_outputs import TUTORIAL, blocks, files, serving, verb, words_of
from tests.serving.server_process import ask

SHOWN = [command for command, _ in blocks(TUTORIAL)]
NAMED = re.findall(r"^ +(jissoku (?:.*\\\n)*.*)$", TUTORIAL.read_text(), re.MULTILINE)
NATIVE = ("load", "serve")


def test_it_goes_from_a_slow_server_to_a_proven_fix() -> None:
    steps = ["serve", "load", "load", "compare", "explain", "profile", "compare"]
    assert [verb(command) for command in SHOWN] == steps
    assert files(TUTORIAL).keys() == {"shop.py", "hello.py", "fixed.py"}
    proof = " ".join(blocks(TUTORIAL)[-1][1])
    assert re.search(r"after uses 0\..*: uses less CPU \(proven\)", proof)


@pytest.mark.parametrize("command", [c for c in SHOWN + NAMED if verb(c) not in NATIVE])
def test_a_command_of_the_lab_is_understood(command: str) -> None:
    name, *words = words_of(command)
    found = jissoku.get_command(click.Context(jissoku), name)
    assert found is not None
    found.make_context(name, words)


@pytest.mark.parametrize("command", [c for c in SHOWN if verb(c) == "serve"])
def test_a_server_is_understood(command: str) -> None:
    subprocess.run(
        [*JISSOKU, *words_of(command), "--print-config"], check=True, capture_output=True
    )


@pytest.mark.slow
def test_the_servers_answer_and_the_fix_changes_no_byte(tmp_path: Path) -> None:
    pytest.importorskip("flask")
    for name, text in files(TUTORIAL).items():
        (tmp_path / name).write_text(text)
    bodies = {}
    for name in files(TUTORIAL):
        command = f"jissoku serve {name.removesuffix('.py')}:app --listen 127.0.0.1:0"
        with serving(command, {}, tmp_path) as served:
            where = next(line for line in served.seen if line.startswith("listening on"))
            status, bodies[name] = ask(int(re.findall(r":(\d+)", where)[-1]))
            assert status == 200
    assert bodies["shop.py"] == bodies["fixed.py"]
    assert b"product 19" in bodies["shop.py"]
