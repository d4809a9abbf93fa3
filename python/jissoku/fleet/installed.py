"""What of an agent's installation its clients may use in place of commands.

A change of a recipe can make any program of its server, and a benchmark is a program. So an agent
knows the experiments and knobs that are installed with it, and other changes and benchmarks need
its operator's `--allow-commands`.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from jissoku.design.variants import arms
from jissoku.errors import InputError
from jissoku.fleet import wire
from jissoku.fleet.config_wire import PREFIX, PrepareConfigured
from jissoku.fleet.permissions import Permissions
from jissoku.fleet.preparing import Preparations
from jissoku.measure import experiment_file
from jissoku.measure.host import build_paths
from jissoku.measure.knob_changes import (
    TuningTarget,
    nginx_prefix,
    target_of_command,
    target_of_recipe,
)
from jissoku.measure.microbenchmark import SYSCALL_BENCHMARK, run_on
from jissoku.model import Origin, Recipe
from jissoku.model.experiment import ConfigChange, Experiment, Microbenchmark
from jissoku.targets import catalogue
from jissoku.targets.placeholders import fill
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.user_configuration import ListenAddress, of_user

# Benchmarks that a client may have prepared.
BENCHMARKS_MAX = 64

REFUSED = "it {what} only as the experiments that are installed with it do"


@cache
def recipes() -> dict[str, Recipe]:
    """Those of this installation."""
    return catalogue.recipes()


@cache
def experiments() -> tuple[Experiment, ...]:
    """Those of this installation."""
    known = recipes()
    files = experiment_file.builtin_experiments()
    return tuple(experiment_file.read(file, known) for file in files)


def is_installed_change(recipe: str, changes: tuple[ConfigChange, ...]) -> bool:
    """Whether an arm of an installed experiment is this recipe with exactly these changes."""
    return any(
        (spec.recipe, spec.change) == (recipe, changes)
        for one in experiments()
        for spec in arms(one.target, one.factor)
    )


def is_installed_benchmark(benchmark: Microbenchmark) -> bool:
    return benchmark == SYSCALL_BENCHMARK or any(
        benchmark in one.benchmark for one in experiments()
    )


class Installed:
    """The agent's end: targets of a session that are changed, knobs, and benchmarks."""

    def __init__(
        self,
        permissions: Permissions,
        preparations: Preparations,
        cores: Callable[[], tuple[int, ...]],
    ) -> None:
        """`cores` are those of the targets."""
        self._permissions = permissions
        self._preparations = preparations
        self._cores = cores
        # Numbers of targets that are changed: to change them again would be another change.
        self._changed: set[int] = set()
        self._benchmarks: list[tuple[str, tuple[str, ...]]] = []
        # Targets with knobs, by the number of the target.
        self._tunings: dict[int, TuningTarget] = {}

    def answers(self) -> dict[type, Callable[[Any], msgspec.Struct]]:
        """What answers each request."""
        return {
            wire.PrepareChanged: self._prepare_changed,
            PrepareConfigured: self._prepare_configured,
            wire.AskKnobs: self._knobs,
            wire.PrepareSwitched: self._prepare_switched,
            wire.PrepareBenchmark: self._prepare_benchmark,
            wire.RunBenchmark: self._run_benchmark,
        }

    def _prepare_changed(self, asked: wire.PrepareChanged) -> wire.PrepareResult:
        base = self._unchanged(asked.prepared)
        is_known = not asked.changes or is_installed_change(base.name, asked.changes)
        if not is_known:
            self._permissions.require_commands(REFUSED.format(what=f"changes {base.name}"))
        return self._offered_changed(base.with_changes(asked.changes).with_upstream(asked.upstream))

    def _prepare_configured(self, asked: PrepareConfigured) -> wire.PrepareResult:
        """A configuration names files, and may start programs: it is commands."""
        base = self._unchanged(asked.prepared)
        self._permissions.require_commands(f"it runs {base.name} as its recipe configures it")
        if wrong := [one.name for one in asked.config if not catalogue.is_below(one.name)]:
            raise InputError(f"{wrong[0]!r} is no path below the folder of a start")
        prefix = nginx_prefix(base) if PREFIX in asked.command else ""
        made = of_user(
            base,
            asked.name,
            chosen=ListenAddress(address="", is_tls=asked.is_tls),
            command=(prefix if word == PREFIX else word for word in asked.command),
            unix="",
            config=asked.config,
            upstreams=asked.upstreams,
            folder=Path(asked.folder) if asked.folder else None,
        )
        return self._offered_changed(made)

    def _unchanged(self, number: int) -> PreparedTarget:
        base = self._preparations.target(number)
        if number in self._changed:
            raise InputError(f"{base.name} is changed already")
        if base.start is None:
            raise InputError(f"{base.name} was not started here, so nothing of it can be changed")
        return base

    def _offered_changed(self, target: PreparedTarget) -> wire.PrepareResult:
        offered = self._preparations.offered(target)
        self._changed.add(offered.handle)
        return wire.PrepareResult(prepared=offered)

    def _knobs(self, asked: wire.AskKnobs) -> wire.Knobs:
        """Whether a knob has an effect can depend on the number of cores."""
        base, cores = self._unchanged(asked.prepared), self._cores()
        known = self._preparations.recipes
        if base.origin is Origin.COMMAND:
            found = target_of_command(base, known, len(cores))
        else:
            recipe = catalogue.get_recipe(known, base.name)
            chosen = [knob for knob in recipe.knob if knob.name in asked.names]
            found = target_of_recipe(recipe, chosen, base, len(cores))
        if found is None:
            return wire.Knobs(is_known=False)
        self._tunings[asked.prepared] = found
        return wire.Knobs(knobs=found.knobs, skipped=found.skipped)

    def _prepare_switched(self, asked: wire.PrepareSwitched) -> wire.PrepareResult:
        tuning = self._tunings.get(asked.prepared)
        names = {knob.name for knob in tuning.knobs} if tuning else set()
        if tuning is None or not set(asked.knobs) <= names:
            known = ", ".join(sorted(names)) or "none"
            raise InputError(f"target {asked.prepared} has the knobs {known}")
        return self._offered_changed(tuning.prepared(asked.knobs))

    def _prepare_benchmark(self, asked: wire.PrepareBenchmark) -> wire.BenchmarkNumber:
        one = asked.benchmark
        if not is_installed_benchmark(one):
            what = f"runs the benchmark {one.name}"
            self._permissions.require_commands(REFUSED.format(what=what))
        if len(self._benchmarks) >= BENCHMARKS_MAX:
            raise InputError(f"{BENCHMARKS_MAX} benchmarks were prepared already")
        made = None if asked.prepared is None else self._preparations.target(asked.prepared)
        if (made.name if made else "") != one.recipe:
            raise InputError(f"the benchmark {one.name} is one of another recipe")
        values = made.values if made else build_paths().values(one.name)
        self._benchmarks.append((one.name, fill(one.command, values)))
        return wire.BenchmarkNumber(number=len(self._benchmarks) - 1)

    def _run_benchmark(self, asked: wire.RunBenchmark) -> wire.Figures:
        if not 0 <= asked.number < len(self._benchmarks):
            raise InputError(f"no benchmark was prepared as number {asked.number}")
        name, command = self._benchmarks[asked.number]
        return wire.Figures(values=run_on(name, command, self._cores()))
