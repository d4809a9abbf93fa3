"""A folder to publish: records without names of the machine, pages made from them, and hashes."""

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from jissoku import records
from jissoku.errors import InputError
from jissoku.measure.history import History, open_history
from jissoku.measure.reports import report_text, write_texts
from jissoku.model.history import IndexedRun
from jissoku.report.history import index_html, report_file, target_file, target_html
from jissoku.targets.provenance import redact


def write_history(folder: Path, known: History, command: str) -> int:
    """Writes all pages into a folder, and returns their number.

    A run's report is read from its folder, or generated if it is missing. `command` rebuilds the
    pages, and is shown on each.
    """
    runs = known.headers()
    targets = sorted({arm.target for run in runs for arm in run.arms if not arm.is_control})
    series = {target: known.series(target) for target in targets}
    pages = {
        target_file(target): target_html(target, found, command)
        for target, found in series.items()
        if found
    }
    everything = [one for found in series.values() for one in found]
    pages["index.html"] = index_html(runs, everything, command)
    pages |= {report_file(run.row.run): _report(run) for run in runs}
    write_texts(folder, pages)
    return len(pages)


def _report(run: IndexedRun) -> str:
    """The report next to the records; generated from them if it is missing."""
    try:
        return (Path(run.folder) / "report.html").read_text(encoding="utf-8")
    except OSError:
        return report_text(Path(run.folder), "html")


RECORDS, SUMS = "records", "SHA256SUMS"

# The files of a run with measurements; all others are generated from them.
PUBLISHED = ("run.json", "trials.jsonl", "sweep.json", "unfinished.txt")

# An encoded histogram, which may contain a short host name by chance.
ENCODED = re.compile(r"HISTF[A-Za-z0-9+/=]+")

# Rebuilds a published folder's pages from its own records.
COMMAND = "jissoku publish NEW --records records"


def publish(folder: Path, roots: Sequence[Path], note: Callable[[str], None]) -> int:
    """Writes all runs below some folders, and pages of them, into a new or an empty folder.

    The same records give the same bytes; so do the published ones. `note` receives messages about
    skipped runs. Returns the number of runs.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if next(folder.iterdir(), None) is not None:
            raise InputError(f"{folder} is not empty: name a new folder")
        with TemporaryDirectory(prefix="jissoku-publish-") as cache:
            found = open_history(roots, note, Path(cache))
            for sentence in found.broken:
                note(sentence)
            for run in found.headers():
                _write_records(folder / RECORDS, run)
        with TemporaryDirectory(prefix="jissoku-publish-") as cache:
            published = open_history([folder / RECORDS], note, Path(cache))
            write_history(folder, published, COMMAND)
            count = len(published.headers())
        sums = [
            f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n"
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        ]
        (folder / SUMS).write_text("".join(sums), encoding="utf-8")
    except OSError as error:
        raise InputError(_reason(error, folder)) from error
    return count


def _reason(error: OSError, folder: Path) -> str:
    place = Path(error.filename or folder)
    if place.is_relative_to(folder):
        return f"{place} cannot be written ({error.strerror}): name another folder"
    return f"{place} cannot be read ({error.strerror})"


def _write_records(folder: Path, run: IndexedRun) -> None:
    """A run's records, named by time and by a hash of the published content."""
    source = Path(run.folder)
    files = {name: (source / name).read_bytes() for name in PUBLISHED if (source / name).is_file()}
    files = {name: _redacted(name, data) for name, data in files.items()}
    digest = hashlib.sha256(b"\0".join(files.values())).hexdigest()[:12]
    place = folder / f"{run.row.started_utc[:10]}-{digest}"
    place.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (place / name).write_bytes(data)
    records.read(place)


def _redacted(name: str, data: bytes) -> bytes:
    """A file's texts without paths and names, line by line."""
    if name.endswith(".txt"):
        return redact(data.decode(errors="replace")).encode()
    # Text after the last newline is an incomplete line of a killed run, which readers skip.
    lines = data.split(b"\n")[:-1] if name.endswith(".jsonl") else [data]
    return b"".join(_line(line) + b"\n" for line in lines)


def _line(line: bytes) -> bytes:
    value = msgspec.json.decode(line)
    if isinstance(value, dict) and "machine_label" in value:
        value["machine_label"] = ""
    return msgspec.json.encode(_clean(value))


def _clean(value: Any) -> Any:
    """A value with every text redacted; names of fields stay."""
    match value:
        case str() if ENCODED.fullmatch(value):
            return value
        case str():
            return redact(value)
        case list():
            return [_clean(one) for one in value]
        case dict():
            return {key: _clean(one) for key, one in value.items()}
        case _:
            return value
