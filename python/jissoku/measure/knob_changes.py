"""Targets of tuning: a recipe with its knobs, or the user's own configuration."""

import difflib
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jissoku.errors import InputError
from jissoku.explain.settings import server_of_command
from jissoku.model import ChangeKind, ConfigFile, Knob, Recipe, StartCommand
from jissoku.model.updated import updated
from jissoku.system.cores import available_cores
from jissoku.targets import haproxy_config, nginx_config, nginx_sandbox
from jissoku.targets.nginx_config import Configuration
from jissoku.targets.placeholders import require_no_placeholder
from jissoku.targets.prepare import PreparedTarget

ALREADY_SET = "is so already"

# Limit of `nginx -V` in seconds, which normally prints immediately.
ASK_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningTarget:
    """A target with knobs; `skipped` ones are not tested, each with the reason.

    `prepared` is the target with some knobs switched, `diff` the change to that.
    """

    name: str
    knobs: tuple[Knob, ...]
    prepared: Callable[[tuple[str, ...]], PreparedTarget]
    diff: Callable[[tuple[str, ...]], str]
    skipped: dict[str, str] = field(default_factory=dict)
    sandbox: tuple[str, ...] = ()


def target_of_file(
    base: PreparedTarget,
    recipe: Recipe,
    knobs: Sequence[Knob],
    file: Path,
    listen: str,
    host: tuple[int, str] | None = None,
) -> TuningTarget:
    """The user's configuration of nginx or HAProxy, which is only read; `base` is its recipe's.

    `host` is how many cores it may have, and what relative paths of nginx refer to; None: those of
    this machine.
    """
    cores, prefix = host or (None, "")
    if recipe.name == "haproxy":
        return target_of_haproxy_configuration(file, base, knobs, listen=listen)
    if recipe.name != "nginx":
        raise InputError(f"--config is for nginx and haproxy: no reader exists for {recipe.name}'s")
    prefix = prefix or nginx_prefix(base)
    return target_of_configuration(file, base, knobs, prefix=prefix, listen=listen, cores=cores)


def target_of_configuration(
    path: Path,
    base: PreparedTarget,
    knobs: Sequence[Knob],
    *,
    prefix: str,
    listen: str = "",
    cores: int | None = None,
) -> TuningTarget:
    """The user's nginx configuration, which is only read; `base` is prepared from its recipe.

    Its relative paths refer to `prefix`. Requests go to `listen`; empty: it is chosen. `cores` is
    how many it may have; None: those of this machine.
    """
    count = len(available_cores()) if cores is None else cores
    original = nginx_config.read(path)
    nginx_sandbox.require_http(original)
    address = nginx_sandbox.choose_listen_address(original, listen)

    def unfit(knob: Knob) -> str:
        reason = nginx_config.unfit(original, knob, count)
        return reason or (ALREADY_SET if nginx_config.switch(original, knob) == original else "")

    return _target(
        f"nginx with {path}",
        knobs,
        unfit,
        prepared=lambda some: nginx_sandbox.prepared(
            base, nginx_config.switch(original, *some), address, prefix
        ),
        diff=lambda some: original.diff(nginx_config.switch(original, *some)),
        sandbox=nginx_sandbox.describe_changes(address),
    )


def target_of_haproxy_configuration(
    path: Path, base: PreparedTarget, knobs: Sequence[Knob], *, listen: str = ""
) -> TuningTarget:
    """The user's HAProxy configuration, which is only read; `base` is prepared from its recipe."""
    path = path.absolute()
    original = haproxy_config.read(path)
    require_no_placeholder(path, original)
    address = haproxy_config.choose_listen_address(path, original, listen)

    def unfit(knob: Knob) -> str:
        reason = haproxy_config.unfit(original, knob)
        return reason or (ALREADY_SET if haproxy_config.switch(original, knob) == original else "")

    return _target(
        f"haproxy with {path}",
        knobs,
        unfit,
        prepared=lambda some: haproxy_config.prepared(
            base, haproxy_config.switch(original, *some), address
        ),
        diff=lambda some: _lines(original, haproxy_config.switch(original, *some), str(path)),
        sandbox=haproxy_config.describe_changes(address),
    )


# What a command of the user's own can be given beside what it has.
OF_COMMANDS = frozenset({ChangeKind.ARGUMENT, ChangeKind.ENVIRONMENT})

# The recipe whose knobs fit a command that starts this server, and what every program of Go has
# in it (debug/buildinfo).
RECIPES_OF_SERVERS = {
    "caddy": "caddy-gateway",
    "gunicorn": "gunicorn",
    "node": "node",
    "uvicorn": "uvicorn",
}
GO_RECIPE, GO_MARK = "go", b"\xff Go buildinf:"


def target_of_command(
    base: PreparedTarget, recipes: Mapping[str, Recipe], cores: int | None = None
) -> TuningTarget | None:
    """A command of the user's own with the knobs of the server that it starts; None without any.

    `cores` is how many it may have; None: those of this machine.
    """
    assert base.start is not None, "a command was given"
    name = RECIPES_OF_SERVERS.get(server_of_command(base.start.command), "")
    if not name and GO_MARK in Path(str(base.values["program"])).read_bytes():
        name = GO_RECIPE
    if name not in recipes:
        return None
    fitting = [
        knob
        for knob in recipes[name].knob
        if knob.for_findings and not knob.of_application
        if all(change.kind in OF_COMMANDS for change in knob.change)
    ]
    return target_of_recipe(updated(recipes[name], name=base.name), fitting, base, cores)


