"""Turns a recipe into a target that can be started here, or into the reason why it cannot."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from jissoku.errors import InputError, TargetError
from jissoku.model import (
    Arm,
    BuildStep,
    Capability,
    ConfigFile,
    ForwardArguments,
    ListenArguments,
    Origin,
    Recipe,
    StartCommand,
    Transport,
    UnavailableTarget,
)
from jissoku.system.address import Address
from jissoku.targets import catalogue, provenance
from jissoku.targets.placeholders import (
    BuildPaths,
    fill,
    fill_text,
    find_header,
    find_module,
    find_program,
)
from jissoku.targets.provenance import redact

# A first `go build` compiles the standard library too.
PREPARE_LIMIT_S = 240.0

# A probe only examines the machine.
PROBE_LIMIT_S = 20.0

MODULE = "module:"

NO_LISTEN = ListenArguments(tcp=())


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTarget:
    """A target that can be started on this machine, whether from a recipe, a command or a URL.

    Attributes:
        name: The recipe's name, or the one given with the command or URL.
        capabilities: Capabilities it serves; empty when unknown.
        version: As reported by its program.
        start: None for a URL. The command has its placeholders; `values` fills those that are
            the same for every start.
        address: The address of a URL's server; None for a target that we start.
        folder: Where the command is run; None for the folder of the start, {run}.
        compiles: Whether its runtime compiles hot code; None: unknown, its processes show it.
        forward: How its upstream servers are configured, if it is a reverse proxy.
        behind: The server that is started behind it unless others are given.
        upstream: Where that server listens.
        inherits: Whether it inherits our complete environment, as a user's command expects.
        is_tls: Whether it speaks TLS on its TCP port.
        user_upstreams: Servers that its configuration forwards to, and that the user runs.
    """

    name: str
    origin: Origin
    version: str
    capabilities: frozenset[Capability] = frozenset()
    description: str = ""
    limitations: str = ""
    binary_sha256: str = ""
    source_sha256: str = ""
    start: StartCommand | None = None
    listen: ListenArguments = NO_LISTEN
    config: tuple[ConfigFile, ...] = ()
    values: dict[str, str | tuple[str, ...]] = field(default_factory=dict)
    address: Address | None = None
    folder: Path | None = None
    inherits: bool = False
    compiles: bool | None = None
    forward: ForwardArguments | None = None
    behind: "PreparedTarget | None" = None
    upstream: Transport = Transport.TCP
    is_tls: bool = False
    user_upstreams: tuple[Address, ...] = ()

    @property
    def listens_unix(self) -> bool:
        """Whether it can be started on a Unix socket."""
        return bool(self.listen.unix)

    def with_upstream(self, upstream: Transport) -> "PreparedTarget":
        """With its upstream server on this transport; unchanged if it is not a reverse proxy.

        Raises:
            InputError: It cannot forward to a Unix socket.
        """
        if self.forward is None or upstream is self.upstream:
            return self
        if upstream is Transport.UNIX and not self.forward.unix:
            raise InputError(f"{self.name} cannot forward to a Unix socket")
        description = f"{self.description}\nThe server behind it listens on {upstream.value}."
        return replace(self, upstream=upstream, description=description)

    def arm(self, name: str = "") -> Arm:
        """Its record, whose command has the placeholders unfilled."""
        return Arm(
            name=name or self.name,
            target=self.name,
            origin=self.origin,
            version=self.version,
            command=tuple(map(redact, self.start.command)) if self.start else (),
            binary_sha256=self.binary_sha256,
            source_sha256=self.source_sha256,
            config_sha256=self._config_sha256(),
            description=self.description,
            limitations=self.limitations,
        )

    def _config_sha256(self) -> str:
        environment = self.start.environment if self.start else {}
        parts = [f"{file.name}\0{file.text}" for file in self.config]
        parts += [f"{name}={value}" for name, value in sorted(environment.items())]
        return hashlib.sha256("\0\0".join(parts).encode()).hexdigest()


def missing_requirement(recipe: Recipe, place: BuildPaths) -> UnavailableTarget | None:
    """Why a recipe is unavailable here, without building it; None if it is available."""
    reason = next(_missing_requirements(recipe), "") or _probed(recipe, place)
    if reason:
        return _missing(recipe, reason)
    program = _program(recipe, place)
    if program is None and not recipe.build:
        return _missing(recipe, f"no program {Path(_filled(recipe, place)).name} here")
    return None


def _missing_requirements(recipe: Recipe) -> Iterator[str]:
    for name in recipe.programs:
        if find_program(name) is None:
            yield f"no program {name} on the PATH"
    for module in recipe.modules:
        if find_module(module) is None:
            yield f"this Python has no module {module}"
    for header in recipe.headers:
        if not find_header(header):
            yield f"the C compiler finds no header {header}"
    for file in recipe.files:
        if not Path(file).is_file():
            yield f"no file {file}"


def prepare(recipe: Recipe, place: BuildPaths) -> PreparedTarget | UnavailableTarget:
    """Builds a recipe's target, and determines its version.

    Raises:
        TargetError: A step failed, or the program reports no version; `stderr` has the output.
    """
    lack = missing_requirement(recipe, place)
    if lack is not None:
        return lack
    behind = _behind(recipe, place)
    if isinstance(behind, UnavailableTarget):
        return _missing(recipe, f"{behind.name}, which serves behind it: {behind.reason}")
    values = place.values(recipe.name)
    if recipe.build:
        _make_folder(recipe.name, Path(str(values["cache"])))
    for step in recipe.build:
        _run(recipe.name, step, values)
    program = _program(recipe, place)
    if program is None:
        raise TargetError(f"{recipe.name}: its steps of getting ready made no program")
    values["program"] = str(program)
    try:
        version = provenance.version(recipe.version, values)
        binary_sha256 = provenance.sha256(_binary(recipe, program, values))
        source_sha256 = _sources_sha256(recipe, values)
    except TargetError as error:
        raise TargetError(f"{recipe.name}: {error}", stderr=error.stderr) from error
    return PreparedTarget(
        name=recipe.name,
        origin=Origin.RECIPE,
        version=version,
        capabilities=frozenset(recipe.capabilities),
        compiles=recipe.compiles,
        description=recipe.description,
        limitations=recipe.limitations,
        binary_sha256=binary_sha256,
        source_sha256=source_sha256,
        start=recipe.start,
        listen=recipe.listen,
        config=recipe.config,
        values=values,
        forward=recipe.forward,
        behind=behind,
    )


def _behind(recipe: Recipe, place: BuildPaths) -> PreparedTarget | UnavailableTarget | None:
    """The server behind a reverse proxy; None for every other target."""
    if recipe.forward is None:
        return None
    found = prepare(catalogue.get_recipe(catalogue.recipes(), recipe.forward.behind), place)
    if isinstance(found, PreparedTarget) and recipe.forward.listen is not None:
        return replace(found, listen=recipe.forward.listen)
    return found


def _probed(recipe: Recipe, place: BuildPaths) -> str:
    """Why the recipe's probe failed on this machine; empty if it passed, or without one."""
    if not recipe.probe:
        return ""
    command = fill(recipe.probe, place.values(recipe.name))
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROBE_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"its probe cannot be run: {error}"
    said = done.stdout.decode(errors="replace").strip().rpartition("\n")[2]
    return (said or f"its probe exited with {done.returncode}") if done.returncode else ""


