"""From the words somebody typed to contestants that can be started."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from jissoku.errors import InputError, TargetError
from jissoku.model import Missing, Origin, Recipe
from jissoku.pipeline import Contestant, Listener
from jissoku.targets import catalogue, command, files
from jissoku.targets.contract import part
from jissoku.targets.place import Place, default_cache
from jissoku.targets.prepare import Prepared, prepare

FLOOR = "floor"

# Who races when nobody is named: one of each kind, so that it ends within minutes.
FIRST_RACE = ("jissoku", "nginx-tuned", "go", "node", "uvicorn", "tornado", "http-server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Who starts, and who cannot."""

    contestants: tuple[Contestant, ...]
    missing: tuple[Missing, ...]
    floor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Who was asked for, and what they will be asked.

    Attributes:
        named: `TARGET` or `NAME=TARGET`; nobody at all means the first race.
        recipes: Folders with recipes beside ours.
        path: A recipe that does not serve it is refused.
        unix: So is a target that cannot listen on a Unix socket.
        floor: Whether the floor runs along; then one target is enough to race against it.
    """

    named: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    recipes: tuple[Path, ...] = ()
    path: str = "/"
    unix: bool = False
    floor: bool = True


def place() -> Place:
    """Where targets are built and served from, with the contract's files made."""
    cache = default_cache()
    return Place(cache=cache / "built", files=files.make(cache / "files"))


def gather(wanted: Wanted, listener: Listener) -> Field:
    """Prepares everybody who was named, and the floor beside them.

    Raises:
        InputError: An unknown name, one name twice, a target that cannot be raced here although it
            was asked for by name, or nobody to race.
    """
    known = catalogue.recipes(wanted.recipes)
    where = place()
    everybody = not (wanted.named or wanted.commands or wanted.urls)
    words = [_split(word) for word in (FIRST_RACE if everybody else wanted.named)]
    named = [(name, catalogue.pick(known, target)) for name, target in words]
    strangers = [command.from_command(text, where) for text in wanted.commands]
    strangers += [command.from_url(text) for text in wanted.urls]
    _check_names([name for name, _ in named] + [stranger.name for stranger in strangers])
    _serve(named, wanted.path)
    contestants: list[Contestant] = []
    lacking: list[Missing] = []
    for name, recipe in named:
        listener.note(f"Preparing {name}.")
        found = _prepared(recipe, where)
        if isinstance(found, Missing):
            lacking.append(found)
        else:
            contestants.append(Contestant(found.arm(name), found))
    if lacking and not everybody:
        raise InputError(lacking[0].sentence)
    contestants += [Contestant(found.arm(), found) for found in strangers]
    floor = None
    if wanted.floor:
        floor = _with_floor(contestants, known[FLOOR], where, wanted.path)
    if wanted.unix:
        _must_listen_unix(contestants)
    if wanted.floor and len(contestants) < 2:
        raise InputError("there is nobody to race against: name two targets, see `jissoku targets`")
    return Field(contestants=tuple(contestants), missing=tuple(lacking), floor=floor)


def _split(word: str) -> tuple[str, str]:
    name, equals, target = word.partition("=")
    return (name, target) if equals else (word, word)


def _serve(wanted: Iterable[tuple[str, Recipe]], path: str) -> None:
    asked = part(path)
    for _, recipe in wanted:
        if asked is not None and asked not in recipe.parts:
            able = ", ".join(recipe.parts)
            raise InputError(f"{recipe.name} cannot answer {path}: its parts are {able}")


def _must_listen_unix(contestants: Iterable[Contestant]) -> None:
    for contestant in contestants:
        prepared = contestant.prepared
        if prepared.address is None and not prepared.listen.unix:
            how = ": write {socket} into its command" if prepared.origin is Origin.COMMAND else ""
            raise InputError(f"{contestant.arm.name} cannot listen on a Unix socket{how}")


def _prepared(recipe: Recipe, where: Place) -> Prepared | Missing:
    try:
        return prepare(recipe, where)
    except TargetError as error:
        detail = f"\n{error.stderr}" if error.stderr else ""
        raise TargetError(f"{error}{detail}") from error


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two arms are called {name!r}: write NAME=TARGET for one of them")


def _with_floor(
    contestants: list[Contestant], recipe: Recipe, where: Place, path: str
) -> str | None:
    """Adds the floor unless it was named; it answers one thing only, whatever it is asked."""
    for contestant in contestants:
        if contestant.arm.target == FLOOR:
            return contestant.arm.name
    asked = part(path)
    if asked is None or asked not in recipe.parts:
        return None
    found = _prepared(recipe, where)
    if isinstance(found, Missing):
        return None
    contestants.append(Contestant(found.arm(FLOOR), found))
    return FLOOR


def folder_for(names: Iterable[str], stamp: str) -> Path:
    """Where a run goes when nobody says: `runs/`, by time and by who raced."""
    who = "-".join(names)
    return Path("runs") / f"{stamp}-{who[:60].rstrip('-')}"
