"""Runs the commands of the README and of the tutorial, and writes what they print into them.

    python -m tests.document_outputs README                    # load and serve, which take seconds
    python -m tests.document_outputs tutorial compare explain  # which measure

A block ```console has a command and some lines of its output. Which lines is written by hand; a run
replaces each by the one that differs from it in numbers only. An empty block gets the whole output.
A block ```python that begins with the comment `# NAME.py` is a file of the folder of the commands.
"""

import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jissoku.system.address import free_port
from tests.conftest import JISSOKU
from tests.serving.server_process import Served, spawn

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"
DOCUMENTS = {"README": README, "tutorial": TUTORIAL}

# A command may go on in the next line after a backslash.
BLOCK = re.compile(r"```console\n\$ ((?:.*\\\n)*.*)\n((?:.*\n)*?)```")
FILE = re.compile(r"```python\n# (\w+\.py)\n(.*?)```", re.DOTALL)
NUMBER = re.compile(r"\d[\d.,]*(?:\s?(?:us|ms|s|µs|ns)\b)?")
MEASURED = ("compare", "explain", "profile")

# The application of the README, which does not show it.
APP = """\
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"Hello, World!"})
"""


def blocks(document: Path) -> list[tuple[str, list[str]]]:
    """The commands, each with the lines below it."""
    return [(command, text.splitlines()) for command, text in BLOCK.findall(document.read_text())]


def files(document: Path) -> dict[str, str]:
    """The files that the commands need, by name."""
    return dict(FILE.findall(document.read_text())) or {"app.py": APP}


def words_of(command: str) -> list[str]:
    """The words behind `jissoku`."""
    return shlex.split(command.replace("\\\n", " "))[1:]


def verb(command: str) -> str:
    """As in `jissoku VERB`."""
    return words_of(command)[0]


def form(line: str) -> str:
    """A line without its numbers and the width of its columns."""
    return " ".join(NUMBER.sub("#", line).split())


def matched(lines: list[str], output: list[str]) -> list[str | None]:
    """For each line the first one of the output with its form, behind the one before."""
    rest = iter(output)
    return [next((text for text in rest if form(text) == form(line)), None) for line in lines]


def server_before(document: Path, command: str) -> str:
    """The server that is running when the reader comes to this command."""
    found = "jissoku serve app:app"
    for other, _ in blocks(document):
        if other == command:
            break
        found = other if verb(other) == "serve" else found
    return found


def output_of(document: Path, command: str, folder: Path) -> list[str]:
    """What a command prints; a server, once it serves. Ports are free ones, shown as written."""
    for name, text in files(document).items():
        (folder / name).write_text(text)
    ports = {port: str(free_port(random.Random())) for port in ("8080", "8000")}
    shown = {here: port for port, here in ports.items()}
    if verb(command) == "serve":
        with serving(command, ports, folder) as served:
            return [_renamed(line, shown) for line in served.seen]
    if verb(command) != "load":
        return _printed(command, ports, folder)
    with serving(server_before(document, command), ports, folder):
        return [_renamed(line, shown) for line in _printed(command, ports, folder)]


@contextmanager
def serving(command: str, ports: dict[str, str], folder: Path) -> Iterator[Served]:
    """A server of a document, while it serves the files of a folder."""
    place = [] if "--listen" in command else ["--listen", f"127.0.0.1:{ports['8000']}"]
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    words = [_renamed(word, ports) for word in words_of(command)[1:]]
    served = spawn(*words, *place, PYTHONPATH=path)
    try:
        served.wait_for("^limits: ")
        yield served
    finally:
        served.end()


def _printed(command: str, ports: dict[str, str], folder: Path) -> list[str]:
    words = [_renamed(word, ports) for word in words_of(command)]
    done = subprocess.run(
        [*JISSOKU, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode in {0, 4}, done.stderr
    return done.stdout.splitlines()


def _renamed(text: str, names: dict[str, str]) -> str:
    for before, after in names.items():
        text = text.replace(f":{before}", f":{after}")
    return text


def main() -> None:
    document = DOCUMENTS[sys.argv[1]]
    wanted = sys.argv[2:] or ["load", "serve"]
    for command, lines in blocks(document):
        if verb(command) not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            output = output_of(document, command, Path(folder))
        found = matched(lines, output) if lines else output
        lost = [line for line, text in zip(lines, found, strict=False) if text is None]
        if lost:
            sys.exit(f"$ {command}\nhas no line as {lost[0]!r} in\n" + "\n".join(output))
        before = "\n".join([f"$ {command}", *lines, "```"])
        after = "\n".join([f"$ {command}", *map(str.rstrip, map(str, found)), "```"])
        document.write_text(document.read_text().replace(before, after))


if __name__ == "__main__":
    main()
