"""Targets without a recipe: `--cmd 'NAME=./my-server --port {port}'` and `--url NAME=http://...`."""

import hashlib
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from jissoku.errors import InputError
from jissoku.model import ListenArguments, Origin, StartCommand
from jissoku.system import address
from jissoku.targets import provenance
from jissoku.targets.placeholders import BuildPaths, find_program, placeholders
from jissoku.targets.prepare import PreparedTarget

# Text that the shell takes literally, and text in which it expands variables only.
QUOTED = re.compile(r"'[^']*'|\\.|\"(?P<expanded>(?:[^\"\\]|\\.)*)\"", re.DOTALL)
ESCAPED = re.compile(r"\\.", re.DOTALL)

OPERATOR = re.compile(r"[();<>|&]+")
EXPANSION = re.compile(r"`|\$[\w({@*#?!$-]", re.ASCII)


def plain_words(text: str, option: str) -> list[str]:
    """Splits a command line by the quoting rules of a shell.

    Args:
        text: The command line.
        option: The option that it was given with, for messages.

    Raises:
        InputError: Its quotes do not match, or it has something that only a shell understands:
            operators, redirections, variables, command substitution.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"{option} {text!r} cannot be split into words: {error}") from error
    bare = QUOTED.sub(" ", text)
    quoted = [one["expanded"] or "" for one in QUOTED.finditer(text)]
    expanded = ESCAPED.sub(" ", " ".join([bare, *quoted]))
    found = OPERATOR.search(bare) or EXPANSION.search(expanded)
    if found is not None:
        raise InputError(
            f"{option} {text!r} is run without a shell, and {found[0]!r} needs one: write"
            f" {shlex.join(['sh', '-c', text])}, or put quotes around it if it is an argument"
        )
    return words


HERE = Path()

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class NamedCommand:
    """`NAME=COMMAND`, without a look at the disk.

    Attributes:
        words: The command, split by shell rules.
        listens: The placeholder of its address: port or socket.
    """

    name: str
    words: tuple[str, ...]
    listens: str


def read_command(text: str) -> NamedCommand:
    """Reads `NAME=COMMAND`.

    Raises:
        InputError: No name, no command, neither {port} nor {socket}, or both.
    """
    name, command = _split(text, "--cmd 'NAME=./my-server --port {port}'")
    words = tuple(plain_words(command, f"--cmd {name}:"))
    found = placeholders(words) & {"port", "socket"}
    if len(found) != 1:
        raise InputError(f"--cmd {name}: say once where it listens: write {{port}} or {{socket}}")
    return NamedCommand(name, words, listens=found.pop())


def from_command(text: str, place: BuildPaths, folder: Path = HERE) -> PreparedTarget:
    """Reads `NAME=COMMAND`. The words are split by shell rules, and no shell is run.

    The provenance is a hash over the program and every file named in the command, since how
    it reports a version is unknown.

    Args:
        text: The argument of `--cmd`.
        place: The folders of the lab.
        folder: Where the command is run; a program or file with a relative path is looked up there.

    Raises:
        InputError: As `read_command`, or there is no such program.
    """
    command = read_command(text)
    name, words = command.name, command.words
    program = find_program(str(folder.absolute() / words[0]) if "/" in words[0] else words[0])
    if program is None:
        raise InputError(f"--cmd {name}: no program {words[0]!r} was found")
    return PreparedTarget(
        name=name,
        origin=Origin.COMMAND,
        version=_hash_of_files(program, words, folder),
        description="A command given on the command line; its first response is taken as the"
        " expected one.",
        binary_sha256=provenance.sha256(program),
        start=StartCommand(command=words),
        listen=ListenArguments(tcp=("{port}",))
        if command.listens == "port"
        else ListenArguments(tcp=(), unix=("{socket}",)),
        values=place.values(name) | {"program": str(program)},
        folder=folder.absolute(),
        inherits=True,
    )


def from_url(text: str) -> PreparedTarget:
    """Reads `NAME=URL`, a server that another process started.

    Raises:
        InputError: No name, or an unsupported URL.
    """
    name, url = _split(text, "--url NAME=http://127.0.0.1:3000/")
    return PreparedTarget(
        name=name,
        origin=Origin.URL,
        version="unknown",
        description="An external server; its first response is taken as the expected one.",
        limitations="Unknown. It runs on the cores that it was started on.",
        address=address.parse(url),
    )


def _split(text: str, example: str) -> tuple[str, str]:
    name, equals, rest = text.partition("=")
    if not equals or not rest.strip():
        raise InputError(f"{text!r}: write {example}")
    if not NAME.fullmatch(name):
        raise InputError(f"{name!r} is not a name: use letters, digits, dots and hyphens")
    return name, rest.strip()


def _hash_of_files(program: Path, words: tuple[str, ...], folder: Path) -> str:
    files = [program, *(folder / word for word in words[1:] if (folder / word).is_file())]
    together = hashlib.sha256("".join(provenance.sha256(file) for file in files).encode())
    return f"sha256 {together.hexdigest()[:16]}"
