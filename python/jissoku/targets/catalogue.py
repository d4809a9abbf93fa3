"""Recipes: reads a file, refuses one that is invalid; and all of them, built-in and the user's."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from jissoku.errors import InputError
from jissoku.model import ChangeKind, Recipe
from jissoku.system import toml_file
from jissoku.system.toml_file import Keys
from jissoku.targets.placeholders import MEANINGS, placeholders

# Known before a target is started: the placeholders of preparation steps and version commands.
OF_ONE_UPSTREAM = {"upstream_port", "upstream_socket", "upstream_index"}
LATE = frozenset(MEANINGS) - OF_ONE_UPSTREAM
EARLY = LATE - {"port", "socket", "listen", "workers", "mask", "files", "run", "upstreams"}

# Words of which there may be none.
MAY_BE_EMPTY: frozenset[Keys] = frozenset({("probe",), ("listen", "unix")})

# Kinds of changes whose directive needs no name.
UNNAMED_CHANGES = {ChangeKind.ARGUMENT, ChangeKind.LISTEN, ChangeKind.UPSTREAM}

# The blocks into which a missing directive can be inserted.
BLOCKS = ("main", "events", "http", "global", "defaults")


def read(path: Path) -> Recipe:
    """Reads a recipe, named as its file; InputError in one sentence with file, line and key."""
    recipe = toml_file.read(path, Recipe, name=path.stem)
    for keys, message in _mistakes(recipe):
        raise toml_file.mistake(path.name, path.read_text(encoding="utf-8"), keys, message)
    return recipe


def check(recipe: Recipe) -> None:
    """Refuses a recipe that `read` would refuse, of one that does not come from a file here."""
    for keys, message in _mistakes(recipe):
        raise InputError(f"{recipe.name}: {'.'.join(map(str, keys))} {message}")


def _mistakes(recipe: Recipe) -> Iterator[tuple[Keys, str]]:
    yield from _empty(recipe)
    yield from _pattern("version", recipe.version.pattern, "version")
    if recipe.sources is not None:
        yield from _pattern("sources", recipe.sources.pattern, "hash")
    yield from _placeholders(recipe)
    for index, config in enumerate(recipe.config):
        if not is_below(config.name):
            yield ("config", index, "name"), "must be a path below {run}"
    yield from _knobs(recipe)


def is_below(name: str) -> bool:
    """Whether a file of this name is written into the folder of a start, and nowhere else."""
    path = Path(name)
    return bool(path.name) and not path.is_absolute() and ".." not in path.parts


def _empty(recipe: Recipe) -> Iterator[tuple[Keys, str]]:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", recipe.name):
        yield ("description",), "the file's name must be small letters, digits and hyphens"
    for key in ("description", "limitations", "install", "program"):
        if not getattr(recipe, key).strip():
            yield (key,), "must not be empty"
    if not recipe.capabilities:
        yield ("capabilities",), "must name at least one part of the contract"
    if len(set(recipe.capabilities)) != len(recipe.capabilities):
        yield ("capabilities",), "names a part twice"
    for keys, words, _ in _words(recipe):
        if not words and keys not in MAY_BE_EMPTY:
            yield keys, "must not be empty"


def _words(recipe: Recipe) -> Iterator[tuple[Keys, tuple[str, ...], frozenset[str]]]:
    """Words of a recipe, where they are, and the placeholders that are known there."""
    yield ("program",), (recipe.program,), EARLY
    yield ("binary",), (recipe.binary,), EARLY
    yield ("version", "command"), recipe.version.command, EARLY
    yield ("probe",), recipe.probe, EARLY
    if recipe.sources is not None:
        yield ("sources", "command"), recipe.sources.command, EARLY
    for index, step in enumerate(recipe.build):
        yield ("build", index, "command"), step.command, EARLY
    yield ("start", "command"), recipe.start.command, LATE
    yield ("listen", "tcp"), recipe.listen.tcp, LATE
    yield ("listen", "unix"), recipe.listen.unix, LATE
    for key, value in recipe.start.environment.items():
        yield ("start", "environment", key), (value,), LATE


def _knobs(recipe: Recipe) -> Iterator[tuple[Keys, str]]:
    names: set[str] = set()
    for index, knob in enumerate(recipe.knob):
        if not re.fullmatch(r"[a-z][a-z0-9_]*", knob.name) or knob.name in names:
            yield ("knob", index, "name"), "must be small letters, digits and _, and no other's"
        names.add(knob.name)
        for key in ("why", "counter"):
            if not getattr(knob, key).strip():
                yield ("knob", index, key), "must not be empty"
        if not knob.change:
            yield ("knob", index, "change"), "must hold at least one change"
        for change in knob.change:
            if (change.kind in UNNAMED_CHANGES) is bool(change.name):
                without = ", ".join(sorted(UNNAMED_CHANGES))
                yield ("knob", index, "change"), f"has a name, unless it is of: {without}"
            if change.where not in BLOCKS:
                allowed = ", ".join(BLOCKS)
                yield ("knob", index, "change"), f"is made in one of these blocks: {allowed}"


def _pattern(key: str, pattern: str, what: str) -> Iterator[tuple[Keys, str]]:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        yield (key, "pattern"), f"is not a regular expression: {error}"
        return
    if not groups:
        yield (key, "pattern"), f"must have a group around the {what}"


def _placeholders(recipe: Recipe) -> Iterator[tuple[Keys, str]]:
    for keys, words, known in _words(recipe):
        for placeholder in sorted(placeholders(words) - known):
            listed = ", ".join(f"{{{name}}}" for name in sorted(known))
            yield keys, f"{{{placeholder}}} is not known here; known are {listed}"
    texts = [config.text for config in recipe.config]
    used = placeholders([*recipe.start.command, *recipe.start.environment.values(), *texts])
    if "listen" not in used:
        yield ("start", "command"), "must say where {listen} goes, here or in a config"
    yield from _forward(recipe, used)
    if "port" not in placeholders(recipe.listen.tcp):
        yield ("listen", "tcp"), "must contain {port}"
    if recipe.listen.unix and "socket" not in placeholders(recipe.listen.unix):
        yield ("listen", "unix"), "must contain {socket}"


def _forward(recipe: Recipe, used: set[str]) -> Iterator[tuple[Keys, str]]:
    forward = recipe.forward
    if (forward is not None) is not ("upstreams" in used):
        yield (
            ("start", "command"),
            "{upstreams} goes with [forward], and [forward] with {upstreams}",
        )
    if forward is None:
        return
    for key, needed, words in (
        ("tcp", "upstream_port", forward.tcp),
        ("unix", "upstream_socket", forward.unix),
    ):
        unknown = placeholders([words]) - OF_ONE_UPSTREAM
        if unknown or (words and needed not in placeholders([words])):
            message = f"must contain {{{needed}}}, and no more than {{upstream_index}}"
            yield ("forward", key), message
    if forward.listen is not None:
        for key, needed, said in (
            ("tcp", "port", forward.listen.tcp),
            ("unix", "socket", forward.listen.unix),
        ):
            if said and placeholders(said) != {needed}:
                yield ("forward", "listen", key), f"must contain {{{needed}}}, and no more"


BUILTIN_RECIPES = Path(__file__).parent / "recipes"


def recipes(extra_folders: Iterable[str | Path] = ()) -> dict[str, Recipe]:
    """Reads all recipes, ours first; InputError if one cannot be read, or two share a name."""
    found: dict[str, Recipe] = {}
    for folder in (BUILTIN_RECIPES, *map(Path, extra_folders)):
        try:
            paths = sorted(path for path in folder.iterdir() if path.suffix == ".toml")
        except OSError as error:
            raise InputError(f"{folder}: recipes cannot be read: {error.strerror}") from error
        for path in paths:
            if path.stem in found:
                raise InputError(f"{path.name}: there is a recipe {path.stem!r} already; rename it")
            found[path.stem] = read(path)
    return found


def get_recipe(catalogue: Mapping[str, Recipe], name: str) -> Recipe:
    """The recipe with this name; InputError, with the nearest names, if there is none."""
    if name in catalogue:
        return catalogue[name]
    near = difflib.get_close_matches(name, catalogue, n=3)
    more = f"did you mean {' or '.join(near)}?" if near else "`jissoku targets` lists them"
    raise InputError(f"no such target: {name!r}; {more}")


def group(catalogue: Mapping[str, Recipe], name: str) -> tuple[str, ...]:
    """The names of the recipes of a group; InputError, with all groups, if there is none."""
    found = tuple(recipe.name for recipe in catalogue.values() if name in recipe.groups)
    if not found:
        known = sorted({group for recipe in catalogue.values() for group in recipe.groups})
        raise InputError(f"no such group of targets: {name!r}; there are {', '.join(known)}")
    return found
