"""A HAProxy configuration as lines that are edited in place, so that a diff stays small.

A line is one directive (HAProxy configuration manual, 2.1); the first word of some begins a section
that lasts until the next. An edit replaces, removes or adds whole lines; every other byte stays.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jissoku.errors import InputError
from jissoku.model import ChangeKind, Knob, KnobChange

INDENT = "    "

# Words that begin a section (configuration manual, 2 and 4).
SECTIONS = frozenset(
    {
        "backend",
        "cache",
        "defaults",
        "fcgi-app",
        "frontend",
        "global",
        "http-errors",
        "listen",
        "mailers",
        "peers",
        "program",
        "resolvers",
        "ring",
        "userlist",
    }
)

# Proxies, which have what `defaults` says unless they say otherwise.
PROXIES = frozenset({"backend", "frontend", "listen"})
DEFAULTS = "defaults"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a configuration.

    Attributes:
        section: The word that began its section; empty before the first.
        words: Without quotes and comments; of the line that begins a section, too.
        text: As written, with its end.
        opens: Whether it begins the section.
    """

    section: str
    words: tuple[str, ...]
    text: str
    opens: bool = False

    def begins(self, words: Sequence[str]) -> bool:
        """Whether it is the directive with these first words."""
        return bool(words) and not self.opens and self.words[: len(words)] == tuple(words)

    def written(self, directive: str) -> str:
        """The line with another directive; empty for none."""
        indent = self.text[: len(self.text) - len(self.text.lstrip())]
        return f"{indent}{directive}\n" if directive else ""


def read(path: Path) -> str:
    """Reads a configuration, and changes nothing.

    Raises:
        InputError: It cannot be read, or has no proxy that listens.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8, and could not be written back as it is") from error
    if not any(line.begins(("bind",)) for line in lines(text)):
        raise InputError(f"{path}: no `bind` in it: is it a configuration of HAProxy?")
    return text


def lines(text: str) -> Iterator[Line]:
    """The lines of a configuration, each with its section."""
    section = ""
    for line in text.splitlines(keepends=True):
        words = _words(line)
        opens = bool(words) and words[0] in SECTIONS
        section = words[0] if opens else section
        yield Line(section=section, words=words, text=line, opens=opens)


def switch(text: str, knob: Knob) -> str:
    """The configuration with a knob switched; unchanged if it is set already."""
    for change in knob.change:
        if change.kind is ChangeKind.LINE:
            text = _changed(text, change)
    return text


def unfit(text: str, knob: Knob) -> str:
    """Why a knob has no effect here, as the end of a sentence; empty if it has one."""
    if not all(change.kind is ChangeKind.LINE for change in knob.change):
        return "is not a directive"
    needed = tuple(knob.needs.split())
    if needed and not any(line.begins(needed) for line in lines(text)):
        return f"needs `{knob.needs}`, which is not set"
    return ""


def _changed(text: str, change: KnobChange) -> str:
    """Replaces the directives that a change names wherever they are in its scope.

    If none is there, the new one is added to the section, unless that is the default. A change
    without a value removes them.
    """
    named = [tuple(words.split()) for words in change.name.split("|")]
    wanted = tuple(change.value.split())
    scope = {change.where} | (PROXIES if change.where == DEFAULTS else frozenset())
    found = list(lines(text))
    changed = [
        line.written(change.value)
        if line.section in scope and line.words != wanted and any(map(line.begins, named))
        else line.text
        for line in found
    ]
    stands = any(
        line.section == change.where and (line.words == wanted or any(map(line.begins, named)))
        for line in found
    )
    if not stands and change.value not in {"", change.default}:
        changed = list(_added(found, changed, change))
    return "".join(changed)


def _added(found: Iterable[Line], texts: Iterable[str], change: KnobChange) -> Iterator[str]:
    for line, text in zip(found, texts, strict=True):
        yield text
        if line.opens and line.section == change.where:
            yield f"{INDENT}{change.value}\n"


def _words(line: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line, comments=True))
    except ValueError:
        # An open quote: HAProxy rejects it, and says where.
        return tuple(line.split())
