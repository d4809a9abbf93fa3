"""The host on which targets are prepared, started and observed: this machine, or another one.

Everything that plans, records and decides runs on this machine, and so does the load generator,
unless there are load hosts. `jissoku.fleet` has the same for another host.
"""

import random
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from jissoku.errors import InputError
from jissoku.measure.inspection import Inspector, LocalInspector
from jissoku.measure.knob_changes import (
    TuningTarget,
    target_of_command,
    target_of_file,
    target_of_recipe,
)
from jissoku.measure.loadgen import (
    Generate,
    LoadSpec,
    Started,
    generate_here,
    local_observer,
    run_load,
)
from jissoku.measure.machine import machine
from jissoku.measure.microbenchmark import BenchmarkRound, run_on
from jissoku.measure.observation import Observer
from jissoku.measure.repository import LocalRepository, Repository
from jissoku.measure.sampler import with_names
from jissoku.measure.syscall_costs import syscall_costs
from jissoku.model import (
    ArmMeasurement,
    CoreAssignment,
    Knob,
    Machine,
    MachineConditions,
    Recipe,
    Run,
    Transport,
    UnavailableTarget,
    Workload,
)
from jissoku.model.experiment import ConfigChange, Microbenchmark
from jissoku.system.address import listener_pid
from jissoku.system.cores import (
    QuietCores,
    available_cores,
    core_assignment,
    partition_cores,
)
from jissoku.system.processes import has_generated_code, process_tree
from jissoku.targets import contract, launch
from jissoku.targets.command import from_command, from_url, prepare_version
from jissoku.targets.launch import Launcher
from jissoku.targets.placeholders import BuildPaths, default_cache, fill
from jissoku.targets.prepare import PreparedTarget, prepare
from jissoku.targets.process import RunningTarget
from jissoku.targets.response import TargetResponse


class TargetLauncher(Protocol):
    """Starts targets one after the other; what is drawn by chance depends on their order."""

    def start(
        self, prepared: PreparedTarget, workload: Workload, promised: Container[int] = ()
    ) -> RunningTarget:
        """Starts a target on a port that is not `promised`; it may not listen yet."""


class EmulatedNetwork(Protocol):
    """A network between load and targets whose properties can be chosen."""

    def use(self, properties: str) -> object:
        """Has these from now on, as in `delay 5ms loss 0.5%`; InputError if they are unreadable."""

    def forwarded(self) -> Mapping[str, Any]:
        """What was forwarded since the last call of either method: `jissoku.network/1`."""


