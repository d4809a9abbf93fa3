"""Turns a recipe into a target that can be started here, or into the reason why it cannot.

A target without a version is not measured.
"""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from jissoku import model
from jissoku.errors import InputError, TargetError
from jissoku.model.experiment import ConfigChange
from jissoku.system.address import Address
from jissoku.system.redaction import redact
from jissoku.targets import catalogue, placeholders

# A first `go build` compiles the standard library too.
PREPARE_LIMIT_S = 240.0

# A probe only examines the machine, and a program prints its version.
PROBE_LIMIT_S = VERSION_LIMIT_S = 20.0

# Suffixes of the source files that a recipe's build compiles.
SOURCES = (".c", ".cc", ".cpp", ".go", ".rs")

MODULE = "module:"

NO_LISTEN = model.ListenArguments(tcp=())


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTarget:
    """A target that can be started on this machine, whether from a recipe, a command or a URL.

    Attributes:
        capabilities: Empty when unknown.
        start: None for a URL. `values` fills the placeholders that are the same for every start.
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
    origin: model.Origin
    version: str
    capabilities: frozenset[model.Capability] = frozenset()
    description: str = ""
    limitations: str = ""
    binary_sha256: str = ""
    source_sha256: str = ""
    start: model.StartCommand | None = None
    listen: model.ListenArguments = NO_LISTEN
    config: tuple[model.ConfigFile, ...] = ()
    values: placeholders.Values = field(default_factory=dict)
    address: Address | None = None
    folder: Path | None = None
    inherits: bool = False
    compiles: bool | None = None
    forward: model.ForwardArguments | None = None
    behind: "PreparedTarget | None" = None
    upstream: model.Transport = model.Transport.TCP
    is_tls: bool = False
    user_upstreams: tuple[Address, ...] = ()

    def with_upstream(self, upstream: model.Transport) -> "PreparedTarget":
        """With its upstream server on this transport; unchanged if it is not a reverse proxy."""
        if self.forward is None or upstream is self.upstream:
            return self
        if upstream is model.Transport.UNIX and not self.forward.unix:
            raise InputError(f"{self.name} cannot forward to a Unix socket")
        description = f"{self.description}\nThe server behind it listens on {upstream.value}."
        return replace(self, upstream=upstream, description=description)

    def with_changes(self, changes: Iterable[ConfigChange]) -> "PreparedTarget":
        """With other texts in its files, and words and variables added to its command."""
        assert self.start is not None, "recipes and commands are started"
        start, config = self.start, self.config
        for change in changes:
            if change.config:
                config = tuple(
                    model.updated(one, text=one.text.replace(change.find, change.replace))
                    if one.name == change.config
                    else one
                    for one in config
                )
            start = model.updated(
                start,
                command=(*start.command, *change.add),
                environment=start.environment | change.environment,
            )
        return replace(self, start=start, config=config)

    def arm(self, name: str = "") -> model.Arm:
        environment = self.start.environment if self.start else {}
        parts = [f"{file.name}\0{file.text}" for file in self.config]
        parts += [f"{name}={value}" for name, value in sorted(environment.items())]
        return model.Arm(
            name=name or self.name,
            target=self.name,
            origin=self.origin,
            version=self.version,
            command=tuple(map(redact, self.start.command)) if self.start else (),
            binary_sha256=self.binary_sha256,
            source_sha256=self.source_sha256,
            config_sha256=hashlib.sha256("\0\0".join(parts).encode()).hexdigest(),
            description=self.description,
            limitations=self.limitations,
        )


def missing_requirement(
    recipe: model.Recipe, place: placeholders.BuildPaths
) -> model.UnavailableTarget | None:
    """Why a recipe is unavailable here, without building it; None if it is available."""
    reason = next(_missing_requirements(recipe, place), "")
    return _unavailable(recipe, reason) if reason else None


def _missing_requirements(recipe: model.Recipe, place: placeholders.BuildPaths) -> Iterator[str]:
    lacks: tuple[tuple[tuple[str, ...], Callable[[str], object], str], ...] = (
        (recipe.programs, placeholders.find_program, "no program {} on the PATH"),
        (recipe.modules, placeholders.find_module, "this Python has no module {}"),
        (recipe.headers, placeholders.find_header, "the C compiler finds no header {}"),
        (recipe.files, lambda file: Path(file).is_file(), "no file {}"),
    )
    for names, find, lack in lacks:
        yield from (lack.format(name) for name in names if not find(name))
    values = place.values(recipe.name)
    yield from _probed(recipe, values)
    program = placeholders.fill_text(recipe.program, values)
    if not recipe.build and placeholders.find_program(program) is None:
        yield f"no program {Path(program).name} here"


def _probed(recipe: model.Recipe, values: placeholders.Values) -> Iterator[str]:
    if not recipe.probe:
        return
    try:
        code, said = placeholders.run_program(
            placeholders.fill(recipe.probe, values), PROBE_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield f"its probe cannot be run: {error}"
        return
    if code:
        yield said.strip().rpartition("\n")[2] or f"its probe exited with {code}"


def _unavailable(recipe: model.Recipe, reason: str) -> model.UnavailableTarget:
    # The Python to install into, as a command typed in the working directory names it.
    python = Path(sys.executable)
    if python.is_relative_to(Path.cwd()):
        shown = str(python.relative_to(Path.cwd()))
    else:
        shown = "python3" if sys.prefix == sys.base_prefix else "python"
    hint = placeholders.fill_text(recipe.install, {"python": shown})
    return model.UnavailableTarget(name=recipe.name, reason=reason, install_hint=hint)


def prepare(
    recipe: model.Recipe, place: placeholders.BuildPaths
) -> PreparedTarget | model.UnavailableTarget:
    """Builds a recipe's target, and determines its version; TargetError with the output."""
    lack = missing_requirement(recipe, place)
    if lack is not None:
        return lack
    behind = _behind(recipe, place)
    if isinstance(behind, model.UnavailableTarget):
        return _unavailable(recipe, f"{behind.name}, which serves behind it: {behind.reason}")
    values = place.values(recipe.name)
    try:
        program = _built_program(recipe, values)
        values["program"] = str(program)
        version = reported(recipe.version, values, "version")
        binary_sha256 = sha256(_binary(recipe, program, values))
        source_sha256 = (
            reported(recipe.sources, values, "sources")
            if recipe.sources is not None
            else sources_sha256(recipe.build, values)
        )
    except TargetError as error:
        raise TargetError(f"{recipe.name}: {error}", stderr=error.stderr) from error
    return PreparedTarget(
        name=recipe.name,
        origin=model.Origin.RECIPE,
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


def reported(query: model.VersionQuery, values: placeholders.Values, what: str) -> str:
    """Returns what a program prints of its version or sources: the groups of the pattern."""
    command = placeholders.fill(query.command, values)
    try:
        _, said = placeholders.run_program(command, VERSION_LIMIT_S)
    except OSError as error:
        reason = f"{command[0]}: {error.strerror}"
        raise TargetError(f"its {what} cannot be determined: {reason}") from error
    except subprocess.TimeoutExpired as error:
        raise TargetError(f"it does not say its {what} within {VERSION_LIMIT_S:g} s") from error
    found = re.search(query.pattern, said)
    text = " ".join(group.strip() for group in found.groups() if group) if found else ""
    if not text:
        raise TargetError(f"it does not report its {what}, which is required", stderr=said)
    return text


def sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise TargetError(f"{path.name} cannot be hashed: {error.strerror}") from error


def sources_sha256(steps: Sequence[model.BuildStep], values: placeholders.Values) -> str:
    """Hashes the sources of a program: the build commands, and the files that they name.

    Commands are hashed with their placeholders, so that the hash does not depend on folders.
    Empty if the commands name no source file, for example only a folder.
    """
    words = [word for step in steps for word in step.command]
    sources = [word for word in placeholders.fill(words, values) if word.endswith(SOURCES)]
    if not sources:
        return ""
    parts = [*words, *(sha256(Path(source)) for source in sources)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _behind(
    recipe: model.Recipe, place: placeholders.BuildPaths
) -> PreparedTarget | model.UnavailableTarget | None:
    if recipe.forward is None:
        return None
    found = prepare(catalogue.get_recipe(catalogue.recipes(), recipe.forward.behind), place)
    if isinstance(found, PreparedTarget) and recipe.forward.listen is not None:
        return replace(found, listen=recipe.forward.listen)
    return found


def _built_program(recipe: model.Recipe, values: placeholders.Values) -> Path:
    for step in recipe.build:
        _run(step, values)
    program = placeholders.find_program(placeholders.fill_text(recipe.program, values))
    if program is None:
        raise TargetError("its steps of getting ready made no program")
    return program


def _binary(recipe: model.Recipe, program: Path, values: placeholders.Values) -> Path:
    if recipe.binary.startswith(MODULE):
        name = recipe.binary.removeprefix(MODULE)
        found = placeholders.find_module(name)
        if found is None:
            raise TargetError(f"the file of the module {name} was not found")
        return found
    return Path(placeholders.fill_text(recipe.binary, values)) if recipe.binary else program


def _run(step: model.BuildStep, values: placeholders.Values) -> None:
    folder = Path(str(values["cache"]))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TargetError(f"{folder} cannot be made: {error.strerror}") from error
    added = {key: placeholders.fill_text(value, values) for key, value in step.environment.items()}
    command = placeholders.fill(step.command, values)
    try:
        code, said = placeholders.run_program(
            command, PREPARE_LIMIT_S, folder=folder, environment=os.environ | added
        )
    except OSError as error:
        raise TargetError(f"{command[0]} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"").decode(errors="replace")
        message = f"getting ready took longer than {PREPARE_LIMIT_S:g} s"
        raise TargetError(message, stderr=said) from error
    if code:
        message = f"getting ready failed: {Path(command[0]).name} exited with {code}"
        raise TargetError(message, stderr=said)
