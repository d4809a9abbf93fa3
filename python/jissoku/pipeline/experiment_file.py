"""Reads an experiment's file and refuses one that could not be run."""

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path

from jissoku.design.factors import arms
from jissoku.errors import InputError
from jissoku.model import Recipe
from jissoku.model.experiment import Change, Claim, Design, Entrant, Experiment
from jissoku.pipeline.observation import HERE
from jissoku.stats.inequality import GrammarError, Quantity, parse, quantity
from jissoku.targets import document
from jissoku.targets.document import Keys

OURS = Path(__file__).parent / "experiments"

# No verdict rests on fewer (`jissoku.stats.verdict`).
ROUNDS_MIN = 6

Mistake = tuple[Keys, str]


def find(name: str) -> Path:
    """The file of an experiment: one of ours by its name, or anybody's by its path.

    Raises:
        InputError: There is none.
    """
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise InputError(f"{name}: there is no such file")
        return path
    ours = {path.stem: path for path in known()}
    if name not in ours:
        near = difflib.get_close_matches(name, ours, n=2)
        meant = f"; did you mean {' or '.join(near)}?" if near else "."
        raise InputError(
            f"there is no experiment {name!r}{meant} Ours are {', '.join(ours)}; one of your own"
            " is named by its .toml file"
        )
    return ours[name]


def known() -> list[Path]:
    """Files of the experiments that come with jissoku."""
    return sorted(OURS.glob("*.toml"))


def read(path: Path, recipes: Mapping[str, Recipe]) -> Experiment:
    """Reads an experiment; its name is the file's.

    Raises:
        InputError: The file cannot be read, is no TOML, or a key is missing, unknown or makes no
            sense: one sentence with file name, line, key and what is allowed.
    """
    experiment = document.read(path, Experiment, name=path.stem)
    for keys, message in _nonsense(experiment, recipes):
        raise document.mistake(path.name, path.read_text(encoding="utf-8"), keys, message)
    return experiment


def _nonsense(experiment: Experiment, recipes: Mapping[str, Recipe]) -> Iterator[Mistake]:
    for key in ("title", "essay"):
        if not getattr(experiment, key).strip():
            yield (key,), "must not be empty"
    for key in ("target", "workload", "claim", "bench"):
        if key != "bench" and not getattr(experiment, key):
            yield (key,), f"must be there at least once: write [[{key}]]"
        names = [one.name for one in getattr(experiment, key)]
        for index, name in enumerate(names):
            if names.index(name) != index:
                yield (key, index, "name"), f"{name!r} is there twice"
    yield from _entrants(experiment, recipes)
    yield from _factors(experiment, recipes)
    yield from _workloads(experiment)
    yield from _benches(experiment, recipes)
    for index, claim in enumerate(experiment.claim):
        yield from _claim(claim, ("claim", index), experiment)
    yield from _published(experiment)


def _published(experiment: Experiment) -> Iterator[Mistake]:
    for index, row in enumerate(experiment.published):
        at: Keys = ("published", index, "quantity")
        if not row.quantity:
            continue
        try:
            wanted = quantity(row.quantity)
            if wanted.is_figure:
                yield at, f"{wanted.text} is a bench's, and cannot stand beside a server's figure"
            yield from _known(wanted, at, experiment)
        except GrammarError as error:
            yield at, str(error)


def _entrants(experiment: Experiment, recipes: Mapping[str, Recipe]) -> Iterator[Mistake]:
    for index, entrant in enumerate(experiment.target):
        yield from _entrant(entrant, ("target", index), recipes)


def _entrant(entrant: Entrant, at: Keys, recipes: Mapping[str, Recipe]) -> Iterator[Mistake]:
    if any(char in entrant.name for char in "@()+") or not entrant.name.strip():
        yield (*at, "name"), "must be a word without @, + and brackets"
    if bool(entrant.recipe) == bool(entrant.command):
        yield (*at, "name"), "needs either a recipe or a command"
    elif entrant.recipe and entrant.recipe not in recipes:
        yield (
            (*at, "recipe"),
            f"{entrant.recipe!r} is no recipe; there are {', '.join(sorted(recipes))}",
        )
    else:
        yield from _changes(entrant, entrant.change, (*at, "change"), recipes)


def _changes(
    entrant: Entrant, changes: tuple[Change, ...], at: Keys, recipes: Mapping[str, Recipe]
) -> Iterator[Mistake]:
    """A change of a file must find its place in what the target's own changes made of it."""
    recipe = recipes.get(entrant.recipe)
    texts = {config.name: config.text for config in recipe.config} if recipe else {}
    own = [] if changes is entrant.change else entrant.change
    for change in own:
        texts |= {change.config: texts.get(change.config, "").replace(change.find, change.put)}
    for index, change in enumerate(changes):
        if not change.config:
            if not (change.add or change.environment):
                yield (*at, index, "add"), "changes nothing: name a config, words or variables"
            continue
        if change.config not in texts:
            files = ", ".join(sorted(texts)) or "none"
            yield (*at, index, "config"), f"is no file of {entrant.name}; there are: {files}"
            continue
        found = texts[change.config].count(change.find) if change.find else 0
        if found != 1:
            yield (
                (*at, index, "find"),
                f"must stand in {change.config} exactly once, and does {found} times",
            )
        texts[change.config] = texts[change.config].replace(change.find, change.put)


