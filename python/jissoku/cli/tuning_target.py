"""The tuning target: a recipe, or the user's nginx configuration."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from jissoku.cli.selection import build_paths
from jissoku.errors import InputError
from jissoku.model import Knob, Recipe, UnavailableTarget
from jissoku.pipeline import knob_changes as subjects
from jissoku.pipeline.tuning_target import TuningTarget
from jissoku.targets.prepare import PreparedTarget, prepare

# `nginx -V` answers at once, or something is wrong with it.
ASK_LIMIT_S = 20.0


def tuning_target(
    recipe: Recipe, knobs: Sequence[Knob], *, config: Path | None, listen: str
) -> TuningTarget:
    """Makes it ready.

    Raises:
        InputError: The recipe has no knobs or is unavailable, or the configuration is unusable.
    """
    base = prepare(recipe, build_paths())
    if isinstance(base, UnavailableTarget):
        raise InputError(base.sentence)
    if config is None:
        return subjects.target_of_recipe(recipe, knobs, base)
    if recipe.name != "nginx":
        raise InputError(f"--config is for nginx only: no reader exists for {recipe.name}'s")
    return subjects.target_of_configuration(
        config, base, knobs, prefix=_prefix(base), listen=listen
    )


def _prefix(base: PreparedTarget) -> str:
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
