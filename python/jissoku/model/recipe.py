"""How to get a target and run it: what a recipe file says, word for word."""

from dataclasses import dataclass, field
from enum import StrEnum

from jissoku.model.knob import Knob


class Part(StrEnum):
    """A part of the common contract that every target serves, as far as it can."""

    HELLO = "hello"  # GET / -> Hello, World!
    E5 = "e5"  # GET /42 -> 42, with the header fields of the server-cores experiment
    DELAY = "delay"  # GET /delay?ms=N -> Hello, World!, N milliseconds later
    FILES = "files"  # GET /files/NAME -> a file of the contract's folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """How the target itself is asked what it is.

    Attributes:
        command: Prints the version, on either of its outputs.
        pattern: Regular expression; what its groups match, joined by spaces, is the receipt.
    """

    command: tuple[str, ...]
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command of getting ready, run in the recipe's cache folder before any trial."""

    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The command that starts the target in the foreground, and its environment's own part."""

    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """What {listen} stands for. Empty `unix`: the target cannot listen on a Unix socket."""

    tcp: tuple[str, ...]
    unix: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A file that is written into the target's own folder, {run}, before it starts."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to get a target and run it.

    Attributes:
        name: The file's name without its suffix.
        essay: What the target is, and what was decided about running it.
        leaves_out: What it does not do, so that "fast because it does less" is on the page.
        install: The one command that adds it to this machine.
        parts: What of the contract it can serve.
        program: What is started: a name to be found on the PATH, or a path with placeholders.
        binary: What is hashed as the receipt: empty for the program, `module:NAME` for the file of
            a Python module.
        needs: Programs that must be on the PATH, for getting ready too.
        modules: Python modules that must be importable.
        headers: What the C compiler `cc` must find for getting ready, as `#include <...>` names it.
        needs_files: Files that must be there: what a Debian package brings beside programs.
        probe: A command that fails where this machine cannot run the target, and then prints the
            reason as one sentence; run before anything is built.
        knob: What can be switched, for `jissoku tune`.
    """

    name: str
    essay: str
    leaves_out: str
    install: str
    parts: tuple[Part, ...]
    program: str
    version: Version
    start: Start
    listen: Listen
    binary: str = ""
    needs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    needs_files: tuple[str, ...] = ()
    probe: tuple[str, ...] = ()
    prepare: tuple[Step, ...] = ()
    config: tuple[Config, ...] = ()
    knob: tuple[Knob, ...] = ()
