"""A file with comparisons for many machines: each machine has a queue of its own."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from jissoku.errors import InputError
from jissoku.fleet.fleet_file import read_fleet
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
    """A plan: the machines, the folder of their keys, and what they compare in order.

    `machines` has HOST:PORT of each agent, or is the file of a fleet, whose names then stand for
    machines, and which has the keys.
    """

    machines: str | tuple[str, ...]
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
    machines, keys = _machines(file, found)
    asked = [_request(file.name, machines, keys, one) for one in found.comparison]
    return [
        new_plan(request, out / name, version) for name, request in zip(names, asked, strict=True)
    ]


def _is_name(name: str) -> bool:
    return bool(name) and name.replace("-", "").replace("_", "").isalnum()


def _machines(file: Path, plan: PlanFile) -> tuple[dict[str, str], str]:
    """The address of each machine by its name, and the folder of their keys."""
    if not isinstance(plan.machines, str):
        return {name: name for name in plan.machines}, plan.keys
    if plan.keys:
        raise InputError(f"{file.name}: {plan.machines} has the keys: leave out `keys`")
    fleet = read_fleet(file.parent / plan.machines)
    return {host.name: host.address for host in fleet.hosts}, str(fleet.keys)


def _request(
    file: str, known: Mapping[str, str], keys: str, one: PlannedComparison
) -> ComparisonRequest:
    try:
        request = from_argv(["compare", *shlex.split(one.compare)])
    except (InputError, ValueError) as error:
        raise InputError(f"{file}: comparison {one.name!r}: {error}") from error
    assert isinstance(request, ComparisonRequest)
    if request.machine or request.server_keys:
        raise InputError(f"{file}: comparison {one.name!r}: machines and keys are keys of the file")
    if unknown := next((name for name in one.machines if name not in known), None):
        raise InputError(f"{file}: comparison {one.name!r}: {unknown} is none of its machines")
    machines = tuple(known[name] for name in one.machines or known)
    whole = msgspec.structs.replace(request, machine=machines, server_keys=keys)
    check_machines(whole)
    return whole


def resumed_plans(folder: Path, version: str) -> list[MachinesPlan]:
    return [resumed_plan(place, version) for place in comparisons(folder)]


def comparisons(folder: Path) -> list[Path]:
    """The folders of a plan's comparisons, in the order in which they were made.

    The folder of one comparison is that alone.
    """
    if store.holds_machines(folder):
        return [folder]
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
