"""An nginx configuration as text that is edited in place, so that a diff stays small.

crossplane, by the makers of nginx, checks the files and splits them into words. It does not report
a word's position in its line, which is determined here, word by word. An edit replaces a directive
or inserts text next to it; every other byte stays. Edits: knobs, listen parameters, keep-alive to
upstream servers.
"""

import difflib
import glob
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import crossplane  # type: ignore[import-untyped]
from crossplane.errors import NgxParserBaseException  # type: ignore[import-untyped]

from jissoku.errors import InputError
from jissoku.model import ChangeKind, Knob, KnobChange

# nginx rejects a file that includes itself; here the recursion only has to be bounded.
INCLUDES_DEEP_MAX = 10

ERROR_NUMBER = re.compile(r"^\[Errno \d+\] ")

NO_NEWLINE = "\\ No newline at end of file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Directive:
    """A directive, and the offsets in its file.

    `end` is after its semicolon or closing brace, `body` after its opening brace.
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
    texts: Mapping[Path, str]

    @property
    def main(self) -> Path:
        return next(iter(self.texts))

    def walk(self) -> Iterator[tuple[tuple[Directive, ...], Directive]]:
        """Every directive with the blocks around it, as if all includes were one text."""
        yield from self._walk(parse(self.texts[self.main], self.main), ())

    def _walk(
        self, directives: Iterable[Directive], above: tuple[Directive, ...], deep: int = 0
    ) -> Iterator[tuple[tuple[Directive, ...], Directive]]:
        for directive in directives:
            yield above, directive
            yield from self._walk(directive.inner, (*above, directive), deep)
            if directive.name == "include" and deep < INCLUDES_DEEP_MAX:
                for file in self.included(directive):
                    if file in self.texts:
                        yield from self._walk(parse(self.texts[file], file), above, deep + 1)

    def named(self, name: str, within: Directive | None = None) -> list[Directive]:
        return [
            directive
            for above, directive in self.walk()
            if directive.name == name and (within is None or above[-1:] == (within,))
        ]

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
        parts: list[str] = []
        for file, text in self.texts.items():
            lines = (text.splitlines(keepends=True), other.texts[file].splitlines(keepends=True))
            # patch(1) needs a mark after a last line without a newline.
            parts += (
                line if line.endswith("\n") else f"{line}\n{NO_NEWLINE}\n"
                for line in difflib.unified_diff(*lines, str(file), f"{file} (proven)")
            )
        return "".join(parts)


def read(path: Path) -> Configuration:
    """Reads a configuration with all that it includes; InputError with file and line."""
    path = path.absolute()
    try:
        path.open().close()
        payload = crossplane.parse(str(path))
        for error in payload["errors"]:
            # For an error of the system the parser reports its number, and no line.
            words = ERROR_NUMBER.sub(f"{error['file']}:{error['line']}: ", error["error"])
            words = words or f"{error['file']}: is not a configuration of nginx"
            raise InputError(f"{words}: mend it first; `nginx -t` may say more")
        files = [Path(config["file"]) for config in payload["config"]]
        return Configuration({file: file.read_text(encoding="utf-8") for file in files})
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8, and could not be written back as it is") from error


@lru_cache(maxsize=256)
def parse(text: str, file: Path) -> tuple[Directive, ...]:
    """The directives of one text; InputError if that is malformed."""
    try:
        return _directives(_placed(text), file)
    except NgxParserBaseException as error:
        raise InputError(f"{file}: {error}") from error


class _Word(NamedTuple):
    text: str
    line: int
    start: int
    end: int
    is_quoted: bool

    @property
    def mark(self) -> str:
        """A brace or semicolon; empty for any other word."""
        return self.text if self.text in {"{", "}", ";"} and not self.is_quoted else ""


def _placed(text: str) -> Iterator[_Word]:
    """Words as crossplane reads them, with their offsets, comments left out."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="") as file:
        # A last comment without its newline would be lost.
        file.write(text if text.endswith("\n") else f"{text}\n")
        file.flush()
        lexed = list(crossplane.lex(file.name))
    at = 0
    for word, line, is_quoted in lexed:
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


