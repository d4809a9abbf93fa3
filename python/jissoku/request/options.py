"""How the fields of a request are given: one row per field, beside its type and its default.

A request is a frozen struct whose fields are annotated with an `Option`. Commands get their options
from it (`asking`), requests their command line (`to_argv`), and command lines their request
(`from_argv` of `jissoku.request`), so that an option that is added to the struct is in all of them,
and in the record.
"""

import inspect
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeVar, get_args

import click
import msgspec
from msgspec.structs import FieldInfo

# What stands in records for paths, hosts and users (`jissoku.system.redaction`), and
# in requests of older runs for what their records do not have.
OMITTED = re.compile(
    r"\N{HORIZONTAL ELLIPSIS}|~"
    r"|\b(?:PREFIX|PACKAGE|HERE|TMP|HOST|USER)\b|=(?:COMMAND|URL)$|^@?FILE$"
)

# An attribute of a docstring, and what is said of it.
ATTRIBUTE = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)

Decorator = Callable[[Any], Any]
Kind = TypeVar("Kind", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Option:
    """How a field is given: by words such as `-c`, `--connections`, or by its position.

    `type` reads a value, and writes it again if it has a method `text`. `is_local` says whether
    a value names a command, a file or a host: records leave out what identifies the machine in
    those, and pages accept them only if they are allowed to.
    """

    words: tuple[str, ...]
    type: Any = str
    help: str = ""
    metavar: str | None = None
    default_text: str = ""
    envvar: str | None = None
    is_local: Callable[[str], bool] = lambda _: False

    def decorator(self, name: str, default: Any) -> Decorator:
        """Adds it to a command, as the parameter `name`."""
        if not self.words:
            nargs, required = -1 if default == () else 1, default is msgspec.NODEFAULT
            return click.argument(
                name, nargs=nargs, required=required, type=self.type, metavar=self.metavar
            )
        given: dict[str, Any] = {"help": self.help}
        if default is True and "/" not in self.words[0]:
            given |= {"flag_value": False, "default": True}
        elif isinstance(default, bool):
            given |= {"is_flag": True, "default": default}
        else:
            given |= {"type": self.type, "metavar": self.metavar, "envvar": self.envvar}
            given |= {"multiple": default == ()}
            is_shown = self.default_text or default not in {None, "", (), msgspec.NODEFAULT}
            given |= {"show_default": self.default_text or bool(is_shown)}
            given |= {"required": True} if default is msgspec.NODEFAULT else {"default": default}
        return click.option(*self.words, name, **given)

    def given(self, value: Any) -> Iterator[str]:
        word, _, negative = self.words[0].partition("/")
        if isinstance(value, bool):
            yield word if value or not negative else negative
            return
        is_repeated = isinstance(value, tuple) and not isinstance(value[0], int)
        write = getattr(self.type, "text", str)
        for one in value if is_repeated else (value,):
            yield from (word, write(one))


def always(value: str) -> bool:
    """Every value of the option names a command, a file or a host."""
    return bool(value)


def option(*words: str, **given: Any) -> Option:
    """An option of these words; without any, an argument."""
    return Option(words, **given)


def rows(kind: type[msgspec.Struct]) -> Iterator[tuple[FieldInfo, Option]]:
    """The options of a kind of request, with the help text of the attribute or their own."""
    _, _, attributes = (inspect.getdoc(kind) or "").partition("Attributes:\n")
    texts = {name: " ".join(text.split()) for name, text in ATTRIBUTE.findall(attributes)}
    for field in msgspec.structs.fields(kind):
        for found in get_args(field.type):
            if isinstance(found, Option):
                yield field, replace(found, help=texts.get(field.name, found.help))


def asking(kind: type[msgspec.Struct]) -> Decorator:
    """Gives a command the options of a kind of request."""

    def decorated(command: Any) -> Any:
        for field, row in reversed(list(rows(kind))):
            command = row.decorator(field.name, field.default)(command)
        return command

    return decorated


def verb(
    *kinds: type[msgspec.Struct], **attributes: Any
) -> Callable[[Callable[..., int]], click.Command]:
    """A command with the options of some structs, whose function gets a value of each.

    `attributes` are those of `click.command`, such as `cls`.
    """

    def decorated(function: Callable[..., int]) -> click.Command:
        @wraps(function)
        def called(**given: Any) -> int:
            def value(kind: type[msgspec.Struct]) -> msgspec.Struct:
                return kind(**{field.name: given[field.name] for field, _ in rows(kind)})

            return function(*map(value, kinds))

        asked: Any = called
        for kind in reversed(kinds):
            asked = asking(kind)(asked)
        command: click.Command = click.command(**attributes)(asked)
        return command

    return decorated


def to_argv(request: msgspec.Struct) -> tuple[str, ...]:
    """The words after `jissoku` that ask for it; what has the default value is left out."""
    positional: list[str] = []
    words: list[str] = []
    for field, row in rows(type(request)):
        value = getattr(request, field.name)
        if value == field.default:
            continue
        if row.words:
            words += row.given(value)
        else:
            positional += value if isinstance(value, tuple) else (value,)
    verb = str(request.__struct_config__.tag)
    if any(word.startswith("-") for word in positional):
        return (verb, *words, "--", *positional)
    return (verb, *positional, *words)


def command_line(request: msgspec.Struct) -> str:
    return shlex.join(("jissoku", *to_argv(request)))


def local_texts(request: msgspec.Struct) -> Iterator[str]:
    for field, row in rows(type(request)):
        value = getattr(request, field.name)
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, str) and row.is_local(one):
                yield one


def is_complete(request: msgspec.Struct) -> bool:
    """Whether nothing stands for a name that a record leaves out."""
    return not any(OMITTED.search(text) for text in local_texts(request))


def with_local_texts(request: Kind, change: Callable[[str], str]) -> Kind:
    """The request with each of these values changed."""
    changed: dict[str, Any] = {}
    for field, row in rows(type(request)):
        value = getattr(request, field.name)
        if isinstance(value, str) and row.is_local(value):
            changed[field.name] = change(value)
        elif isinstance(value, tuple) and all(isinstance(one, str) for one in value):
            changed[field.name] = tuple(change(one) if row.is_local(one) else one for one in value)
    return msgspec.structs.replace(request, **changed)
