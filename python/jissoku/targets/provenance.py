"""Provenance of a target: its reported version, and a hash of its program.

No version, no trial.
"""

import hashlib
import re
import subprocess
from pathlib import Path

from jissoku.errors import TargetError
from jissoku.model import VersionQuery
from jissoku.targets.placeholders import fill

VERSION_LIMIT_S = 20.0

Values = dict[str, str | tuple[str, ...]]


def version(probe: VersionQuery, values: Values) -> str:
    """Asks a target for its version.

    Returns:
        What the pattern's groups matched, joined by spaces.

    Raises:
        TargetError: The command fails or says nothing that the pattern finds.
    """
    command = fill(probe.command, values)
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
            f"its version cannot be determined: {command[0]}: {error.strerror}"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise TargetError(f"it does not say its version within {VERSION_LIMIT_S:g} s") from error
    said = answer.stdout.decode(errors="replace")
    found = re.search(probe.pattern, said)
    version_text = " ".join(group.strip() for group in found.groups() if group) if found else ""
    if not version_text:
        raise TargetError("it does not report its version, which is required", stderr=said)
    return version_text


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
