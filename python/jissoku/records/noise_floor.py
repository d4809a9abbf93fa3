"""The noise floors of a machine, as stored by `jissoku self-test`.

One file for each user, with an entry for each machine: a home directory may be shared.
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from jissoku.errors import InputError, JissokuError
from jissoku.model import Machine, Method
from jissoku.model.run import MachineNoise, NoiseFloor, NoiseFloors
from jissoku.model.updated import updated
from jissoku.records import files

FILE_NAME = "noise.json"

# With fewer campaigns the 95th percentile is just the largest value, and an outlier decides it.
CAMPAIGNS_MIN = 10


def fingerprint(machine: Machine) -> str:
    """A key for a machine: another kernel, processor or host is another machine."""
    facts = (machine.cpu_model, str(machine.cores), machine.kernel, machine.hypervisor)
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def known(file: Path, machine: Machine) -> dict[Method, float]:
    """The noise floor of each method on this machine; none where too few campaigns measured it.

    A file that cannot be read counts as none, and the next measurement replaces it.
    """
    entry = _read(file).machines.get(fingerprint(machine))
    found = entry.methods if entry is not None else {}
    return {
        method: one.noise_floor for method, one in found.items() if one.campaigns >= CAMPAIGNS_MIN
    }


def keep(file: Path, machine: Machine, measured: Mapping[Method, NoiseFloor]) -> None:
    """Writes what was measured; other machines and methods keep what they had.

    Raises:
        JissokuError: The file cannot be written.
    """
    document = _read(file)
    key = fingerprint(machine)
    entry = document.machines.get(key) or MachineNoise(
        cpu_model=machine.cpu_model,
        cores=machine.cores,
        kernel=machine.kernel,
        hypervisor=machine.hypervisor,
    )
    entry = updated(entry, methods={**entry.methods, **measured})
    document = updated(document, machines={**document.machines, key: entry})
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        files.replace_file(file, document)
    except OSError as error:
        raise JissokuError(f"{file} cannot be written: {error.strerror}") from error


def _read(file: Path) -> NoiseFloors:
    with suppress(InputError):
        return files.load(file, NoiseFloors) or NoiseFloors()
    return NoiseFloors()