class ServerHost(Protocol):
    """What a comparison needs of the host of its targets; `is_local`: it is this machine."""

    is_local: bool

    @property
    def network(self) -> EmulatedNetwork | None:
        """The network to it, if that is emulated."""

    @property
    def lost(self) -> str:
        """Why it cannot be reached any more; empty while it can."""

    def prepare(self, recipe: Recipe, version: str) -> PreparedTarget | UnavailableTarget:
        """Builds a recipe's target, of its own or another version; TargetError if it fails."""

    def prepare_command(self, text: str) -> PreparedTarget:
        """Reads `NAME=COMMAND`, a program of this host; InputError as `command.from_command`."""

    def prepare_url(self, text: str) -> PreparedTarget:
        """Reads `NAME=URL`, a server that was started already; InputError if it is none."""

    def has_processes(self, prepared: PreparedTarget) -> bool:
        """Whether its processes can be read, so that its CPU time is known."""

    def repository(self) -> Repository:
        """The git repository of this host whose commits are built and started."""

    def with_changes(
        self, prepared: PreparedTarget, changes: tuple[ConfigChange, ...], upstream: Transport
    ) -> PreparedTarget:
        """A target as an experiment changes it, the server behind it on this transport.

        InputError: a reverse proxy cannot forward to that, or the host refuses these changes.
        """

    def prepare_benchmark(
        self, benchmark: Microbenchmark, prepared: PreparedTarget | None
    ) -> BenchmarkRound:
        """What runs a round of a benchmark; `prepared` is its recipe's target, if it has one.

        InputError: the host refuses this benchmark.
        """

    def tuning_target(
        self, base: PreparedTarget, recipe: Recipe, knobs: Sequence[Knob]
    ) -> TuningTarget:
        """A recipe's target with these of its knobs; InputError if there are none."""

    def tuning_target_of_file(
        self, base: PreparedTarget, recipe: Recipe, knobs: Sequence[Knob], file: Path, listen: str
    ) -> TuningTarget:
        """A recipe's target that runs the user's configuration, a file of this machine."""

    def tuning_target_of_command(
        self, base: PreparedTarget, recipes: Mapping[str, Recipe]
    ) -> TuningTarget | None:
        """A command with the knobs of the server that it starts; None without any."""

    def assign_cores(self, server: str | None, generator: str | None) -> CoreAssignment:
        """The cores of targets and load generator, of these lists; InputError if they are wrong."""

    def production_cores(self) -> CoreAssignment:
        """All cores that a target may have, as in production; it may share those of the load."""

    def full_load_cores(self) -> CoreAssignment:
        """Those of a closed loop at full load: all, of targets and load alike, if both are here."""

    def describe(self, run: Run) -> Run:
        """The header of a run with the properties of this host."""

    def machine(self) -> Machine:
        """The machine on which targets run."""

    def remarks(self) -> tuple[str, ...]:
        """What a reader of a profile has to know of this host, in sentences."""

    def with_names(self, prepared: PreparedTarget) -> PreparedTarget:
        """The target with what its runtime needs to have names of functions for a sampler."""

    def wait_for_idle_cores(
        self, cores: tuple[int, ...], give_up: Callable[[], bool]
    ) -> float | None:
        """Waits until the cores are idle; see `QuietCores.wait`."""

    def launcher(
        self, seed: int | str, cores: tuple[int, ...], workers: int | None
    ) -> TargetLauncher:
        """Starts targets on these cores, with a worker on each or this number of them."""

    def wait_until_ready(
        self,
        running: RunningTarget,
        workload: Workload,
        give_up: Callable[[], bool],
        note: Callable[[str], object],
    ) -> TargetResponse:
        """Waits for the first good answer; see `launch.wait_until_ready`."""

    def has_generated_code(self, running: RunningTarget) -> bool:
        """Whether its processes have code that was made at run time, or cannot be read."""

    def observed(self, spec: LoadSpec, cores: CoreAssignment) -> tuple[LoadSpec, Observer]:
        """The load as it has to be generated, and what observes its targets meanwhile."""

    @property
    def generate(self) -> Generate:
        """What sends a load to its targets: this machine, or load hosts."""

    def inspector(self, running: RunningTarget, cores: CoreAssignment) -> Inspector:
        """What reads more of a target than a measurement may; on the generator's cores, if here."""

    def syscall_costs(self) -> dict[str, float]:
        """Nanoseconds per frequent system call, by its name; see `syscall_costs`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLoad:
    """A load on targets of a host; `started` gets the load generator's process."""

    host: ServerHost
    spec: LoadSpec
    cores: CoreAssignment
    started: Started

    def run(
        self, on_window: Callable[[str], object] = str
    ) -> tuple[tuple[ArmMeasurement, ...], MachineConditions]:
        """As `run_load`, observed on the host."""
        spec, observer = self.host.observed(self.spec, self.cores)
        generate = self.host.generate
        return run_load(spec, self.cores, self.started, on_window, observer, generate)


@contextmanager
def ready(
    host: ServerHost,
    running: RunningTarget,
    workload: Workload,
    give_up: Callable[[], bool],
    note: Callable[[str], object] = str,
) -> Iterator[RunningTarget]:
    """A target that was started, when it answers; it is stopped when this is left."""
    with running:
        host.wait_until_ready(running, workload, give_up, note)
        yield running


@contextmanager
def verified(
    host: ServerHost,
    launcher: TargetLauncher,
    prepared: PreparedTarget,
    workload: Workload,
    give_up: Callable[[], bool],
) -> Iterator[RunningTarget]:
    """A target that is started, whose responses are as expected; it is stopped when this is left.

    TargetError: it does not start or answer, its answer is another one, or `give_up` was True.
    """
    with launcher.start(prepared, workload) as running:
        first = host.wait_until_ready(running, workload, give_up, str)
        expected = launch.expected_response(prepared, workload, first)
        launch.verify(running, workload, first, expected)
        yield running


