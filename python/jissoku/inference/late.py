"""numpy and scipy, imported when they are first used.

They take a second, which the sentence about a wrong argument does not need.
"""

import importlib
from typing import TYPE_CHECKING, Any

NAMES = ("numpy", "scipy.optimize", "scipy.special", "scipy.stats")

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from scipy import optimize, special, stats  # type: ignore[import-untyped]

    Numbers = npt.NDArray[np.float64]
else:

    class LateModule:
        """Stands for a module until it is used."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            value = getattr(importlib.import_module(self._name), name)
            setattr(self, name, value)
            return value

    np, optimize, special, stats = map(LateModule, NAMES)
    Numbers = Any

__all__ = ["Numbers", "import_libraries", "np", "optimize", "special", "stats"]


def import_libraries() -> None:
    """Imports them all, before what must not be disturbed by it."""
    for name in NAMES:
        importlib.import_module(name)
