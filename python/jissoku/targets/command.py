"""Targets without a recipe: `--cmd 'NAME=./my-server --port {port}'` and `--url NAME=http://...`."""

import hashlib
import re
import shlex
from pathlib import Path

from jissoku.errors import InputError
from jissoku.model import Listen, Origin, Start
from jissoku.targets import address, receipt
from jissoku.targets.place import Place, find_program
from jissoku.targets.placeholder import holes
from jissoku.targets.prepare import Prepared

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def from_command(text: str, place: Place) -> Prepared:
    """Reads `NAME=COMMAND`. The words are split as a shell would, and no shell is run.

    The receipt is a hash over the program and every file named in the command, since nobody told us
    how to ask for a version.

    Raises:
        InputError: No name, no such program, neither {port} nor {socket}, or both.
    """
    name, command = _split(text, "--cmd 'NAME=./my-server --port {port}'")
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise InputError(f"--cmd {name}: the command cannot be split: {error}") from error
    found = holes(words) & {"port", "socket"}
    if len(found) != 1:
        raise InputError(f"--cmd {name}: say once where it listens: write {{port}} or {{socket}}")
    program = find_program(words[0])
    if program is None:
        raise InputError(f"--cmd {name}: there is no program {words[0]!r} that can be run")
    return Prepared(
        name=name,
        origin=Origin.COMMAND,
        version=_hash_of_files(program, words),
        essay="A command given by hand; it was asked first, and held to its first answer.",
        binary_sha256=receipt.sha256(program),
        start=Start(command=words),
        listen=Listen(tcp=("{port}",)) if found == {"port"} else Listen(tcp=(), unix=("{socket}",)),
        values=place.values(name) | {"program": str(program)},
        folder=Path.cwd(),
        inherits=True,
    )


def from_url(text: str) -> Prepared:
    """Reads `NAME=URL`, a server that somebody else started.

    Raises:
        InputError: No name, or no URL that can be asked.
    """
    name, url = _split(text, "--url NAME=http://127.0.0.1:3000/")
    return Prepared(
        name=name,
        origin=Origin.URL,
        version="unknown",
        essay="A server that ran already; it was asked first, and held to its first answer.",
        leaves_out="Not known. It runs on the cores that whoever started it gave it.",
        address=address.parse(url),
    )


def _split(text: str, example: str) -> tuple[str, str]:
    name, equals, rest = text.partition("=")
    if not equals or not rest.strip():
        raise InputError(f"{text!r}: write {example}")
    if not NAME.fullmatch(name):
        raise InputError(f"{name!r} is no name: use letters, digits, dots and hyphens")
    return name, rest.strip()


def _hash_of_files(program: Path, words: tuple[str, ...]) -> str:
    files = [program, *(Path(word) for word in words[1:] if Path(word).is_file())]
    together = hashlib.sha256("".join(receipt.sha256(file) for file in files).encode())
    return f"sha256 {together.hexdigest()[:16]}"