def required(host: ServerHost, recipe: Recipe) -> PreparedTarget:
    """The target of a recipe, prepared on its host; InputError if it is not available there."""
    found = host.prepare(recipe, "")
    if isinstance(found, UnavailableTarget):
        raise InputError(found.sentence)
    return found


def build_paths() -> BuildPaths:
    """The folders of built targets and of the contract's files, which are created."""
    cache = default_cache()
    return BuildPaths(cache=cache / "built", files=contract.make_files(cache / "files"))


class LocalHost:
    """This machine."""

    is_local = True
    network: EmulatedNetwork | None = None
    lost = ""
    generate = staticmethod(generate_here)

    def __init__(self) -> None:
        self._quiet: dict[tuple[int, ...], QuietCores] = {}

    def prepare(self, recipe: Recipe, version: str) -> PreparedTarget | UnavailableTarget:
        place = build_paths()
        return prepare_version(recipe, version, place) if version else prepare(recipe, place)

    def prepare_command(self, text: str) -> PreparedTarget:
        return from_command(text, build_paths())

    def prepare_url(self, text: str) -> PreparedTarget:
        return from_url(text)

    def has_processes(self, prepared: PreparedTarget) -> bool:
        return prepared.address is None or listener_pid(prepared.address) is not None

    def repository(self) -> Repository:
        return LocalRepository(build_paths())

    def with_changes(
        self, prepared: PreparedTarget, changes: tuple[ConfigChange, ...], upstream: Transport
    ) -> PreparedTarget:
        return prepared.with_changes(changes).with_upstream(upstream)

    def prepare_benchmark(
        self, benchmark: Microbenchmark, prepared: PreparedTarget | None
    ) -> BenchmarkRound:
        values = prepared.values if prepared else build_paths().values(benchmark.name)
        return partial(run_on, benchmark.name, fill(benchmark.command, values))

    def tuning_target(
        self, base: PreparedTarget, recipe: Recipe, knobs: Sequence[Knob]
    ) -> TuningTarget:
        return target_of_recipe(recipe, knobs, base)

    def tuning_target_of_file(
        self, base: PreparedTarget, recipe: Recipe, knobs: Sequence[Knob], file: Path, listen: str
    ) -> TuningTarget:
        return target_of_file(base, recipe, knobs, file, listen)

    def tuning_target_of_command(
        self, base: PreparedTarget, recipes: Mapping[str, Recipe]
    ) -> TuningTarget | None:
        return target_of_command(base, recipes)

    def assign_cores(self, server: str | None, generator: str | None) -> CoreAssignment:
        return core_assignment(server, generator)

    def production_cores(self) -> CoreAssignment:
        everything = available_cores()
        generator = partition_cores(everything).generator
        return CoreAssignment(server=everything, generator=generator, shared=True)

    def full_load_cores(self) -> CoreAssignment:
        everything = available_cores()
        return CoreAssignment(server=everything, generator=everything, shared=True)

    def describe(self, run: Run) -> Run:
        return run

    def machine(self) -> Machine:
        return machine()

    def remarks(self) -> tuple[str, ...]:
        return ()

    def with_names(self, prepared: PreparedTarget) -> PreparedTarget:
        return with_names(prepared)

    def wait_for_idle_cores(
        self, cores: tuple[int, ...], give_up: Callable[[], bool]
    ) -> float | None:
        return self._quiet.setdefault(cores, QuietCores(cores)).wait(give_up=give_up)

    def launcher(
        self, seed: int | str, cores: tuple[int, ...], workers: int | None
    ) -> TargetLauncher:
        return Launcher(cores=cores, rng=random.Random(seed), workers=workers)

    def wait_until_ready(
        self,
        running: RunningTarget,
        workload: Workload,
        give_up: Callable[[], bool],
        note: Callable[[str], object],
    ) -> TargetResponse:
        return launch.wait_until_ready(running, workload, give_up=give_up, note=note)

    def has_generated_code(self, running: RunningTarget) -> bool:
        return running.root is None or has_generated_code(process_tree(running.root))

    def observed(self, spec: LoadSpec, cores: CoreAssignment) -> tuple[LoadSpec, Observer]:
        return spec, local_observer(spec, cores)

    def inspector(self, running: RunningTarget, cores: CoreAssignment) -> Inspector:
        return LocalInspector(running.root, cores)

    def syscall_costs(self) -> dict[str, float]:
        return syscall_costs()
