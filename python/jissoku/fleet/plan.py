"""A file with comparisons for many machines: each machine has a queue of its own."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import msgspec

from jissoku.errors import InputError
from jissoku.fleet.machines import MachinesPlan, check_machines, new_plan, resumed_plan
from jissoku.records import files, machines as store
from jissoku.records.run_folder import TRIALS_FILE, check_new
from jissoku.request import ComparisonRequest, from_argv
from jissoku.system import toml_file


class PlannedComparison(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A comparison of a plan: the words after `jissoku compare`, and its machines, if not all."""

    name: str
    compare: str
    machines: tuple[str, ...] = ()


class PlanFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan: HOST:PORT of each agent, the folder of their keys, and what they compare in order."""

    machines: tuple[str, ...]
    comparison: tuple[PlannedComparison, ...]
    keys: str = ""


def new_plans(file: Path, out: Path, version: str) -> list[MachinesPlan]:
    """The comparisons of a file, each with a new folder below `out`, in their order.

    All are read before the first one is asked of its machines.
    """
    found = toml_file.read(file, PlanFile)
    check_new(out)
    names = [one.name for one in found.comparison]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{file.name}: two comparisons are called {twice!r}")
    if wrong := next((name for name in names if not _is_name(name)), None):
        raise InputError(f"{file.name}: {wrong!r} is a folder: letters, digits, - and _ name it")
    asked = [_request(file.name, found, one) for one in found.comparison]
    return [
        new_plan(request, out / name, version) for name, request in zip(names, asked, strict=True)
    ]


def _is_name(name: str) -> bool:
    return bool(name) and name.replace("-", "").replace("_", "").isalnum()


def _request(file: str, plan: PlanFile, one: PlannedComparison) -> ComparisonRequest:
    try:
        request = from_argv(["compare", *shlex.split(one.compare)])
    except (InputError, ValueError) as error:
        raise InputError(f"{file}: comparison {one.name!r}: {error}") from error
    assert isinstance(request, ComparisonRequest)
    machines = one.machines or plan.machines
    if request.machine or request.server_keys:
        raise InputError(f"{file}: comparison {one.name!r}: machines and keys are keys of the file")
    if unknown := next((name for name in machines if name not in plan.machines), None):
        raise InputError(f"{file}: comparison {one.name!r}: {unknown} is none of its machines")
    whole = msgspec.structs.replace(request, machine=machines, server_keys=plan.keys)
    check_machines(whole)
    return whole


def resumed_plans(folder: Path, version: str) -> list[MachinesPlan]:
    return [resumed_plan(place, version) for place in comparisons(folder)]


def comparisons(folder: Path) -> list[Path]:
    """The folders of a plan's comparisons, in the order in which they were made."""
    found = [place for place in folder.glob("*") if store.holds_machines(place)]
    if not found:
        raise InputError(f"{folder} holds no comparisons on several machines")
    return sorted(found, key=lambda place: (store.read_header(place).started_utc, place.name))


def status(folder: Path) -> Iterator[str]:
    """A line for each machine of each comparison, from what is on this host."""
    for place in comparisons(folder):
        run, outcomes = store.read_header(place), store.read_outcomes(place)
        records = dict(store.newest_records(place, run.machines))
        for machine in range(1, run.machines + 1):
            lines = (
                files.WholeLines.of(records[machine] / TRIALS_FILE).count
                if machine in records
                else 0
            )
            known = outcomes.get(machine)
            state = "not ended" if known is None else known.reason or "finished"
            yield f"{place.name}: machine {machine}: {lines} trials, {state}"
