"""Reads an experiment's file and rejects one that cannot be run."""

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from jissoku.design.variants import arms
from jissoku.errors import InputError
from jissoku.inference.expression import GrammarError, Quantity, parse, quantity
from jissoku.measure.microbenchmark import SYSCALL_BENCHMARK
from jissoku.model import Recipe
from jissoku.model.experiment import Claim, ConfigChange, Experiment, TargetSpec, WorkloadSpec
from jissoku.system import toml_file
from jissoku.system.toml_file import Keys

BUILTIN_EXPERIMENTS = Path(__file__).parents[1] / "experiments"

# Verdicts need at least as many (`jissoku.inference.decision`).
ROUNDS_MIN = 6

# The default limit of jissoku and nginx.
BODY_SIZE_MAX = 1024 * 1024

# Before each window: a trial of it takes as much longer.
SETTLE_S_MAX = 60

Mistake = tuple[Keys, str]


def find_experiment(name: str) -> Path:
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise InputError(f"{name}: no such file")
        return path
    ours = {path.stem: path for path in builtin_experiments()}
    if name not in ours:
        near = difflib.get_close_matches(name, ours, n=2)
        meant = f"; did you mean {' or '.join(near)}?" if near else "."
        raise InputError(
            f"no such experiment: {name!r}{meant} Ours are {', '.join(ours)}; one of your own"
            " is named by its .toml file"
        )
    return ours[name]


def builtin_experiments() -> list[Path]:
    return sorted(BUILTIN_EXPERIMENTS.glob("*.toml"))


def read(path: Path, recipes: Mapping[str, Recipe]) -> Experiment:
    experiment = toml_file.read(path, Experiment, name=path.stem)
    for keys, message in _mistakes(experiment, recipes):
        raise toml_file.mistake(path.name, path.read_text(encoding="utf-8"), keys, message)
    return experiment


def _mistakes(experiment: Experiment, recipes: Mapping[str, Recipe]) -> Iterator[Mistake]:
    for key in ("title", "description"):
        if not getattr(experiment, key).strip():
            yield (key,), "must not be empty"
    for key in ("target", "workload", "claim", "benchmark"):
        if key != "benchmark" and not getattr(experiment, key):
            yield (key,), f"must be there at least once: write [[{key}]]"
        names = [one.name for one in getattr(experiment, key)]
        for index, name in enumerate(names):
            if names.index(name) != index:
                yield (key, index, "name"), f"{name!r} is there twice"
    for index, spec in enumerate(experiment.target):
        yield from _target(spec, ("target", index), recipes)
    yield from _factors(experiment, recipes)
    yield from _workloads(experiment)
    yield from _benchmarks(experiment, recipes)
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
            if wanted.is_benchmark:
                yield at, f"{wanted.text} is a benchmark's, and not comparable with a server's"
            yield from _quantity_mistakes(wanted, at, experiment)
        except GrammarError as error:
            yield at, str(error)


def _target(spec: TargetSpec, at: Keys, recipes: Mapping[str, Recipe]) -> Iterator[Mistake]:
    if not _is_word(spec.name, "@()+"):
        yield (*at, "name"), "must be a word without @, + and brackets"
    if bool(spec.recipe) == bool(spec.command):
        yield (*at, "name"), "needs either a recipe or a command"
    elif spec.recipe and spec.recipe not in recipes:
        known = ", ".join(sorted(recipes))
        yield (*at, "recipe"), f"{spec.recipe!r} is not a recipe; there are {known}"
    else:
        yield from _changes(spec, spec.change, (*at, "change"), recipes)


def _changes(
    spec: TargetSpec, changes: tuple[ConfigChange, ...], at: Keys, recipes: Mapping[str, Recipe]
) -> Iterator[Mistake]:
    """Checks that a change's text occurs in the file with the target's own changes."""
    recipe = recipes.get(spec.recipe)
    texts = {config.name: config.text for config in recipe.config} if recipe else {}
    own = [] if changes is spec.change else spec.change
    for change in own:
        texts |= {change.config: texts.get(change.config, "").replace(change.find, change.replace)}
    for index, change in enumerate(changes):
        if not change.config:
            if not (change.add or change.environment):
                yield (*at, index, "add"), "changes nothing: name a config, words or variables"
            continue
        if change.config not in texts:
            files = ", ".join(sorted(texts)) or "none"
            yield (*at, index, "config"), f"is not a file of {spec.name}; there are: {files}"
            continue
        found = texts[change.config].count(change.find) if change.find else 0
        if found != 1:
            wrong = f"must stand in {change.config} exactly once, and does {found} times"
            yield (*at, index, "find"), wrong
        texts[change.config] = texts[change.config].replace(change.find, change.replace)


