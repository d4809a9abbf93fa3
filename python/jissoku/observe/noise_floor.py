"""What equal targets were seen to differ by on a machine, as `jissoku doctor --prove` left it.

One file for each user, with an entry for each machine: a home directory may be shared.
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from jissoku.errors import JissokuError
from jissoku.model import Machine, Method

SCHEMA = "jissoku.noise/2"
FILE_NAME = "noise.json"

# Of fewer campaigns the 95th percentile is the largest value, whatever happened in that one.
CAMPAIGNS_MIN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """Of one method on one machine.

    Attributes:
        noise_floor: Within this of 1 lie the ratios of 95 % of campaigns of equal arms.
        campaigns: How many there were, of this many blocks each.
        block_sd_log: Standard deviation of one block's log ratio.
        measured_utc: When; a date for people, nothing is computed from it.
        jissoku: Version that measured it.
    """

    noise_floor: float
    campaigns: int
    blocks: int
    block_sd_log: float
    measured_utc: str
    jissoku: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One machine: what tells it from others, in clear, and its noise floors."""

    cpu_model: str
    cores: int
    kernel: str
    hypervisor: str
    methods: dict[Method, NoiseFloor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    schema: str = SCHEMA
    machines: dict[str, _Entry] = field(default_factory=dict)


def fingerprint(machine: Machine) -> str:
    """A key for a machine: another kernel, processor or host is another machine."""
    facts = (machine.cpu_model, str(machine.cores), machine.kernel, machine.hypervisor)
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def known(file: Path, machine: Machine) -> dict[Method, float]:
    """The noise floor of each method on this machine; none where it was not measured well enough.

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
    entry = document.machines.get(key) or _Entry(
        cpu_model=machine.cpu_model,
        cores=machine.cores,
        kernel=machine.kernel,
        hypervisor=machine.hypervisor,
    )
    entry = replace(entry, methods={**entry.methods, **measured})
    document = replace(document, machines={**document.machines, key: entry})
    beside = file.with_name(f"{file.name}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
        beside.replace(file)
    except OSError as error:
        raise JissokuError(f"{file} cannot be written: {error.strerror}") from error


def _read(file: Path) -> _Document:
    with suppress(OSError, msgspec.MsgspecError):
        document = msgspec.json.decode(file.read_bytes(), type=_Document)
        if document.schema == SCHEMA:
            return document
    return _Document()
