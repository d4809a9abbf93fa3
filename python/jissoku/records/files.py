"""Records as JSON files: written atomically, read by type and schema; and those of one file each.

Such are calibrations, the noise floors of a user's machines, and dismissed suspicions.

Whatever reads or writes records raises an `InputError` that names the file, and the line if it has
several records: it cannot be read or written, or is malformed, or its schema is unknown here.
"""

import datetime as dt
import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from jissoku.errors import InputError, JissokuError
from jissoku.model import Machine, Method, updated
from jissoku.model.calibration import CostRecord, Score, Scorecard
from jissoku.model.history import Dismissal
from jissoku.model.run import MachineNoise, NoiseFloor, NoiseFloors

Record = TypeVar("Record")


class _Versioned(msgspec.Struct, frozen=True):
    schema: str = ""


def decoded(raw: bytes, kind: type[Record], *, where: str) -> Record:
    """Reads one record, whose schema must be that of its type; `where` is for the message."""
    try:
        wanted = _schema(kind)  # type: ignore[arg-type]
        found = msgspec.json.decode(raw, type=_Versioned).schema if wanted else ""
        if found != wanted:
            raise InputError(f"{where}: schema {found!r}; this version reads {wanted!r}")
        return msgspec.json.decode(raw, type=kind)
    except msgspec.MsgspecError as error:
        raise InputError(f"{where}: not a record: {error}") from error


# What a name ends in if the file is compressed by gzip (RFC 1952), as those of kept runs are.
COMPRESSED = ".gz"


def stored(path: Path) -> Path:
    compressed = path.with_name(f"{path.name}{COMPRESSED}")
    return compressed if compressed.exists() and not path.exists() else path


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader | gzip.GzipFile]:
    """Opens a record for reading, compressed or not; an OSError if it cannot be read."""
    place = stored(path)
    with gzip.open(place) if place.suffix == COMPRESSED else place.open("rb") as file:
        try:
            yield file
        except (EOFError, zlib.error) as error:
            raise InputError(f"{place} is damaged: {error}") from error


def load(path: Path, kind: type[Record]) -> Record | None:
    """Reads a file that holds one record; None if there is no such file."""
    try:
        with opened(path) as file:
            raw = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    return decoded(raw, kind, where=str(path))


@contextmanager
def writing(place: Path, kind: str = "") -> Iterator[None]:
    """The block writes a file or into a folder, which may not hold this kind of record yet."""
    try:
        yield
    except OSError as error:
        if kind and isinstance(error, FileExistsError):
            raise InputError(f"{place} holds {kind} already: choose another --out") from None
        raise InputError(f"{place} cannot be written: {error.strerror}") from error


def replace_file(path: Path, record: object) -> None:
    """Writes a file atomically, or raises an OSError: a reader finds the old one or the new one."""
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(_encoded(record))
    new.replace(path)


def replace_synced(path: Path, data: bytes) -> None:
    """Writes a file, or its new version, which is on disk afterwards; or raises an OSError."""
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_folder(path.parent)


def sync_folder(place: Path) -> None:
    """Writes the names in a folder to the disk; or raises an OSError."""
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class WholeLines:
    """Lines that have their end: how many, their bytes, and their SHA-256."""

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self._digest = hashlib.sha256()

    @classmethod
    def of(cls, path: Path) -> "WholeLines":
        """Those of a file; none if there is no file. A last line without its end does not count."""
        found = cls()
        with suppress(FileNotFoundError), path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    found.add(line, 1)
        return found

    def add(self, lines: bytes, count: int) -> None:
        self.count += count
        self.bytes += len(lines)
        self._digest.update(lines)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


def create_file(path: Path, record: object) -> None:
    """Writes a file that must not exist yet, or raises an OSError."""
    with path.open("xb") as file:
        file.write(_encoded(record))


