"""How to build and run a target, and its knobs: the contents of a recipe file."""

from enum import StrEnum

import msgspec


class ChangeKind(StrEnum):
    DIRECTIVE = "directive"  # sets a directive of an nginx configuration wherever it occurs
    APPEND = "append"  # adds words to a directive of an nginx configuration that does not have them
    MISSING = "missing"  # adds a directive to its block, unless it is set already
    LISTEN = "listen"  # adds a parameter once to each TCP address that nginx listens at
    LINE = "line"  # replaces lines of a HAProxy configuration, or adds one to their section
    UPSTREAM = "upstream"  # keeps this many idle connections to upstream blocks
    ENVIRONMENT = "environment"  # sets a variable of the target's environment
    ARGUMENT = (
        "argument"  # a flag of the command that starts the target: its value, or added to the end
    )


class Direction(StrEnum):
    FALLS = "falls"
    RISES = "rises"


class KnobGoal(StrEnum):
    """The metric that a knob should reduce."""

    COST = "CPU per request"
    RATE = "time per answer at full load"  # with all cores, which the load generator shares


class KnobChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a knob.

    Attributes:
        name: Of the directive or the variable; empty if the kind implies it. Of lines the first
            words, with `|` between alternatives.
        value: Of lines the new one; empty removes them.
        where: The block for a directive that does not occur yet: main, events, http. The section
            for a line: global, defaults.
        default: The value of a missing directive, which then need not be set to it.
    """

    kind: ChangeKind
    value: str
    name: str = ""
    where: str = "http"
    default: str = ""


class Knob(msgspec.Struct, frozen=True, kw_only=True):
    """A knob, as a recipe describes it.

    Attributes:
        why: Its saving, and its price.
        counter: The counter that should change, per request: a system call by its name, or one of
            `connections`, `segments` and `bytes`, or `user_us`, microseconds outside the kernel; or
            `cores`, the number of busy cores, or `migrations`, core migrations of threads per
            second.
        for_findings: Names of the findings that it remedies; `jissoku explain --verify` tries it
            for these.
        workers_min: It has no effect with fewer workers.
        needs: A directive of nginx, with its words (`gzip on`) or without (`ssl_certificate`),
            without which the knob has no effect.
        of_application: It sets what only the recipe's own application reads, so that another
            command of the same server has no use for it.
    """

    name: str
    why: str
    counter: str
    change: tuple[KnobChange, ...]
    direction: Direction = Direction.FALLS
    for_findings: tuple[str, ...] = ()
    objective: KnobGoal = KnobGoal.COST
    workers_min: int = 1
    needs: str = ""
    of_application: bool = False

    @property
    def counter_unit(self) -> str:
        return {"cores": "in all", "migrations": "a second"}.get(self.counter, "per request")


class Capability(StrEnum):
    """A part of the common contract; a target serves those that it supports."""

    HELLO = "hello"  # GET / -> Hello, World!
    ANSWER_42 = "answer-42"  # GET /42 -> 42, with the header fields of the server-cores experiment
    DELAY = "delay"  # GET /delay?ms=N -> Hello, World!, N milliseconds later
    FILES = "files"  # GET /files/NAME -> a file of the contract's folder


class TargetKind(StrEnum):
    """What a target is; targets of one kind can take each other's place."""

    SERVER = "server"
    PROXY = "proxy"
    APPLICATION_SERVER = "application server"


class VersionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A command that prints the version on either of its outputs.

    What the groups of `pattern` match, joined by spaces, is the version.
    """

    command: tuple[str, ...]
    pattern: str


class BuildStep(msgspec.Struct, frozen=True, kw_only=True):
    """One preparation command, run in the recipe's cache folder before any trial."""

    command: tuple[str, ...]
    environment: dict[str, str] = msgspec.field(default_factory=dict)


class StartCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The command that starts the target in the foreground, and additional variables."""

    command: tuple[str, ...]
    environment: dict[str, str] = msgspec.field(default_factory=dict)


class UpstreamProtocol(StrEnum):
    """What a reverse proxy and the servers behind it speak."""

    HTTP = "http"
    UWSGI = "uwsgi"


class ListenArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The replacement of {listen}. Empty `unix`: the target cannot listen on a Unix socket."""

    tcp: tuple[str, ...]
    unix: tuple[str, ...] = ()


class ForwardArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a reverse proxy: the replacement of {upstreams}, once for each server.

    Attributes:
        tcp: The words for a server on a port, with {upstream_port}.
        unix: The words for one on a Unix socket, with {upstream_socket}; empty: not supported.
        behind: The recipe of the upstream server that is started if no other is given. Its
            processes are not the target's: their CPU time is not counted.
        servers_max: Maximum number of upstream servers; None: unlimited.
        listen: How the server behind listens, if not as its own recipe says.
    """

    tcp: str
    unix: str = ""
    servers_max: int | None = None
    behind: str = "jissoku"
    protocol: UpstreamProtocol = UpstreamProtocol.HTTP
    listen: ListenArguments | None = None


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is written into the folder of the start, {run}."""

    name: str
    text: str


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How to build and run a target.

    Attributes:
        name: The file's name without its suffix.
        limitations: Missing features, so that "fast because it does less" is on the page.
        install: The one command that adds it to this machine.
        program: The started program: a name on the PATH, or a path with placeholders.
        binary: The hashed file: empty for the program, `module:NAME` for the file of a Python
            module.
        sources: Prints a hash of the sources of a program that no step of `build` compiles, if it
            knows one: builds of the same sources are then the same program in the history.
        programs: Programs that must be on the PATH, also for preparation.
        modules: Python modules that must be importable.
        headers: Headers that the C compiler `cc` must find, as in `#include <...>`.
        files: Files that must exist, such as those of a Debian package.
        probe: A command that fails where this machine cannot run the target, and then prints the
            reason as one sentence; run before anything is built.
        groups: Its groups, for `jissoku compare --group`: `wsgi` or `asgi`.
        compiles: Whether its runtime compiles hot code (JavaScript, the JVM): the warm-up is then
            longer, at a fixed rate.
        forward: How a reverse proxy is configured; None for every other target.
        kind: What it is, where `forward` and `groups` do not say so.
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
    sources: VersionQuery | None = None
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
    kind: TargetKind | None = None
    knob: tuple[Knob, ...] = ()

    @property
    def target_kind(self) -> TargetKind:
        if self.kind is not None:
            return self.kind
        if self.forward is not None:
            return TargetKind.PROXY
        return TargetKind.APPLICATION_SERVER if self.groups else TargetKind.SERVER