def _directives(words: Iterable[_Word], file: Path) -> tuple[Directive, ...]:
    found: list[Directive] = []
    pending: list[_Word] = []
    # Each open block: the directives before it, its own words, and where its body began.
    open_blocks: list[tuple[list[Directive], list[_Word], int]] = []
    for word in words:
        if word.mark == "{":
            open_blocks.append((found, pending, word.end))
            found, pending = [], []
        elif word.mark == "}":
            before, head, body = open_blocks.pop()
            block = _directive(head, file, word.end)
            found, pending = [*before, replace(block, body=body, inner=tuple(found))], []
        elif word.mark:
            found.append(_directive(pending, file, word.end))
            pending = []
        else:
            pending.append(word)
    return tuple(found)


def _directive(words: list[_Word], file: Path, end: int) -> Directive:
    name, *parameters = words
    return Directive(
        name=name.text,
        words=tuple(word.text for word in parameters),
        file=file,
        line=name.line,
        start=name.start,
        end=end,
    )


INDENT = "    "


def replaced(directive: Directive, text: str) -> Edit:
    return Edit(file=directive.file, start=directive.start, end=directive.end, text=text)


def extended(configuration: Configuration, directive: Directive, words: str) -> Edit:
    """Appends words to a simple directive; its other words stay as written."""
    kept = configuration.texts[directive.file][directive.start : directive.end - 1].rstrip()
    return replaced(directive, f"{kept} {words};")


def inserted(configuration: Configuration, block: Directive | None, text: str) -> Edit:
    """Inserts a line at the beginning of a block, or of the main file."""
    if block is None:
        return Edit(file=configuration.main, start=0, end=0, text=f"{text}\n")
    assert block.body is not None, "only a block is inserted into"
    indent = _indent(configuration, block)
    lead = " " if indent is None else f"\n{indent}"
    return Edit(file=block.file, start=block.body, end=block.body, text=f"{lead}{text}")


def appended(configuration: Configuration, block: Directive, text: str) -> Edit:
    indent = _indent(configuration, block)
    if not block.inner:
        return inserted(configuration, block, text)
    at = block.inner[-1].end
    # A comment on the last line stays on it.
    line_end = configuration.texts[block.file].find("\n", at, block.end - 1)
    if indent is not None and line_end >= 0:
        return Edit(file=block.file, start=line_end, end=line_end, text=f"\n{indent}{text}")
    return Edit(file=block.file, start=at, end=at, text=f" {text}")


def _indent(configuration: Configuration, block: Directive) -> str | None:
    """The indentation of a block's lines; None for a block on one line."""
    assert block.body is not None, "only a block has lines"
    if not block.inner:
        return INDENT
    before = configuration.texts[block.file][block.body : block.inner[0].start]
    return (before.rpartition("\n")[2] or INDENT) if "\n" in before else None


VERSION = "proxy_http_version"
HEADER = "proxy_set_header"
EMPTY = f'{HEADER} Connection "";'

# Values that prevent keep-alive, which are replaced. Any other value is intended by the user, for
# example for WebSockets, and its location is left unchanged.
VERSION_OLD = "1.0"
CLOSE = "close"

CONDITIONS = frozenset({"if", "limit_except"})


# Enables keep-alive between nginx and its upstream servers. All of three settings are needed:
# `keepalive` in the upstream block, HTTP/1.1, and no `Connection: close`, which nginx sends by
# default (ngx_http_upstream_module).


def proxy_routes(configuration: Configuration) -> Iterator[tuple[tuple[Directive, ...], Directive]]:
    """All proxy_pass directives that name an upstream, as the blocks around and the upstream."""
    upstreams = {
        directive.words[0]: directive
        for above, directive in configuration.walk()
        if directive.name == "upstream" and [one.name for one in above] == ["http"]
    }
    for above, directive in configuration.walk():
        if directive.name == "proxy_pass" and above and above[0].name == "http":
            scheme, _, rest = directive.words[0].partition("://")
            name = rest.partition("/")[0]
            if scheme in {"http", "https"} and name in upstreams:
                # `if` and `limit_except` may have a proxy_pass but none of the settings.
                last = max(i for i, block in enumerate(above) if block.name not in CONDITIONS)
                yield above[: last + 1], upstreams[name]


