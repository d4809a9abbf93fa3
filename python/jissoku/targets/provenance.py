"""Provenance of a target: its reported version, hashes of its program and sources; and redaction.

A target without a version is not measured.
"""

import hashlib
import os
import pwd
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jissoku.errors import TargetError
from jissoku.model import BuildStep, VersionQuery
from jissoku.targets.placeholders import Values, fill, fill_text, run_program

VERSION_LIMIT_S = 20.0

# Suffixes of the source files that a recipe's build compiles.
SOURCES = (".c", ".cc", ".cpp", ".go", ".rs")


def reported(query: VersionQuery, values: Values, what: str) -> str:
    """What a target's program prints of its version or its sources, which `what` names.

    Returns the matches of the pattern's groups, joined by spaces; TargetError if there is none.
    """
    command = fill(query.command, values)
    try:
        _, said = run_program(command, VERSION_LIMIT_S)
    except OSError as error:
        raise TargetError(
            f"its {what} cannot be determined: {command[0]}: {error.strerror}"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise TargetError(f"it does not say its {what} within {VERSION_LIMIT_S:g} s") from error
    found = re.search(query.pattern, said)
    text = " ".join(group.strip() for group in found.groups() if group) if found else ""
    if not text:
        raise TargetError(f"it does not report its {what}, which is required", stderr=said)
    return text


def sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise TargetError(f"{path.name} cannot be hashed: {error.strerror}") from error


def sources_sha256(steps: Sequence[BuildStep], values: Values) -> str:
    """Hashes the sources of a program: the build commands, and the files that they name.

    Commands are hashed with their placeholders, so that the hash does not depend on folders.
    Empty if the commands name no source file, for example only a folder.
    """
    words = [word for step in steps for word in step.command]
    sources = [
        Path(fill_text(word, values)) for word in words if fill_text(word, values).endswith(SOURCES)
    ]
    if not sources:
        return ""
    parts = [*words, *(sha256(source) for source in sources)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


PACKAGE = Path(__file__).parents[1]

# Names that many machines share, and that occur in ordinary messages.
PUBLIC_NAMES = frozenset({"root", "nobody", "www-data", "daemon", "user", "localhost", "debian"})


def redact(text: str) -> str:
    """Replaces absolute paths, and the user's and the machine's name.

    Known folders are replaced by a name: `~` (home), PREFIX (this Python), PACKAGE (jissoku),
    HERE (the lab's working directory), TMP. Of every other one only the last component is kept.
    """
    for pattern, substitute in _known():
        text = pattern.sub(substitute, text)
    return _absolute().sub(lambda found: "…/" + found[0].rpartition("/")[2], text)


def with_local_folders(text: str) -> str:
    """A redacted text with this machine's folders again, for the user's own terminal."""
    for folder, name in sorted(_folders().items(), key=lambda item: -len(item[1])):
        text = re.sub(
            rf"(?<![\w./-]){re.escape(name)}(?=/)", str(folder).replace("\\", r"\\"), text
        )
    return text


def _folders() -> dict[Path, str]:
    return {
        Path(sys.prefix): "PREFIX",
        PACKAGE: "PACKAGE",
        Path.cwd(): "HERE",
        Path(tempfile.gettempdir()): "TMP",
        Path("~").expanduser(): "~",
    }


@cache
def _known() -> tuple[tuple[re.Pattern[str], str], ...]:
    named = [
        (re.compile(rf"(?<![\w.~-]){re.escape(str(path))}(?![\w.-])"), name)
        for path, name in sorted(_folders().items(), key=lambda item: -len(str(item[0])))
        if len(path.parts) > 1
    ]
    for name, word in (("HOST", socket.gethostname()), ("USER", _user())):
        if word and word not in PUBLIC_NAMES:
            named.append((re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])"), name))
    return tuple(named)


@cache
def _absolute() -> re.Pattern[str]:
    """Paths that begin with a folder of this machine's root; `/files/1k.bin` of a URL does not."""
    tops = "|".join(sorted(re.escape(name) for name in os.listdir("/")))  # noqa: PTH208
    return re.compile(rf"(?<![\w.~…/-])/(?:{tops})(?:/[^\s/:;,'\"()<>\]]+)+")


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""