def _factors(experiment: Experiment, recipes: Mapping[str, Recipe]) -> Iterator[Mistake]:
    specs = {spec.name: spec for spec in experiment.target}
    for index, factor in enumerate(experiment.factor):
        at: Keys = ("factor", index)
        if factor.target not in specs:
            yield (*at, "target"), f"is not a target; there are {', '.join(specs)}"
            continue
        if not factor.level:
            yield (*at, "name"), "needs at least one [[factor.level]]"
        for level in factor.level:
            for _, message in _changes(specs[factor.target], level.change, at, recipes):
                yield (*at, "name"), f"level {level.name or factor.name}: {message}"


def _workloads(experiment: Experiment) -> Iterator[Mistake]:
    names = _names(experiment)
    for index, work in enumerate(experiment.workload):
        at: Keys = ("workload", index)
        if not _is_word(work.name, "@()/"):
            yield (*at, "name"), "must be a word without @, / and brackets: it names a folder"
        yield from _request(work, at)
        if not 1 <= work.connections <= 20_000:
            yield (*at, "connections"), "must be 1 to 20000"
        if not 1 <= work.pipeline <= 1024:
            yield (*at, "pipeline"), "must be 1 to 1024"
        if work.rate is not None and (work.rate < 1 or work.closed_loop or work.pipeline > 1):
            yield (*at, "rate"), "must be above 0, and goes with neither closed_loop nor pipeline"
        if work.websocket and (not work.keepalive or work.pipeline > 1 or work.method != "GET"):
            yield (*at, "websocket"), "goes with none of keepalive = false, pipeline and method"
        if not 0 <= work.settle_s <= SETTLE_S_MAX or (work.settle_s and work.rate is None):
            yield (*at, "settle_s"), f"must be 0 to {SETTLE_S_MAX} seconds, and goes with a rate"
        for arm in work.arms:
            if arm not in names:
                yield (*at, "arms"), f"{arm!r} is not an arm; there are {', '.join(names)}"


def _request(work: WorkloadSpec, at: Keys) -> Iterator[Mistake]:
    if not work.path.startswith("/"):
        yield (*at, "path"), "must begin with /"
    if not re.fullmatch(r"[A-Z]+", work.method):
        yield (*at, "method"), "must be a method in capital letters, such as GET or POST"
    if work.network and (work.unix or work.shared_cores):
        yield (*at, "network"), "goes with neither unix nor shared_cores: servers are elsewhere"
    if not work.network.isprintable():
        yield (*at, "network"), "must be one line, such as delay 5ms loss 0.5%"
    if not 0 <= work.body_size <= BODY_SIZE_MAX:
        yield (*at, "body_size"), f"must be 0 to {BODY_SIZE_MAX} bytes"


def _benchmarks(experiment: Experiment, recipes: Mapping[str, Recipe]) -> Iterator[Mistake]:
    for index, benchmark in enumerate(experiment.benchmark):
        at: Keys = ("benchmark", index)
        ours = SYSCALL_BENCHMARK.name
        if not _is_word(benchmark.name, "@()/") or benchmark.name.strip() == ours:
            yield (*at, "name"), f"must be a word without @, / and brackets, and not {ours}"
        if not benchmark.command:
            yield (*at, "command"), "must name a program"
        if benchmark.recipe and benchmark.recipe not in recipes:
            known = ", ".join(sorted(recipes))
            yield (*at, "recipe"), f"{benchmark.recipe!r} is not a recipe; there are {known}"
        if not ROUNDS_MIN <= benchmark.rounds <= 100:
            yield (*at, "rounds"), f"must be {ROUNDS_MIN} to 100"
        if not 0 < benchmark.seconds <= 60:
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
                yield from _quantity_mistakes(wanted, (*at, "test"), experiment)


def _quantity_mistakes(wanted: Quantity, at: Keys, experiment: Experiment) -> Iterator[Mistake]:
    settings = {work.name: work for work in experiment.workload}
    if not settings:
        return
    if wanted.is_benchmark:
        benchmarks = [benchmark.name for benchmark in (*experiment.benchmark, SYSCALL_BENCHMARK)]
        if wanted.arm not in benchmarks:
            yield at, f"{wanted.arm!r} is not a benchmark; there are {', '.join(benchmarks)}"
        return
    name = wanted.workload or experiment.workload[0].name
    if name not in settings:
        yield at, f"{name!r} is not a workload; there are {', '.join(settings)}"
        return
    participants = [*settings[name].arms] or _names(experiment)
    if wanted.arm not in participants:
        yield at, f"{wanted.arm!r} is not an arm of {name}; there are {', '.join(participants)}"


def _is_word(name: str, without: str) -> bool:
    return bool(name.strip()) and not any(sign in name for sign in without)


def _names(experiment: Experiment) -> list[str]:
    return [spec.name for spec in arms(experiment.target, experiment.factor)]