def _encoded(record: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"


@cache
def _schema(kind: Any) -> str:
    """The schema that a type's records name; empty if they name none, as a plain dict."""
    is_record = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    fields = msgspec.structs.fields(kind) if is_record else ()
    return str({field.name: field.default for field in fields}.get("schema", ""))


def write_card(folder: Path, card: Scorecard) -> None:
    _write(folder, card.tool, card)


def write_cost(folder: Path, record: CostRecord) -> None:
    _write(folder, f"{record.tool}-against-{record.against}-{record.transport}", record)


def _write(folder: Path, name: str, record: msgspec.Struct) -> None:
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / f"{name}.json", record)


def carried(folder: Path, card: Scorecard) -> tuple[Score, ...]:
    """An earlier card's results in the same version and mode; none if that cannot be read."""
    before = None
    with suppress(InputError):
        before = load(folder / f"{card.tool}.json", Scorecard)
    if before is None:
        return ()
    same = [(it.version, it.jissoku, it.mode, it.machine) for it in (before, card)]
    return before.scores if same[0] == same[1] else ()


def read_cards(folder: Path) -> tuple[Scorecard, ...]:
    found = (load(path, Scorecard) for path in sorted(folder.glob("*.json")))
    return tuple(card for card in found if card is not None)


NOISE_FILE = "noise.json"

# With fewer campaigns the 95th percentile is just the largest value, and an outlier decides it.
CAMPAIGNS_MIN = 10


def fingerprint(machine: Machine) -> str:
    """A key for a machine: another kernel, processor or host is another machine."""
    facts = (machine.cpu_model, str(machine.cores), machine.kernel, machine.hypervisor)
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def known_noise_floors(file: Path, machine: Machine) -> dict[Method, float]:
    """Noise floors on this machine, of the methods that enough campaigns have measured.

    A file that cannot be read counts as none, and the next measurement replaces it.
    """
    entry = _read_noise(file).machines.get(fingerprint(machine))
    found = entry.methods if entry is not None else {}
    return {
        method: one.noise_floor for method, one in found.items() if one.campaigns >= CAMPAIGNS_MIN
    }


def keep_noise_floors(file: Path, machine: Machine, measured: Mapping[Method, NoiseFloor]) -> None:
    """Writes what was measured; other machines and methods keep what they had."""
    document = _read_noise(file)
    key = fingerprint(machine)
    known = document.machines.get(key)
    entry = MachineNoise(
        cpu_model=machine.cpu_model,
        cores=machine.cores,
        kernel=machine.kernel,
        hypervisor=machine.hypervisor,
        methods={**(known.methods if known else {}), **measured},
    )
    document = updated(document, machines={**document.machines, key: entry})
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, document)
    except OSError as error:
        raise JissokuError(f"{file} cannot be written: {error.strerror}") from error


def _read_noise(file: Path) -> NoiseFloors:
    with suppress(InputError):
        return load(file, NoiseFloors) or NoiseFloors()
    return NoiseFloors()


DISMISSALS_FILE = "dismissed.jsonl"


def read_dismissals(roots: Iterable[Path]) -> Mapping[str, Dismissal]:
    """The dismissals in some folders of runs, by the key of their suspicion."""
    found: dict[str, Dismissal] = {}
    for root in roots:
        path = root / DISMISSALS_FILE
        try:
            lines = path.read_bytes().splitlines()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from error
        for number, line in enumerate(lines, start=1):
            try:
                one = msgspec.json.decode(line, type=Dismissal)
            except msgspec.MsgspecError as error:
                raise InputError(f"{path}, line {number}: {error}") from error
            if one.key not in found or one.dismissed_utc >= found[one.key].dismissed_utc:
                found[one.key] = one
    return {key: one for key, one in found.items() if one.reason}


def dismiss(root: Path, key: str, target: str, reason: str) -> None:
    """Dismisses a suspicion; with an empty reason it is open again."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    one = Dismissal(key=key, target=target, reason=" ".join(reason.split()), dismissed_utc=now)
    path = root / DISMISSALS_FILE
    with writing(path):
        root.mkdir(parents=True, exist_ok=True)
        # A single write, so that two writers do not mix their lines.
        with path.open("ab", buffering=0) as file:
            file.write(msgspec.json.encode(one) + b"\n")
