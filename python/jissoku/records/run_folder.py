"""A run's folder: `run.json` first, then `trials.jsonl`, one line per trial, synced as it ends.

A folder may be read while its writer is still running or after it was killed: a last line without
a newline is incomplete, and is skipped. Such a folder holds `unfinished.txt`, which gives the
reason; a writer that finishes removes it. Profiles are in `profiles.jsonl`, a sweep in
`sweep.json`. Each of these files may be compressed: `trials.jsonl.gz`.
"""

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Self

import msgspec

from jissoku.errors import InputError, RecordError
from jissoku.model import CounterReadings, Profile, Run, Sweep, Trial, updated
from jissoku.model.experiment import BenchmarkOutput, ExperimentHeader
from jissoku.model.history import FolderEntry
from jissoku.model.trial import Event, EventKind
from jissoku.records import files
from jissoku.system.redaction import redact

RUN_FILE = "run.json"
TRIALS_FILE = "trials.jsonl"
UNFINISHED_FILE = "unfinished.txt"

# The length of that file, whatever the reason in it.
REASON_BYTES = 120

# The reason while a run is being written; it remains if the process is killed.
RUNNING = "it is still being measured, or its process was killed"


def trials_sha256(folder: Path) -> str:
    """The SHA-256 of a run's trials, by which reports name them; empty if it has none."""
    try:
        with files.opened(folder / TRIALS_FILE) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def holds_run(folder: Path) -> bool:
    return files.stored(folder / RUN_FILE).is_file()


def check_new(folder: Path) -> None:
    """Refuses a folder that holds a run or cannot be written, before anything is measured."""
    with files.writing(folder):
        if holds_run(folder):
            raise _holds_a_run(folder)
    check_writable(folder)


def check_writable(folder: Path) -> None:
    """Refuses a folder that cannot be written, which access(2) does not know of every file system.

    It is left as it was: what is created to find out is removed.
    """
    created = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}") from error
    finally:
        for one in created:
            with suppress(OSError):
                one.rmdir()


class RunWriter(AbstractContextManager["RunWriter"]):
    """Writes one run's records, as a context manager; a line is on disk when `add` returns."""

    def __init__(self, folder: Path, run: Run) -> None:
        """Creates `folder`, which may not hold a run, and writes the header."""
        self.folder = folder
        self._body = run.workload.body
        try:
            folder.mkdir(parents=True, exist_ok=True)
            files.create_file(folder / RUN_FILE, run)
            (folder / UNFINISHED_FILE).write_text(_padded(RUNNING))
            # Unbuffered: no rest of a trial that did not fit on the disk is written later.
            self._trials = (folder / TRIALS_FILE).open("xb", buffering=0)
        except FileExistsError:
            raise _holds_a_run(folder) from None
        except OSError as error:
            with suppress(OSError):
                (folder / RUN_FILE).unlink()  # The folder can be used once there is free space.
            raise InputError(f"{folder} cannot be written: {error.strerror}") from error
        self._reason = ""

    def update(self, run: Run) -> Run:
        """Replaces the header, as a whole or not at all; RecordError if it cannot be written."""
        try:
            files.replace_file(self.folder / RUN_FILE, run)
        except OSError as error:
            raise RecordError(f"{self.folder} cannot be written: {error.strerror}") from error
        return run

    def add(self, trial: Trial) -> None:
        """Appends one trial and waits until the disk has it.

        Raises:
            RecordError: It cannot be written; the trials before it can be read.
        """
        size = self._trials.seek(0, os.SEEK_CUR)
        kept = _redacted(trial)
        if trial.workload.body == self._body:
            # A body of a mebibyte in each line is a hundred times the rest of it.
            kept = _with_body(kept, b"")
        line = msgspec.json.encode(kept) + b"\n"
        try:
            while line:
                line = line[self._trials.write(line) or 0 :]
            os.fsync(self._trials.fileno())
        except OSError as error:
            with suppress(OSError):
                self._trials.truncate(size)
            raise RecordError(
                f"trial {trial.index} cannot be written to {self.folder}: {error.strerror}. All"
                f" trials before it are kept: once there is room, `jissoku report"
                f" {self.folder}` shows them"
            ) from error

    def stop_early(self, reason: str) -> None:
        """Notes why the run ends early, such as `it was interrupted`."""
        self._reason = reason

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._trials.close()
        note = self.folder / UNFINISHED_FILE
        with suppress(OSError):
            if error is None and not self._reason:
                note.unlink()
            else:
                # In place: there may be no free space for a new file.
                with note.open("r+b") as file:
                    file.write(_padded(self._reason or _cause(error)).encode())


