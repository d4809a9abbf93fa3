"""The folder of a comparison on several machines: its header, and a run folder for each attempt.

`machines.json` is written first. `machine-2` is the record of the second machine, which its host
has written, copied here line by line; `machine-2-attempt-2` of a further attempt. `outcomes.jsonl`
has a line for each attempt that has come to its end. `resume.json` has what is asked of which host:
it is for this host alone, and no part of the record.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from jissoku.errors import InputError, RecordError
from jissoku.model import Run, Trial
from jissoku.model.machines import MachinesRun, Outcome
from jissoku.records import files
from jissoku.records.run_folder import RUN_FILE, RUNNING, TRIALS_FILE, UNFINISHED_FILE
from jissoku.request import ComparisonRequest

HEADER_FILE, OUTCOMES_FILE, RESUME_FILE = "machines.json", "outcomes.jsonl", "resume.json"


class Resume(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, with the hosts that records leave out."""

    id: str
    request: ComparisonRequest


def holds_machines(folder: Path) -> bool:
    return files.stored(folder / HEADER_FILE).is_file()


def create(folder: Path, run: MachinesRun, resume: Resume) -> None:
    """Writes the header of a new run; InputError if the folder has one, or cannot be written."""
    with files.writing(folder, "a comparison on several machines"):
        folder.mkdir(parents=True, exist_ok=True)
        files.create_file(folder / HEADER_FILE, run)
        descriptor = os.open(folder / RESUME_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(resume) + b"\n")


def read_header(folder: Path) -> MachinesRun:
    found = files.load(folder / HEADER_FILE, MachinesRun)
    if found is None:
        raise InputError(f"{folder} holds no comparison on several machines")
    return found


def read_resume(folder: Path) -> Resume:
    read_header(folder)
    found = files.load(folder / RESUME_FILE, Resume)
    if found is None:
        raise InputError(f"{folder} cannot be resumed here: it has no {RESUME_FILE}")
    return found


def add_outcome(folder: Path, outcome: Outcome) -> None:
    """Appends the outcome of an attempt; RecordError if it cannot be written."""
    try:
        with (folder / OUTCOMES_FILE).open("ab", buffering=0) as file:
            file.write(msgspec.json.encode(outcome) + b"\n")
            os.fsync(file.fileno())
    except OSError as error:
        raise RecordError(f"{folder} cannot be written: {error.strerror}") from error


def read_outcomes(folder: Path) -> dict[int, Outcome]:
    """The newest outcome of each machine."""
    path = folder / OUTCOMES_FILE
    with suppress(FileNotFoundError), files.opened(path) as file:
        lines = [line for line in file if line.endswith(b"\n")]
        found = (files.decoded(line, Outcome, where=str(path)) for line in lines)
        return {one.machine: one for one in found}
    return {}


def machine_folder(folder: Path, machine: int, attempt: int) -> Path:
    suffix = f"-attempt-{attempt}" if attempt > 1 else ""
    return folder / f"machine-{machine}{suffix}"


def attempts(folder: Path, machine: int) -> int:
    """How many attempts of a machine have a folder here."""
    count = 0
    while machine_folder(folder, machine, count + 1).is_dir():
        count += 1
    return count


def newest_records(folder: Path, machines: int) -> Iterator[tuple[int, Path]]:
    """For each machine its newest attempt with a header."""
    for machine in range(1, machines + 1):
        for attempt in range(attempts(folder, machine), 0, -1):
            place = machine_folder(folder, machine, attempt)
            if files.stored(place / RUN_FILE).is_file():
                yield machine, place
                break


class PulledRun:
    """The record of a run that another host writes, as far as it is known here.

    What `append` has returned from is on disk, and may be acknowledged. A last line without its
    end, as a full disk or a kill leaves it, is removed first.
    """

    def __init__(self, folder: Path) -> None:
        """Continues the copy in a folder, or begins one.

        RecordError: it cannot be written, or another process writes it.
        """
        self.folder = folder
        self.header_sha256 = ""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                raw = (folder / RUN_FILE).read_bytes()
                self.header_sha256 = hashlib.sha256(raw).hexdigest()
            self._file = os.open(folder / TRIALS_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._lines = files.WholeLines.of(folder / TRIALS_FILE)
            os.ftruncate(self._file, self.offset)
            os.lseek(self._file, self.offset, os.SEEK_SET)
            self._note(RUNNING)
        except BlockingIOError as error:
            self.close()
            raise RecordError(f"{folder}: another process copies this record") from error
        except OSError as error:
            raise self._failed(error) from error

    @property
    def offset(self) -> int:
        """Bytes of the trials that are known here."""
        return self._lines.bytes

    @property
    def lines(self) -> int:
        """How many trials these are."""
        return self._lines.count

    def replace_header(self, raw: bytes) -> None:
        files.decoded(raw, Run, where=RUN_FILE)
        try:
            files.replace_synced(self.folder / RUN_FILE, raw)
        except OSError as error:
            raise self._failed(error) from error
        self.header_sha256 = hashlib.sha256(raw).hexdigest()

    def append(self, lines: bytes) -> None:
        """Adds whole lines that follow what is known; InputError for any other ones."""
        found = lines.splitlines(keepends=True)
        for number, line in enumerate(found, self.lines):
            if not line.endswith(b"\n"):
                raise InputError(f"line {number} of {TRIALS_FILE} has no end")
            trial = files.decoded(line, Trial, where=f"{TRIALS_FILE}:{number + 1}")
            if trial.index != number:
                raise InputError(f"trial {trial.index} has come in place of trial {number}")
        try:
            rest = lines
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, self.offset)
                os.lseek(self._file, self.offset, os.SEEK_SET)
            raise self._failed(error) from error
        self._lines.add(lines, len(found))

    def finish(self, trials_sha256: str, unfinished: str) -> None:
        """Compares the hash of all lines, and notes why the run is not finished, if it is not."""
        if self._lines.sha256 != trials_sha256:
            raise InputError(f"{TRIALS_FILE} is another one than that of its machine")
        try:
            if unfinished or not (self.folder / RUN_FILE).exists():
                self._note(unfinished or "it measured nothing")
            else:
                (self.folder / UNFINISHED_FILE).unlink()
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        os.close(self._file)

    def _note(self, reason: str) -> None:
        (self.folder / UNFINISHED_FILE).write_text(f"{reason}\n", encoding="utf-8")

    def _failed(self, error: OSError) -> RecordError:
        return RecordError(f"{self.folder} cannot be written: {error.strerror}")