def target_of_recipe(
    recipe: Recipe, knobs: Sequence[Knob], base: PreparedTarget, cores: int | None = None
) -> TuningTarget:
    """A recipe's target with these of its knobs; `cores` as above. InputError without any."""
    count = len(available_cores()) if cores is None else cores
    if not knobs:
        raise InputError(f"the recipe {recipe.name} has no knobs to try")
    found = _target(
        recipe.name,
        knobs,
        lambda knob: _no_effect_reason(base, knob, count),
        prepared=lambda some: _prepared(base, some),
        diff=lambda some: difference(base, _prepared(base, some)),
    )
    return updated(found, skipped=dict(sorted(found.skipped.items())))


def _target(
    name: str,
    knobs: Sequence[Knob],
    unfit: Callable[[Knob], str],
    *,
    prepared: Callable[[list[Knob]], PreparedTarget],
    diff: Callable[[list[Knob]], str],
    sandbox: tuple[str, ...] = (),
) -> TuningTarget:
    """A target with the knobs that fit; `unfit` says why one does not, or nothing."""
    known = {knob.name: knob for knob in knobs}
    skipped = {knob.name: why for knob in knobs if (why := unfit(knob))}
    return TuningTarget(
        name=name,
        knobs=tuple(knob for knob in knobs if knob.name not in skipped),
        skipped=skipped,
        prepared=lambda names: prepared([known[one] for one in names]),
        diff=lambda names: diff([known[one] for one in names]),
        sandbox=sandbox,
    )


def nginx_prefix(base: PreparedTarget) -> str:
    """The folder that relative paths of a configuration refer to, as nginx was built."""
    command = [str(base.values["program"]), "-V"]
    try:
        said = subprocess.run(
            command, capture_output=True, text=True, timeout=ASK_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"nginx does not report how it was built: {error}") from error
    found = re.search(r"--prefix=(\S+)", said.stderr)
    return found[1] if found else "/usr/local/nginx"


def _no_effect_reason(base: PreparedTarget, knob: Knob, cores: int) -> str:
    if _names_directives([knob]):
        reasons = [
            nginx_config.unfit(_configuration(config), knob, cores)
            for config in base.config
            if config.name.endswith(".conf")
        ]
        if reasons and all(reasons):
            return reasons[0]
    for config in base.config:
        if config.name == haproxy_config.NAME and (why := haproxy_config.unfit(config.text, knob)):
            return why
    # The recipe may derive the knob's value from the number of cores.
    follows_cores = any(
        change.kind is ChangeKind.DIRECTIVE and f"{change.name} {{workers}};" in config.text
        for change in knob.change
        for config in base.config
    )
    return ALREADY_SET if follows_cores or _prepared(base, [knob]) == base else ""


def _prepared(base: PreparedTarget, knobs: Sequence[Knob]) -> PreparedTarget:
    assert base.start is not None, "a recipe has a command"
    command, environment = base.start.command, dict(base.start.environment)
    for change in (change for knob in knobs for change in knob.change):
        if change.kind is ChangeKind.ENVIRONMENT:
            environment[change.name] = change.value
        elif change.kind is ChangeKind.ARGUMENT:
            command = _with_arguments(command, tuple(change.value.split()))
    return updated(
        base,
        start=StartCommand(command=command, environment=environment),
        config=tuple(_with_knobs(config, knobs) for config in base.config),
    )


def _with_knobs(config: ConfigFile, knobs: Sequence[Knob]) -> ConfigFile:
    if config.name == haproxy_config.NAME:
        return updated(config, text=haproxy_config.switch(config.text, *knobs))
    if not config.name.endswith(".conf") or not _names_directives(knobs):
        return config
    after = nginx_sandbox.within_cores(nginx_config.switch(_configuration(config), *knobs))
    return updated(config, text=nginx_sandbox.unescape_placeholders(after.texts[after.main]))


def _configuration(config: ConfigFile) -> Configuration:
    """Our placeholders look like blocks in nginx's grammar, so they are escaped meanwhile."""
    return Configuration({Path(config.name): nginx_sandbox.escape_placeholders(config.text)})


def _names_directives(knobs: Sequence[Knob]) -> bool:
    return any(change.kind in nginx_config.EDITS for knob in knobs for change in knob.change)


def _with_arguments(command: tuple[str, ...], words: tuple[str, ...]) -> tuple[str, ...]:
    """A command with additional words; an existing flag gets the new value."""
    if len(words) == 1 and words[0] in command:
        return command
    if len(words) == 2 and words[0] in command[:-1]:
        at = command.index(words[0])
        return (*command[:at], *words, *command[at + 2 :])
    return (*command, *words)


def difference(before: PreparedTarget, after: PreparedTarget) -> str:
    """What differs in the files, the environment and the command of a recipe's target."""
    assert before.start is not None, "a recipe has a command"
    assert after.start is not None, "with knobs, too"
    parts = [
        _lines(old.text, new.text, old.name)
        for old, new in zip(before.config, after.config, strict=True)
    ]
    old, new = (
        "".join(f"{key}={value}\n" for key, value in sorted(start.environment.items()))
        for start in (before.start, after.start)
    )
    parts.append(_lines(old, new, "environment"))
    old, new = (" ".join(start.command) + "\n" for start in (before.start, after.start))
    return "".join([*parts, _lines(old, new, "command")])


def _lines(old: str, new: str, name: str) -> str:
    both = (old.splitlines(keepends=True), new.splitlines(keepends=True))
    return "".join(difflib.unified_diff(*both, name, f"{name} (proven)"))