def read(folder: Path) -> tuple[Run, tuple[Trial, ...]]:
    run = files.load(folder / RUN_FILE, Run)
    if run is None:
        raise InputError(f"{folder} holds no run: {RUN_FILE}: No such file or directory")
    trials = _trials(folder / TRIALS_FILE)
    if body := run.workload.body:
        trials = (trial if trial.workload.body else _with_body(trial, body) for trial in trials)
    return run, tuple(trials)


def _holds_a_run(folder: Path) -> InputError:
    return InputError(f"{folder} holds a run already: choose another --out")


def _with_body(trial: Trial, body: bytes) -> Trial:
    return updated(trial, workload=updated(trial.workload, body=body))


def _redacted(trial: Trial) -> Trial:
    """The trial without what a failure or a missed step says of this machine."""
    if (one := trial.failure) is not None:
        failure = updated(one, reason=redact(one.reason), stderr=redact(one.stderr))
        trial = updated(trial, failure=failure)
    if trial.capacity is not None:
        steps = tuple(updated(one, reason=redact(one.reason)) for one in trial.capacity.steps)
        trial = updated(trial, capacity=updated(trial.capacity, steps=steps))
    return trial


def unfinished_reason(folder: Path) -> str:
    """Why a run is not finished, as the end of a sentence; empty if it is."""
    try:
        return (folder / UNFINISHED_FILE).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return _damage(folder / TRIALS_FILE) if holds_run(folder) else ""


def _damage(trials: Path) -> str:
    try:
        with files.opened(trials) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
            is_whole = file.read() in {b"", b"\n"}
    except OSError as error:
        return f"{trials.name} cannot be read: {error.strerror or error}"
    except InputError:
        return f"{trials.name} is damaged, and later trials are missing"
    return "" if is_whole else f"{trials.name} ends within a line, and later trials are missing"


def _cause(error: BaseException | None) -> str:
    """Without the message of an exception, which may name a path of this machine."""
    below = error.__cause__ if error is not None else None
    if isinstance(below, OSError) and below.strerror:
        return f"its records could not be written: {below.strerror}"
    return f"it ended with an error ({type(error).__name__})"


def _padded(reason: str) -> str:
    """A reason padded to a fixed length, so that it can be overwritten in place."""
    return f"{reason[: REASON_BYTES - 1]:<{REASON_BYTES - 1}}\n"


def _trials(path: Path) -> Iterator[Trial]:
    if not files.stored(path).exists():
        return
    with files.opened(path) as file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n"):
                yield files.decoded(line, Trial, where=f"{path}:{number}")


PROFILES_FILE = "profiles.jsonl"
EXPLANATION_FILE, TUNING_FILE = "explanation.json", "tuning.json"

# Of several in a folder the first is what was asked for.
DOCUMENTS = (EXPLANATION_FILE, TUNING_FILE, PROFILES_FILE)


def write_profiles(folder: Path, profiles: Sequence[Profile]) -> None:
    with files.writing(folder, "profiles"):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / PROFILES_FILE).open("xb") as file:
            for profile in profiles:
                file.write(msgspec.json.encode(profile) + b"\n")


def read_profiles(folder: Path) -> tuple[Profile, ...]:
    path = folder / PROFILES_FILE
    try:
        with files.opened(path) as file:
            lines = file.read().splitlines()
    except OSError:
        return ()
    return tuple(
        files.decoded(line, Profile, where=f"{path}:{number}")
        for number, line in enumerate(lines, start=1)
    )


SWEEP_FILE = "sweep.json"


def write_sweep(folder: Path, sweep: Sweep) -> None:
    with files.writing(folder, "a sweep"):
        files.create_file(folder / SWEEP_FILE, sweep)


