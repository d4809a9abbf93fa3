"""What can be started here: recipes with what they lack, and experiments."""

import time
from dataclasses import dataclass
from threading import Lock

from jissoku.measure import experiment_file
from jissoku.measure.selection import DEFAULT_TARGETS, build_paths
from jissoku.model import Recipe, UnavailableTarget
from jissoku.targets import catalogue
from jissoku.targets.prepare import missing_requirement

# Programs are looked for again after this; a program that was installed is offered then.
REFRESH_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """What forms offer.

    Attributes:
        defaults: Targets of a comparison in which none is named, as far as they are here.
        experiments: Names with titles and descriptions.
    """

    available: tuple[Recipe, ...]
    missing: tuple[UnavailableTarget, ...]
    defaults: tuple[str, ...]
    experiments: tuple[tuple[str, str, str], ...]

    @property
    def targets(self) -> frozenset[str]:
        """Names of what is available."""
        return frozenset(recipe.name for recipe in self.available)


class CatalogueReader:
    """Reads it now and then; may be called from several threads."""

    def __init__(self) -> None:
        """Reads nothing yet."""
        self._lock = Lock()
        self._read: tuple[float, Catalogue] | None = None

    def current(self) -> Catalogue:
        """The catalogue, at most `REFRESH_S` old."""
        with self._lock:
            if self._read is None or time.monotonic() - self._read[0] > REFRESH_S:
                self._read = time.monotonic(), _read()
            return self._read[1]


def _read() -> Catalogue:
    known = catalogue.recipes()
    where = build_paths()
    lacks = {name: missing_requirement(recipe, where) for name, recipe in known.items()}
    here = tuple(known[name] for name, lack in lacks.items() if lack is None)
    experiments = [
        (path.stem, experiment.title, " ".join(experiment.description.split()))
        for path in experiment_file.builtin_experiments()
        for experiment in [experiment_file.read(path, known)]
    ]
    return Catalogue(
        available=here,
        missing=tuple(lack for lack in lacks.values() if lack is not None),
        defaults=tuple(name for name in DEFAULT_TARGETS if lacks.get(name, True) is None),
        experiments=tuple(experiments),
    )
