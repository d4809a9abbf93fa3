"""An nginx configuration as text that is edited in place, so that a diff stays small.

crossplane, by the makers of nginx, checks the files and splits them into words. It does not report
a word's position in its line, which is determined here, word by word. An edit replaces a directive
or inserts text next to it; every other byte stays.
"""

import difflib
import glob
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import crossplane  # type: ignore[import-untyped]
from crossplane.errors import NgxParserBaseException  # type: ignore[import-untyped]

from jissoku.errors import InputError

# nginx rejects a file that includes itself; here the recursion only has to be bounded.
INCLUDES_DEEP_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Directive:
    """A directive and its position.

    Attributes:
        words: Its parameters, without quotes.
        start: Offset of its first character.
        end: Offset after its semicolon or its closing brace.
        body: Offset after its opening brace; None for a simple directive.
        inner: The directives between its braces.
    """

    name: str
    words: tuple[str, ...]
    file: Path
    line: int
    start: int
    end: int
    body: int | None = None
    inner: tuple["Directive", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Replaces the text between two offsets of a file."""

    file: Path
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Configuration:
    """The files of a configuration, the main one first, as texts."""

    texts: Mapping[Path, str]

    @property
    def main(self) -> Path:
        """The file that nginx is started with."""
        return next(iter(self.texts))

    def walk(self) -> Iterator[tuple[tuple[Directive, ...], Directive]]:
        """Every directive with the blocks around it, as if all includes were one text."""
        trees = {file: parse(text, file) for file, text in self.texts.items()}
        yield from self._walk(trees, trees[self.main], ())

    def _walk(
        self,
        trees: Mapping[Path, tuple[Directive, ...]],
        directives: Iterable[Directive],
        above: tuple[Directive, ...],
        deep: int = 0,
    ) -> Iterator[tuple[tuple[Directive, ...], Directive]]:
        for directive in directives:
            yield above, directive
            yield from self._walk(trees, directive.inner, (*above, directive), deep)
            if directive.name == "include" and deep < INCLUDES_DEEP_MAX:
                for file in self.included(directive):
                    yield from self._walk(trees, trees.get(file, ()), above, deep + 1)

    def included(self, include: Directive) -> list[Path]:
        """The files that an include names; relative to the main file's folder, as nginx does it."""
        pattern = str(self.main.parent / include.words[0])
        return [Path(name) for name in sorted(glob.glob(pattern))]  # noqa: PTH207 - nginx's glob(3)

    def edited(self, edits: Iterable[Edit]) -> "Configuration":
        """The same with all edits applied; a duplicate edit is applied once."""
        texts = dict(self.texts)
        ordered = sorted(dict.fromkeys(edits), key=lambda edit: (edit.start, edit.end))
        for edit in reversed(ordered):
            text = texts[edit.file]
            texts[edit.file] = text[: edit.start] + edit.text + text[edit.end :]
        return Configuration(texts)

    def diff(self, other: "Configuration") -> str:
        """The changes from this configuration to another, as a unified diff."""
        parts: list[str] = []
        for file, text in self.texts.items():
            lines = (text.splitlines(keepends=True), other.texts[file].splitlines(keepends=True))
            parts += map(_whole, difflib.unified_diff(*lines, str(file), f"{file} (proven)"))
        return "".join(parts)


def read(path: Path) -> Configuration:
    """Reads a configuration with all that it includes, and changes nothing.

    Raises:
        InputError: It cannot be read or is not an nginx configuration; names file and line.
    """
    path = path.absolute()
    try:
        payload = crossplane.parse(str(path))
        for error in payload["errors"]:
            raise InputError(f"{error['error']}: mend it first; `nginx -t` may say more")
        files = [Path(config["file"]) for config in payload["config"]]
        return Configuration({file: file.read_text(encoding="utf-8") for file in files})
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8, and could not be written back as it is") from error


def _whole(line: str) -> str:
    """A line of a diff; patch(1) needs a mark after a last line without a newline."""
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def parse(text: str, file: Path) -> tuple[Directive, ...]:
    """The directives of one text.

    Raises:
        InputError: A block is not closed, or another syntax error.
    """
    try:
        words = list(_placed(text))
    except (NgxParserBaseException, StopIteration, RuntimeError) as error:
        raise InputError(f"{file}: {error}") from error
    return tuple(_directives(iter(words), file))


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    line: int
    start: int
    end: int
    is_quoted: bool

    def marks(self, character: str) -> bool:
        """Whether a word is this brace or semicolon, and not quoted."""
        return self.text == character and not self.is_quoted


def _placed(text: str) -> Iterator[_Word]:
    """Words as crossplane reads them, with their offsets, comments left out."""
    at = 0
    for word, line, is_quoted in _lexed(text):
        while text[at].isspace():
            at += 1
        start = at
        if is_quoted:
            quote, at = text[at], at + 1
            while text[at] != quote:
                at += 2 if text[at] == "\\" else 1
            at += 1
        else:
            assert text.startswith(word, at), f"line {line}: {word!r} is not where it was read"
            at += len(word)
        if is_quoted or not word.startswith("#"):
            yield _Word(word, line, start, at, is_quoted)


def _lexed(text: str) -> list[tuple[str, int, bool]]:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="") as file:
        # A last comment without its newline would be lost.
        file.write(text if text.endswith("\n") else f"{text}\n")
        file.flush()
        return list(crossplane.lex(file.name))


def _directives(words: Iterator[_Word], file: Path) -> Iterator[Directive]:
    for first in words:
        if first.marks("}"):
            return
        parameters: list[str] = []
        last = first
        for last in words:
            if last.marks(";") or last.marks("{"):
                break
            parameters.append(last.text)
        body: int | None = None
        inner: tuple[Directive, ...] = ()
        end = last.end
        if last.marks("{"):
            body = last.end
            closing = _Closing(words)
            inner = tuple(_directives(closing, file))
            end = closing.end
        yield Directive(
            name=first.text,
            words=tuple(parameters),
            file=file,
            line=first.line,
            start=first.start,
            end=end,
            body=body,
            inner=inner,
        )


class _Closing:
    """Words, and where the last of them ended: a block's closing brace."""

    def __init__(self, words: Iterator[_Word]) -> None:
        self._words = words
        self.end = 0

    def __iter__(self) -> Iterator[_Word]:
        return self

    def __next__(self) -> _Word:
        word = next(self._words)
        self.end = word.end
        return word
