"""Provenance of a target: its reported version, and hashes of its program and its sources.

A target without a version is not measured.
"""

import hashlib
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from jissoku.errors import TargetError
from jissoku.model import BuildStep, VersionQuery
from jissoku.targets.placeholders import fill, fill_text

VERSION_LIMIT_S = 20.0

# Suffixes of the source files that a recipe's build compiles.
SOURCES = (".c", ".cc", ".cpp", ".go", ".rs")

Values = dict[str, str | tuple[str, ...]]


def version(probe: VersionQuery, values: Values) -> str:
    """Runs the command that prints a target's version.

    Returns:
        The matches of the pattern's groups, joined by spaces.

    Raises:
        TargetError: The command fails, or the pattern does not match its output.
    """
    return _reported(probe, values, "version")


def reported_sources_sha256(query: VersionQuery, values: Values) -> str:
    """Runs the command that prints a hash of the sources that a target was compiled from.

    Raises:
        TargetError: As for `version`.
    """
    return _reported(query, values, "sources")


def _reported(query: VersionQuery, values: Values, what: str) -> str:
    command = fill(query.command, values)
    try:
        answer = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=VERSION_LIMIT_S,
            check=False,
        )
    except OSError as error:
        raise TargetError(
            f"its {what} cannot be determined: {command[0]}: {error.strerror}"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise TargetError(f"it does not say its {what} within {VERSION_LIMIT_S:g} s") from error
    said = answer.stdout.decode(errors="replace")
    found = re.search(query.pattern, said)
    text = " ".join(group.strip() for group in found.groups() if group) if found else ""
    if not text:
        raise TargetError(f"it does not report its {what}, which is required", stderr=said)
    return text


def sha256(path: Path) -> str:
    """Hashes a file.

    Raises:
        TargetError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise TargetError(f"{path.name} cannot be hashed: {error.strerror}") from error


def sources_sha256(steps: Sequence[BuildStep], values: Values) -> str:
    """Hashes the sources of a program: the build commands, and the files that they name.

    Commands are hashed with their placeholders, so that the hash does not depend on folders.

    Returns:
        Empty if the commands name no source file, for example only a folder.

    Raises:
        TargetError: A file cannot be read.
    """
    words = [word for step in steps for word in step.command]
    sources = [
        Path(fill_text(word, values)) for word in words if fill_text(word, values).endswith(SOURCES)
    ]
    if not sources:
        return ""
    parts = [*words, *(sha256(source) for source in sources)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