def enable_keepalive(configuration: Configuration, change: KnobChange) -> Iterator[Edit]:
    """`value` is the number of idle connections per worker."""
    for above, upstream in proxy_routes(configuration):
        header = _header(configuration, above)
        if header is None:
            continue
        yield from header
        yield from _version(configuration, above)
        if not configuration.named("keepalive", upstream):
            # After the load balancing method, which it has to follow.
            yield appended(configuration, upstream, f"keepalive {change.value};")


def _header(configuration: Configuration, above: Sequence[Directive]) -> list[Edit] | None:
    """The edit that clears the Connection field; None where it is set already.

    Fields are inherited only by blocks that set none, so another one goes next to existing ones.
    """
    for block in reversed(above):
        fields = configuration.named(HEADER, block)
        if not fields:
            continue
        mine = [one for one in fields if one.words[0].lower() == "connection"]
        if not mine:
            return [inserted(configuration, block, EMPTY)]
        if any(one.words[1].lower() not in {"", CLOSE} for one in mine):
            return None
        return [replaced(one, EMPTY) for one in mine if one.words[1]]
    return [inserted(configuration, above[-1], EMPTY)]


def _version(configuration: Configuration, above: Sequence[Directive]) -> Iterator[Edit]:
    wanted = f"{VERSION} 1.1;"
    for block in reversed(above):
        for stands in configuration.named(VERSION, block):
            if stands.words[0] == VERSION_OLD:
                yield replaced(stands, wanted)
            return
    yield inserted(configuration, above[-1], wanted)


# Parameters of the socket (ngx_http_core_module), as opposed to those of its protocol.
OF_SOCKET = (
    *("accept_filter=", "backlog=", "bind", "deferred", "fastopen=", "ipv6only=", "rcvbuf="),
    *("reuseport", "setfib=", "so_keepalive=", "sndbuf="),
)
EVERYWHERE = ("*", "0.0.0.0")  # noqa: S104 - read, and never bound to
PORT = "80"


# Adds a parameter to the listen addresses of an nginx configuration, once to each. Several servers
# may share an address; then nginx takes the socket's parameters from one of their listen
# directives, and refuses a second that has any ("duplicate listen options").


def addresses(configuration: Configuration) -> Mapping[str, Sequence[Directive]]:
    found: dict[str, list[Directive]] = defaultdict(list)
    for above, directive in configuration.walk():
        is_http = bool(above) and above[0].name == "http"
        if directive.name != "listen" or not is_http or not directive.words:
            continue
        if directive.words[0].startswith("unix:") or "quic" in directive.words:
            continue
        found[_address(directive.words[0])].append(directive)
    return found


def add_listen_parameter(configuration: Configuration, change: KnobChange) -> Iterator[Edit]:
    """Adds a parameter to every address without it, next to other parameters of the socket."""
    for directives in addresses(configuration).values():
        if any(change.value in one.words for one in directives):
            continue
        # A line that is included in two servers would set the parameter twice.
        often = Counter((one.file, one.start) for one in directives)
        single = [one for one in directives if often[one.file, one.start] == 1]
        chosen = [
            one for one in directives if any(word.startswith(OF_SOCKET) for word in one.words[1:])
        ] or single
        if chosen and chosen[0] in single:
            yield extended(configuration, chosen[0], change.value)


def _address(word: str) -> str:
    """An address as nginx reads it: a bare number is a port, a bare host has port 80."""
    if word.isdigit():
        return f"*:{word}"
    host, colon, port = word.rpartition(":")
    if not colon or word.endswith("]"):
        host, port = word, PORT
    return f"{'*' if host in EVERYWHERE else host}:{port}"


MAIN = "main"

