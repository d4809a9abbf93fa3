"""This machine's noise floors: where they are kept, and what to do where there are none."""

from pathlib import Path

from jissoku.model import Method
from jissoku.observe import noise_floor
from jissoku.observe.machine import machine
from jissoku.targets.build_paths import default_cache

UNKNOWN = (
    "The noise floor of this machine is unknown: `jissoku doctor --prove` measures it, and later"
    " verdicts use it."
)


def noise_file() -> Path:
    """Where noise floors are kept for a user."""
    return default_cache() / noise_floor.FILE_NAME


def noise_floors() -> dict[Method, float]:
    """Those of this machine, by method; none where `jissoku doctor --prove` has not been run."""
    return noise_floor.known(noise_file(), machine())