def _factors(experiment: Experiment, recipes: Mapping[str, Recipe]) -> Iterator[Mistake]:
    entrants = {entrant.name: entrant for entrant in experiment.target}
    for index, factor in enumerate(experiment.factor):
        at: Keys = ("factor", index)
        if factor.of not in entrants:
            yield (*at, "of"), f"is no target; there are {', '.join(entrants)}"
            continue
        if not factor.level:
            yield (*at, "name"), "needs at least one [[factor.level]]"
        if experiment.design is Design.FRACTIONAL and len(factor.level) > 1:
            yield (*at, "name"), "has more than one level, which a fractional design cannot have"
        for level in factor.level:
            for _, message in _changes(entrants[factor.of], level.change, at, recipes):
                yield (*at, "name"), f"level {level.name or factor.name}: {message}"


def _workloads(experiment: Experiment) -> Iterator[Mistake]:
    names = _names(experiment)
    for index, work in enumerate(experiment.workload):
        at: Keys = ("workload", index)
        if any(char in work.name for char in "@()/") or not work.name.strip():
            yield (*at, "name"), "must be a word without @, / and brackets: it names a folder"
        if not work.path.startswith("/"):
            yield (*at, "path"), "must begin with /"
        if not 1 <= work.connections <= 20_000:
            yield (*at, "connections"), "must be 1 to 20000"
        if not 1 <= work.pipeline <= 1024:
            yield (*at, "pipeline"), "must be 1 to 1024"
        if work.rate is not None and (work.rate < 1 or work.closed_loop or work.pipeline > 1):
            yield (*at, "rate"), "must be above 0, and goes with neither closed_loop nor pipeline"
        for arm in work.arms:
            if arm not in names:
                yield (*at, "arms"), f"{arm!r} is no arm; there are {', '.join(names)}"


def _benches(experiment: Experiment, recipes: Mapping[str, Recipe]) -> Iterator[Mistake]:
    for index, bench in enumerate(experiment.bench):
        at: Keys = ("bench", index)
        if any(char in bench.name for char in "@()/") or bench.name.strip() in {"", HERE.name}:
            yield (*at, "name"), f"must be a word without @, / and brackets, and not {HERE.name}"
        if not bench.command:
            yield (*at, "command"), "must name a program"
        if bench.recipe and bench.recipe not in recipes:
            known = ", ".join(sorted(recipes))
            yield (*at, "recipe"), f"{bench.recipe!r} is no recipe; there are {known}"
        if not ROUNDS_MIN <= bench.rounds <= 100:
            yield (*at, "rounds"), f"must be {ROUNDS_MIN} to 100"
        if not 0 < bench.seconds <= 60:
            yield (*at, "seconds"), "must be above 0 and at most 60"


def _claim(claim: Claim, at: Keys, experiment: Experiment) -> Iterator[Mistake]:
    if not claim.text.strip():
        yield (*at, "text"), "must not be empty"
    if bool(claim.test) == bool(claim.not_testable.strip()):
        yield (*at, "name"), "needs either a test or, in not_testable, why there is none"
    for text in claim.test:
        try:
            links = parse(text)
        except GrammarError as error:
            yield (*at, "test"), f"{text!r} {error}"
            continue
        for link in links:
            for wanted in link.quantities:
                yield from _known(wanted, (*at, "test"), experiment)


def _known(wanted: Quantity, at: Keys, experiment: Experiment) -> Iterator[Mistake]:
    settings = {work.name: work for work in experiment.workload}
    if not settings:
        return
    if wanted.is_figure:
        benches = [bench.name for bench in (*experiment.bench, HERE)]
        if wanted.arm not in benches:
            yield at, f"{wanted.arm!r} is no bench; there are {', '.join(benches)}"
        return
    name = wanted.workload or experiment.workload[0].name
    if name not in settings:
        yield at, f"{name!r} is no workload; there are {', '.join(settings)}"
        return
    racing = settings[name].arms or _names(experiment)
    if wanted.arm not in racing:
        yield at, f"{wanted.arm!r} is no arm of {name}; there are {', '.join(racing)}"


def _names(experiment: Experiment) -> tuple[str, ...]:
    found = arms(experiment.target, experiment.factor, experiment.design)
    return tuple(entrant.name for entrant in found)
