"""Runs the commands of the README, and writes what they print into it.

    python -m tests.readme_outputs                  # load and serve, which take seconds
    python -m tests.readme_outputs compare explain  # which measure

A block ```console has a command and some lines of its output. Which lines is written by hand; a run
replaces each by the one that differs from it in numbers only. An empty block gets the whole output.
"""

import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from jissoku.system.address import free_port
from tests.conftest import JISSOKU
from tests.serving.server_process import Served, spawn

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"```console\n\$ (.*)\n((?:.*\n)*?)```")
NUMBER = re.compile(r"\d[\d.,]*(?:\s?(?:us|ms|s|µs|ns)\b)?")
MEASURED = ("compare", "explain")

APP = """\
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"Hello, World!"})
"""


def blocks() -> list[tuple[str, list[str]]]:
    """The commands, each with the lines below it."""
    return [(command, text.splitlines()) for command, text in BLOCK.findall(README.read_text())]


def verb(command: str) -> str:
    """As in `jissoku VERB`."""
    return shlex.split(command)[1]


def form(line: str) -> str:
    """A line without its numbers and the width of its columns."""
    return " ".join(NUMBER.sub("#", line).split())


def matched(lines: list[str], output: list[str]) -> list[str | None]:
    """For each line the first one of the output with its form, behind the one before."""
    rest = iter(output)
    return [next((text for text in rest if form(text) == form(line)), None) for line in lines]


def output_of(command: str, folder: Path) -> list[str]:
    """What a command prints; a server, once it serves. Ports are free ones, shown as written."""
    (folder / "app.py").write_text(APP)
    ports = {port: str(free_port(random.Random())) for port in ("8080", "8000")}
    words = shlex.split(command)[1:]
    asked = [_renamed(word, ports) for word in words]
    shown = {here: port for port, here in ports.items()}
    if words[0] == "serve":
        place = [] if "--listen" in words else ["--listen", f"127.0.0.1:{ports['8000']}"]
        served = _served([*asked[1:], *place], folder)
        try:
            served.wait_for("^limits: ")
            return [_renamed(line, shown) for line in served.seen]
        finally:
            served.end()
    server = None
    if words[0] == "load":
        server = _served(["app:app", "--listen", f"127.0.0.1:{ports['8000']}"], folder)
        server.wait_for("^limits: ")
    try:
        done = subprocess.run(
            [*JISSOKU, *asked], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode in {0, 4}, done.stderr
        return [_renamed(line, shown) for line in done.stdout.splitlines()]
    finally:
        if server is not None:
            server.end()


def _served(arguments: list[str], folder: Path) -> Served:
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    return spawn(*arguments, PYTHONPATH=path)


def _renamed(text: str, names: dict[str, str]) -> str:
    for before, after in names.items():
        text = text.replace(f":{before}", f":{after}")
    return text


def main() -> None:
    wanted = sys.argv[1:] or ["load", "serve"]
    for command, lines in blocks():
        if verb(command) not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            output = output_of(command, Path(folder))
        found = matched(lines, output) if lines else output
        lost = [line for line, text in zip(lines, found, strict=False) if text is None]
        if lost:
            sys.exit(f"$ {command}\nhas no line as {lost[0]!r} in\n" + "\n".join(output))
        before = "\n".join([f"$ {command}", *lines, "```"])
        after = "\n".join([f"$ {command}", *map(str, found), "```"])
        README.write_text(README.read_text().replace(before, after))


if __name__ == "__main__":
    main()
