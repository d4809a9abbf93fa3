"""How to build and run a target: the contents of a recipe file."""

from enum import StrEnum

import msgspec

from jissoku.model.knob import Knob


class Capability(StrEnum):
    """A part of the common contract that every target serves, as far as it can."""

    HELLO = "hello"  # GET / -> Hello, World!
    ANSWER_42 = "answer-42"  # GET /42 -> 42, with the header fields of the server-cores experiment
    DELAY = "delay"  # GET /delay?ms=N -> Hello, World!, N milliseconds later
    FILES = "files"  # GET /files/NAME -> a file of the contract's folder


class VersionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How the target's version is determined.

    Attributes:
        command: Prints the version, on either of its outputs.
        pattern: Regular expression; what its groups match, joined by spaces, is the version.
    """

    command: tuple[str, ...]
    pattern: str


class BuildStep(msgspec.Struct, frozen=True, kw_only=True):
    """One command of getting ready, run in the recipe's cache folder before any trial."""

    command: tuple[str, ...]
    environment: dict[str, str] = msgspec.field(default_factory=dict)


class StartCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The command that starts the target in the foreground, and its environment's own part."""

    command: tuple[str, ...]
    environment: dict[str, str] = msgspec.field(default_factory=dict)


class ListenArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The replacement of {listen}. Empty `unix`: the target cannot listen on a Unix socket."""

    tcp: tuple[str, ...]
    unix: tuple[str, ...] = ()


class ForwardArguments(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a target a reverse proxy: the replacement of {upstreams}, once for each server.

    Attributes:
        tcp: The words for a server on a port, with {upstream_port}.
        unix: The words for one on a Unix socket, with {upstream_socket}; empty: it cannot do that.
        behind: The recipe whose server is started behind it when no other is given. Its processes
            are not the target's: their CPU time is not counted.
        servers_max: How many servers it can be given; None: any number.
    """

    tcp: str
    unix: str = ""
    servers_max: int | None = None
    behind: str = "jissoku"


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is written into the target's own folder, {run}, before it starts."""

    name: str
    text: str


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How to build and run a target.

    Attributes:
        name: The file's name without its suffix.
        description: What the target is, and what was decided about running it.
        limitations: What it does not do, so that "fast because it does less" is on the page.
        install: The one command that adds it to this machine.
        capabilities: What of the contract it can serve.
        program: What is started: a name to be found on the PATH, or a path with placeholders.
        binary: The file that is hashed: empty for the program, `module:NAME` for the file of
            a Python module.
        programs: Programs that must be on the PATH, for getting ready too.
        modules: Python modules that must be importable.
        headers: What the C compiler `cc` must find for getting ready, as `#include <...>` names it.
        files: Files that must be there: what a Debian package brings beside programs.
        probe: A command that fails where this machine cannot run the target, and then prints the
            reason as one sentence; run before anything is built.
        groups: What it is one of, for `jissoku compare --group`: `wsgi` or `asgi`.
        compiles: Whether its runtime compiles what runs often (JavaScript, the JVM): it is then
            warmed up for longer, at a fixed rate.
        forward: How a reverse proxy is configured; None for every other target.
        knob: What can be switched, for `jissoku tune`.
    """

    name: str
    description: str
    limitations: str
    install: str
    capabilities: tuple[Capability, ...]
    program: str
    version: VersionQuery
    start: StartCommand
    listen: ListenArguments
    binary: str = ""
    programs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    probe: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    build: tuple[BuildStep, ...] = ()
    config: tuple[ConfigFile, ...] = ()
    compiles: bool = False
    forward: ForwardArguments | None = None
    knob: tuple[Knob, ...] = ()