def read_sweep(folder: Path) -> Sweep | None:
    return files.load(folder / SWEEP_FILE, Sweep)


EVENTS_FILE = "events.jsonl"


class EventWriter:
    """Appends the events of one run, as a context manager; what cannot be written is left out."""

    def __init__(self, folder: Path) -> None:
        self._started = time.monotonic()
        self._file: int | None = None
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(folder / EVENTS_FILE, flags, 0o644)

    def __enter__(self) -> Self:
        self.add(Event(kind=EventKind.START, elapsed_s=0.0, pid=os.getpid()))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        reason = "" if kind is None else f"it ended with {kind.__name__}"
        self.add(Event(kind=EventKind.END, elapsed_s=self.elapsed_s(), text=reason))
        if self._file is not None:
            os.close(self._file)

    def elapsed_s(self) -> float:
        return round(time.monotonic() - self._started, 3)

    def add(self, event: Event) -> None:
        """Appends one event with one system call."""
        event = updated(event, failure=redact(event.failure))
        if self._file is not None:
            with suppress(OSError):
                os.write(self._file, msgspec.json.encode(event) + b"\n")


def read_events(folder: Path, offset: int = 0) -> tuple[tuple[Event, ...], int]:
    """Events from a position on, and the position after them; unreadable ones are left out."""
    found, raw = [], b""
    with suppress(OSError), (folder / EVENTS_FILE).open("rb") as file:
        file.seek(offset)
        raw = file.read()
    whole = raw[: raw.rfind(b"\n") + 1]
    for line in whole.splitlines():
        with suppress(msgspec.MsgspecError):
            found.append(msgspec.json.decode(line, type=Event))
    return tuple(found), offset + len(whole)


# An experiment's workload is two levels below a folder of runs; a folder of several has one more.
DEPTH_MAX = 5

# Times of files have a resolution (inode(7)): what changed just now may change again within it.
SETTLED_NS = 2_000_000_000

# In place of a folder's time, when it is read the next time in any case.
READ_AGAIN = -1


def find_runs(root: Path, known: Mapping[str, FolderEntry] | None = None) -> dict[str, FolderEntry]:
    """Every folder below a root that can be read, by its path from there, in order.

    A folder that an earlier search has found (`known`) and that has not changed since is not
    read. Files are assumed to change only as `RunWriter` changes them, or to have another time
    or size.
    """
    found: dict[str, FolderEntry] = {}
    known = known or {}
    now_ns = time.time_ns()
    start = os.fspath(root)
    above_all = "" if start == "." else start if start.endswith("/") else f"{start}/"
    pending = [("", 0)]
    while pending:
        place, depth = pending.pop()
        folder = f"{above_all}{place}" if place else start
        before = known.get(place)
        try:
            entry = before if before and _is_current(folder, before) else _read(folder, now_ns)
        except OSError:
            continue
        found[place] = entry
        if entry.folders and depth < DEPTH_MAX:
            above = f"{place}/" if place else ""
            names = entry.folders.split("/")
            pending += [(above + name, depth + 1) for name in reversed(names)]
    return found


def run_folders(root: Path) -> Iterator[Path]:
    """Folders with a run, in order of their names; folders that cannot be read are skipped."""
    for place, entry in find_runs(root).items():
        if entry.run or entry.problem:
            yield root / place


def run_key(folder: Path) -> str:
    """A run's key: its header's hash and its trials' size. A copy has the same key."""
    with files.opened(folder / RUN_FILE) as file:
        digest = hashlib.sha256(file.read()).hexdigest()[:16]
    return f"{digest}-{_trials_size(str(folder)):x}"


def _is_current(folder: str, known: FolderEntry) -> bool:
    """Whether a folder is as it was: up to three calls of stat(2), most of a search's time."""
    if os.stat(folder).st_mtime_ns != known.mtime_ns:  # noqa: PTH116 - of strings: a third of the time
        return False
    if not known.run:
        return True
    header = _stat(f"{folder}/{RUN_FILE}")
    return (
        header.st_mtime_ns == known.header_ns
        and header.st_size == known.header_size
        and _trials_size(folder) == known.trials_size
    )


