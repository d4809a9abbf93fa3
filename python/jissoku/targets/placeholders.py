"""Placeholders: `{port}` in a command, a configuration file or an environment.

Only the names below are placeholders; other braces stay, because nginx's configuration has them.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from jissoku.errors import InputError

# Their values. `listen` is replaced by several words, which the recipe gives for TCP or Unix.
MEANINGS = {
    "port": "the port to listen on, on 127.0.0.1",
    "socket": "path of the Unix socket to listen on",
    "listen": "the recipe's words for the address to listen on",
    "upstreams": "the servers that a reverse proxy forwards to, each in the recipe's own words",
    "upstream_port": "the port of one of them",
    "upstream_socket": "path of the Unix socket of one of them",
    "upstream_index": "its number, from 0",
    "workers": "how many workers: as many as the target has cores",
    "mask": "those cores as ones in a row of digits, core 0 the last, as nginx writes them",
    "files": "folder of the contract's files",
    "run": "a fresh folder of this start, removed afterwards; configuration files are in it",
    "cache": "folder of what was built for the recipe",
    "apps": "folder of the small applications that come with the recipes",
    "program": "the recipe's program, found on this machine",
    "python": "the Python that runs the lab",
    "jissoku": "the command jissoku installed with that Python",
    "user": "name of the user who runs the lab",
    "group": "name of that user's group",
}

PLACEHOLDER = re.compile(r"\{([a-z][a-z_]*)\}")


def fill(words: Iterable[str], values: Mapping[str, str | tuple[str, ...]]) -> tuple[str, ...]:
    """Fills every placeholder that has a value.

    A value of several words replaces a word that consists of its placeholder alone, and is joined
    by spaces elsewhere. Placeholders without a value stay unchanged.
    """
    filled: list[str] = []
    for word in words:
        alone = PLACEHOLDER.fullmatch(word)
        value = values.get(alone[1]) if alone else None
        if isinstance(value, tuple):
            filled.extend(fill(value, values))
        else:
            filled.append(fill_text(word, values))
    return tuple(filled)


def fill_text(text: str, values: Mapping[str, str | tuple[str, ...]]) -> str:
    """Fills the placeholders of one text."""

    def one(placeholder: re.Match[str]) -> str:
        value = values.get(placeholder[1], placeholder[0])
        return value if isinstance(value, str) else " ".join(fill(value, values))

    return PLACEHOLDER.sub(one, text)


def placeholders(words: Iterable[str]) -> set[str]:
    """Names of the placeholders in some words."""
    return {placeholder[1] for word in words for placeholder in PLACEHOLDER.finditer(word)}


def require_no_placeholder(file: Path, text: str) -> None:
    """Rejects a user's text that contains a placeholder, which would be filled by mistake.

    Raises:
        InputError: It does.
    """
    if strange := placeholders([text]) & set(MEANINGS):
        name = min(strange)
        raise InputError(f"{file}: {{{name}}} means something here, and cannot be run as it is")