# One worker per core: nginx's keyword, and the lab's placeholder, escaped or not.
AS_MANY_AS_CORES = frozenset({"auto", "{workers}", "\x01workers\x02"})


def switch(configuration: Configuration, *knobs: Knob) -> Configuration:
    for change in (change for knob in knobs for change in knob.change):
        if change.kind in EDITS:
            configuration = configuration.edited(EDITS[change.kind](configuration, change))
    return configuration


def unfit(configuration: Configuration, knob: Knob, cores: int) -> str:
    """Why a knob has no effect here, as the end of a sentence; empty if it has one."""
    if not all(change.kind in EDITS for change in knob.change):
        return "is not a directive"
    workers = 1
    for above, directive in configuration.walk():
        if directive.name == "worker_processes" and not above:
            (word,) = directive.words
            workers = cores if word in AS_MANY_AS_CORES else int(word)
    if workers < knob.workers_min:
        return "is for several workers, and there is one"
    settings = {" ".join((found.name, *found.words)) for _, found in configuration.walk()}
    if knob.needs and not configuration.named(knob.needs) and knob.needs not in settings:
        return f"needs `{knob.needs}`, which is not set"
    for change in knob.change:
        if change.kind is ChangeKind.UPSTREAM and not any(proxy_routes(configuration)):
            return "is for requests that are passed on to an upstream block, and there are none"
        if change.kind is ChangeKind.LISTEN and not addresses(configuration):
            return "is for a listen directive with a TCP address, and there is none"
    return ""


def setting(configuration: Configuration, change: KnobChange) -> Iterator[Edit]:
    """Sets a directive wherever it occurs within a block, else in the block itself.

    One in an inner block hides the outer one, so setting only the outer one would do nothing.
    """
    stands = False
    block = None
    for above, directive in configuration.walk():
        if directive.name == change.where and not above:
            block = directive
        if directive.name != change.name or not _is_within(above, change.where):
            continue
        stands = stands or len(above) == (change.where != MAIN)
        if " ".join(directive.words) != change.value:
            yield replaced(directive, f"{change.name} {change.value};")
    is_place = block is not None or change.where == MAIN
    if not stands and change.value != change.default and is_place:
        yield inserted(configuration, block, f"{change.name} {change.value};")


def _appending(configuration: Configuration, change: KnobChange) -> Iterator[Edit]:
    """Adds words to a directive that is not off and has none of their names yet."""
    added = [word for word in change.value.split() if "=" in word]
    names = tuple(word.partition("=")[0] + "=" for word in added)
    for _, directive in configuration.walk():
        if directive.name != change.name or directive.words[:1] == ("off",):
            continue
        if any(word.startswith(names) for word in directive.words):
            continue
        named = ""
        if change.name == "access_log":
            # Only a log to a file without variables in its name can be buffered
            # (ngx_http_log_module).
            file = directive.words[0] if directive.words else "$"
            if file.startswith(("syslog:", "/dev/")) or "$" in file:
                continue
            # Its second word is the name of a format, even if it looks like a parameter.
            named = "combined " if len(directive.words) == 1 else ""
        yield extended(configuration, directive, f"{named}{change.value}")


def _missing(configuration: Configuration, change: KnobChange) -> Iterator[Edit]:
    """Sets a directive in its block, unless it is set there already."""
    walk = configuration.walk()
    if not any(one.name == change.name and _is_within(above, change.where) for above, one in walk):
        yield from setting(configuration, change)


def _is_within(above: tuple[Directive, ...], where: str) -> bool:
    return (above[0].name == where) if above else where == MAIN


# All kinds of changes that are made to the text of a configuration.
EDITS: dict[ChangeKind, Callable[[Configuration, KnobChange], Iterator[Edit]]] = {
    ChangeKind.DIRECTIVE: setting,
    ChangeKind.APPEND: _appending,
    ChangeKind.MISSING: _missing,
    ChangeKind.LISTEN: add_listen_parameter,
    ChangeKind.UPSTREAM: enable_keepalive,
}