def _missing(recipe: Recipe, reason: str) -> UnavailableTarget:
    return UnavailableTarget(
        name=recipe.name, reason=reason, install_hint=fill_text(recipe.install, _shown())
    )


def _shown() -> dict[str, str | tuple[str, ...]]:
    """The Python to install into, as a command typed in the working directory names it."""
    python = Path(sys.executable)
    if python.is_relative_to(Path.cwd()):
        return {"python": str(python.relative_to(Path.cwd()))}
    return {"python": "python3" if sys.prefix == sys.base_prefix else "python"}


def _filled(recipe: Recipe, place: BuildPaths) -> str:
    return fill_text(recipe.program, place.values(recipe.name))


def _program(recipe: Recipe, place: BuildPaths) -> Path | None:
    return find_program(_filled(recipe, place))


def _binary(recipe: Recipe, program: Path, values: dict[str, str | tuple[str, ...]]) -> Path:
    if recipe.binary.startswith(MODULE):
        name = recipe.binary.removeprefix(MODULE)
        found = find_module(name)
        if found is None:
            raise TargetError(f"the file of the module {name} was not found")
        return found
    return Path(fill_text(recipe.binary, values)) if recipe.binary else program


def _sources_sha256(recipe: Recipe, values: dict[str, str | tuple[str, ...]]) -> str:
    if recipe.sources is not None:
        return provenance.reported_sources_sha256(recipe.sources, values)
    return provenance.sources_sha256(recipe.build, values)


def _make_folder(name: str, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TargetError(f"{name}: {folder} cannot be made: {error.strerror}") from error


def _run(name: str, step: BuildStep, values: dict[str, str | tuple[str, ...]]) -> None:
    added = {key: fill_text(value, values) for key, value in step.environment.items()}
    command = fill(step.command, values)
    try:
        done = subprocess.run(
            command,
            cwd=str(values["cache"]),
            env=os.environ | added,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PREPARE_LIMIT_S,
            check=False,
        )
    except OSError as error:
        raise TargetError(f"{name}: {command[0]} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"").decode(errors="replace")
        message = f"{name}: getting ready took longer than {PREPARE_LIMIT_S:g} s"
        raise TargetError(message, stderr=said) from error
    if done.returncode:
        raise TargetError(
            f"{name}: getting ready failed: {Path(command[0]).name} exited with {done.returncode}",
            stderr=done.stdout.decode(errors="replace"),
        )
