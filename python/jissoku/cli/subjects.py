"""What somebody wants tuned: a recipe as it stands, or an nginx configuration of their own."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from jissoku.cli.contestants import place
from jissoku.errors import InputError
from jissoku.model import Knob, Missing, Recipe
from jissoku.pipeline import subject as subjects
from jissoku.pipeline.tuned import Subject
from jissoku.targets.prepare import Prepared, prepare

# `nginx -V` answers at once, or something is wrong with it.
ASK_LIMIT_S = 20.0


def subject(recipe: Recipe, knobs: Sequence[Knob], *, config: Path | None, listen: str) -> Subject:
    """Makes it ready.

    Raises:
        InputError: The recipe has no knobs or cannot be raced here, or the configuration cannot.
    """
    base = prepare(recipe, place())
    if isinstance(base, Missing):
        raise InputError(base.sentence)
    if config is None:
        return subjects.of_recipe(recipe, knobs, base)
    if recipe.name != "nginx":
        raise InputError(f"--config is for nginx only: there is no reader for {recipe.name}'s")
    return subjects.of_configuration(config, base, knobs, prefix=_prefix(base), listen=listen)


def _prefix(base: Prepared) -> str:
    """The folder that relative paths of a configuration refer to, as nginx was built."""
    command = [str(base.values["program"]), "-V"]
    try:
        said = subprocess.run(
            command, capture_output=True, text=True, timeout=ASK_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"nginx does not tell how it was built: {error}") from error
    found = re.search(r"--prefix=(\S+)", said.stderr)
    return found[1] if found else "/usr/local/nginx"
