"""All recipes: built-in ones, and those in the user's folders."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path

from jissoku.errors import InputError
from jissoku.model import Recipe
from jissoku.targets import recipe as recipe_file

BUILTIN_RECIPES = Path(__file__).parent / "recipes"


def recipes(extra_folders: Iterable[str | Path] = ()) -> dict[str, Recipe]:
    """Reads all recipes, by name; ours first, each folder in the order of file names.

    Raises:
        InputError: A folder cannot be read, a recipe is malformed, or two have the same name.
    """
    found: dict[str, Recipe] = {}
    for folder in (BUILTIN_RECIPES, *map(Path, extra_folders)):
        for path in _files(folder):
            if path.stem in found:
                raise InputError(f"{path.name}: there is a recipe {path.stem!r} already; rename it")
            found[path.stem] = recipe_file.read(path)
    return found


def get_recipe(catalogue: Mapping[str, Recipe], name: str) -> Recipe:
    """Returns the recipe with this name.

    Raises:
        InputError: There is none; the message names the nearest ones.
    """
    if name in catalogue:
        return catalogue[name]
    near = difflib.get_close_matches(name, catalogue, n=2) or sorted(catalogue)
    raise InputError(f"no such target: {name!r}; did you mean {' or '.join(near)}?")


def group(catalogue: Mapping[str, Recipe], name: str) -> tuple[str, ...]:
    """Returns the names of the recipes of a group.

    Raises:
        InputError: There is no such group; the message names all.
    """
    found = tuple(recipe.name for recipe in catalogue.values() if name in recipe.groups)
    if not found:
        known = sorted({group for recipe in catalogue.values() for group in recipe.groups})
        raise InputError(f"no such group of targets: {name!r}; there are {', '.join(known)}")
    return found


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".toml")
    except OSError as error:
        raise InputError(f"{folder}: recipes cannot be read: {error.strerror}") from error