def _read(folder: str, now_ns: int) -> FolderEntry:
    mtime_ns = os.stat(folder).st_mtime_ns  # noqa: PTH116 - as above
    folders, names = [], set()
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                names.add(entry.name.removesuffix(files.COMPRESSED))
            elif not entry.name.startswith("."):
                folders.append(entry.name)
    document = next((name for name in DOCUMENTS if name in names), "")
    found = FolderEntry(mtime_ns=READ_AGAIN, folders="/".join(sorted(folders)), document=document)
    if RUN_FILE not in names:
        return updated(found, mtime_ns=mtime_ns) if mtime_ns < now_ns - SETTLED_NS else found
    place = Path(folder)
    try:
        header = _stat(f"{folder}/{RUN_FILE}")
        key = run_key(place)
    except OSError as error:
        return updated(found, document="", problem=error.strerror or str(error))
    # The file that says why a run is incomplete is overwritten in place.
    unfinished = unfinished_reason(place)
    is_settled = max(mtime_ns, header.st_mtime_ns) < now_ns - SETTLED_NS and not unfinished
    return updated(
        found,
        mtime_ns=mtime_ns if is_settled else READ_AGAIN,
        run=key,
        header_ns=header.st_mtime_ns,
        header_size=header.st_size,
        trials_size=_trials_size(folder),
        unfinished=unfinished,
    )


def _stat(path: str) -> os.stat_result:
    try:
        return os.stat(path)  # noqa: PTH116 - as above
    except FileNotFoundError:
        return os.stat(f"{path}{files.COMPRESSED}")  # noqa: PTH116 - as above


def _trials_size(folder: str) -> int:
    """The size in bytes, of compressed trials that before compression; 0 without any."""
    path = f"{folder}/{TRIALS_FILE}"
    try:
        return os.stat(path).st_size  # noqa: PTH116 - as above
    except OSError:
        pass
    # That before compression, modulo 4 GiB, is the last four bytes (RFC 1952, section 2.3.1).
    with suppress(OSError), Path(f"{path}{files.COMPRESSED}").open("rb") as file:
        file.seek(-4, os.SEEK_END)
        return int.from_bytes(file.read(), "little")
    return 0


HEADER_FILE = "experiment.json"
COUNTERS_FILE = "counters.json"
NETWORK_FILE = "network.json"
BENCHMARKS_FILE = "benchmarks.json"
FINISHED_FILE = "finished"

Counters = dict[str, CounterReadings]
BenchmarkOutputs = dict[str, BenchmarkOutput]


def is_experiment(folder: Path) -> bool:
    return (folder / HEADER_FILE).is_file()


def write_header(folder: Path, header: ExperimentHeader) -> None:
    """Creates the folder, which may not hold an experiment, and writes the header."""
    with files.writing(folder, "an experiment"):
        folder.mkdir(parents=True, exist_ok=True)
        files.create_file(folder / HEADER_FILE, header)


def read_header(folder: Path) -> ExperimentHeader:
    header = files.load(folder / HEADER_FILE, ExperimentHeader)
    if header is None:
        raise InputError(f"{folder} holds no experiment: there is no {HEADER_FILE}")
    return header


def mark_finished(folder: Path) -> None:
    (folder / FINISHED_FILE).touch()


def is_finished(folder: Path) -> bool:
    return (folder / FINISHED_FILE).exists()


def write_counters(folder: Path, counters: Counters) -> None:
    files.replace_file(folder / COUNTERS_FILE, dict(sorted(counters.items())))


def read_counters(folder: Path) -> Counters:
    return files.load(folder / COUNTERS_FILE, Counters) or {}


def write_network(folder: Path, forwarded: Mapping[str, object]) -> None:
    """Writes what an emulated network has forwarded during a run."""
    files.replace_file(folder / NETWORK_FILE, dict(forwarded))


def write_benchmarks(folder: Path, figures: BenchmarkOutputs) -> None:
    files.replace_file(folder / BENCHMARKS_FILE, dict(sorted(figures.items())))


def read_benchmarks(folder: Path) -> BenchmarkOutputs:
    return files.load(folder / BENCHMARKS_FILE, BenchmarkOutputs) or {}
