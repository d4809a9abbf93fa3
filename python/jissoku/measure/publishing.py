"""Static pages of runs: the board, targets, reports; and with their records, to be published."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import msgspec

from jissoku import records
from jissoku.errors import InputError
from jissoku.inference.board import board_runs
from jissoku.measure.calibration import read_checks
from jissoku.measure.experiment import read_result
from jissoku.measure.history import History, open_history
from jissoku.measure.reports import read_summary, report_text, write_texts
from jissoku.model import Summary
from jissoku.model.calibration import Scorecard
from jissoku.model.history import IndexedRun, Series
from jissoku.model.wording import DAY_LENGTH
from jissoku.records import files
from jissoku.records.files import read_cards
from jissoku.records.run_folder import is_experiment, read_header
from jissoku.report import board, experiment as experiment_report
from jissoku.report.history import report_file, runs_html, target_file, target_html
from jissoku.report.page import scorecard_html, with_footer
from jissoku.system.redaction import redact
from jissoku.targets import catalogue

RECORDS, SUMS = "records", "SHA256SUMS"

# The files of a run with measurements; all others are generated from them.
PUBLISHED = (
    "run.json", "trials.jsonl", "sweep.json", "counters.json", "network.json", "unfinished.txt",
)  # fmt: skip

# Those of an experiment, beside the folders of its workloads.
OF_EXPERIMENT = ("experiment.json", "benchmarks.json", "finished")

# An encoded histogram, which may contain a short host name by chance.
ENCODED = re.compile(r"HISTF[A-Za-z0-9+/=]+")

# Near the beginning of a scorecard's file.
CARD, HEAD = b"jissoku.calibration/", 64

# Rebuilds a published folder's pages from its own records.
COMMAND = "jissoku publish NEW --records records"


def write_history(folder: Path, known: History, command: str, roots: Sequence[Path] = ()) -> int:
    """Writes all pages into a folder, and returns their number.

    A run's report is read from its folder, or generated if it is missing. `command` rebuilds the
    pages, and is shown on each; calibrations of load generators are looked for below `roots`.
    """
    runs = known.headers()
    targets = sorted({arm.target for run in runs for arm in run.arms if not arm.is_control})
    pages: dict[str, str | bytes] = {}
    everything: list[Series] = []
    for target in targets:
        mine = [run for run in runs if any(arm.target == target for arm in run.arms)]
        series = known.series(target)
        pages[target_file(target)] = target_html(target, series, mine, command)
        everything += series
    pages["runs.html"] = runs_html(runs, everything, command)
    pages |= {report_file(run.row.run): _report(run, folder) for run in runs}
    experiments = list(_experiments(runs, folder))
    pages |= {one.file: text for one, text in experiments}
    generators = list(_calibrations(roots, folder))
    pages |= {file: text for _, file, text in generators}
    pages["index.html"] = board.board_html(
        shown_runs(known),
        [one for one, _ in experiments],
        [(card, file) for cards, file, _ in generators for card in cards],
        runs=len(runs),
        command=command,
    )
    write_texts(folder, pages)
    return len(pages)


def shown_runs(known: History) -> dict[str, list[board.ShownRun]]:
    kinds = {name: str(recipe.target_kind) for name, recipe in catalogue.recipes().items()}
    found = board_runs(known.headers(), known.costs(), lambda name: kinds.get(name, board.OTHER))
    shown: dict[str, list[board.ShownRun]] = {}
    for kind, runs in found.items():
        for one in runs:
            summary = read_summary(Path(one.run.folder))
            if isinstance(summary, Summary):
                shown.setdefault(kind, []).append(board.ShownRun(shown=one, summary=summary))
    return shown


def _report(run: IndexedRun, folder: Path) -> str:
    """The report next to the records, generated from them if it is missing; with its command."""
    place = Path(run.folder)
    try:
        text = (place / "report.html").read_text(encoding="utf-8")
    except OSError:
        text = report_text(place, "html")
    found = [name for name in PUBLISHED if (place / name).is_file()]
    return with_footer(text, "Measured by", board.command_of(run), _links(place, found, folder))


def _links(place: Path, names: Sequence[str], folder: Path) -> list[tuple[str, str]]:
    """The board, and files of records that are published with the page: (name, address) of each."""
    shown = names if place.is_relative_to(folder) else ()
    beside = [(name, quote(str((place / name).relative_to(folder)))) for name in shown]
    return [*beside, ("The board", "index.html"), ("All runs", "runs.html")]


def _experiments(
    runs: Sequence[IndexedRun], folder: Path
) -> Iterator[tuple[board.ShownExperiment, str]]:
    for place, found in reversed(_by_experiment(runs).items()):
        if place is None:
            continue
        try:
            result = read_result(place)
        except InputError:
            continue  # Its runs have pages all the same.
        name = result.header.experiment.name
        file = board.experiment_file(name, found[0].row.run)
        names = [one for one in OF_EXPERIMENT if (place / one).is_file()]
        links = [(f"run of {Path(run.folder).name}", report_file(run.row.run)) for run in found]
        links += _links(place, names, folder)
        text = experiment_report.to_html(result)
        page = with_footer(text, "Measured by", f"jissoku run {name}", links)
        yield board.ShownExperiment(file=file, result=result), page


def _by_experiment(runs: Sequence[IndexedRun]) -> dict[Path | None, list[IndexedRun]]:
    """Runs by the folder of the experiment that they are workloads of; None: of no experiment."""
    workloads: dict[Path, tuple[str, ...]] = {}
    found: dict[Path | None, list[IndexedRun]] = {}
    for run in runs:
        above = Path(run.folder).parent
        if above not in workloads:
            workloads[above] = _workloads(above)
        is_workload = Path(run.folder).name in workloads[above]
        found.setdefault(above if is_workload else None, []).append(run)
    return found


def _workloads(folder: Path) -> tuple[str, ...]:
    """The workloads of an experiment; none if the folder holds no experiment that can be read."""
    try:
        return read_header(folder).workloads if is_experiment(folder) else ()
    except InputError:
        return ()


def _calibrations(
    roots: Sequence[Path], folder: Path
) -> Iterator[tuple[tuple[Scorecard, ...], str, str]]:
    for number, place in enumerate(_calibrated(roots), 1):
        cards = read_cards(place)
        names = [f"{card.tool}.json" for card in cards]
        page = scorecard_html(read_checks(), cards)
        links = _links(place, names, folder)
        page = with_footer(page, "Measured by", "jissoku calibrate", links)
        yield cards, f"load-generators-{number}.html", page


def _calibrated(roots: Sequence[Path]) -> list[Path]:
    """Folders in which every JSON file is a scorecard."""
    found: dict[Path, bool] = {}
    for path in sorted(one for root in roots for one in root.rglob("*.json")):
        if found.get(path.parent, True):
            with path.open("rb") as file:
                found[path.parent] = CARD in file.read(HEAD)
    return [place for place, is_calibrated in found.items() if is_calibrated]


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
            for place, runs in _by_experiment(found.headers()).items():
                _write_records(folder / RECORDS, place, runs)
            for calibrated in _calibrated(roots):
                names = sorted(path.name for path in calibrated.glob("*.json"))
                cards = _contents(calibrated, names)
                _write(folder / RECORDS / f"calibration-{_digest(cards)}", cards)
        with TemporaryDirectory(prefix="jissoku-publish-") as cache:
            published = open_history([folder / RECORDS], note, Path(cache))
            write_history(folder, published, COMMAND, [folder / RECORDS])
            count = len(published.headers())
        sums = [
            f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n"
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        ]
        (folder / SUMS).write_text("".join(sums), encoding="utf-8")
    except OSError as error:
        place = Path(error.filename or folder)
        reason = f"{place} cannot be read ({error.strerror})"
        if place.is_relative_to(folder):
            reason = f"{place} cannot be written ({error.strerror}): name another folder"
        raise InputError(reason) from error
    return count


def _write_records(folder: Path, experiment: Path | None, runs: Sequence[IndexedRun]) -> None:
    """The records of runs, each folder named by time and by a hash of its published content.

    Those of an experiment are folders of its workloads in that of the experiment.
    """
    contents = {run.row.run: _contents(Path(run.folder), PUBLISHED) for run in runs}
    if experiment is not None:
        own = _contents(experiment, OF_EXPERIMENT)
        digests = sorted(_digest(one) for one in contents.values())
        day = runs[0].row.started_utc[:DAY_LENGTH]
        folder /= f"{day}-{_digest({**own, 'runs': ''.join(digests).encode()})}"
        _write(folder, own)
    for run in runs:
        files_of_run = contents[run.row.run]
        day = run.row.started_utc[:DAY_LENGTH]
        name = f"{day}-{_digest(files_of_run)}" if experiment is None else Path(run.folder).name
        _write(folder / name, files_of_run)
        records.read(folder / name)


def _contents(source: Path, names: Sequence[str]) -> dict[str, bytes]:
    """Files of records that exist, redacted."""
    found = {}
    for name in names:
        with suppress(FileNotFoundError), files.opened(source / name) as file:
            found[name] = _redacted(name, file.read())
    return found


def _digest(contents: Mapping[str, bytes]) -> str:
    return hashlib.sha256(b"\0".join(contents.values())).hexdigest()[:12]


def _write(place: Path, contents: Mapping[str, bytes]) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name, data in contents.items():
        (place / name).write_bytes(data)


def _redacted(name: str, data: bytes) -> bytes:
    """A file's texts without paths and names, line by line."""
    if not name.endswith((".json", ".jsonl")):
        return redact(data.decode(errors="replace")).encode()
    # Text after the last newline is an incomplete line of a killed run, which readers skip.
    lines = data.split(b"\n")[:-1] if name.endswith(".jsonl") else [data]
    values = [msgspec.json.decode(line) for line in lines]
    for value in values:
        if isinstance(value, dict) and "machine_label" in value:
            value["machine_label"] = ""
    return b"".join(msgspec.json.encode(_clean(value)) + b"\n" for value in values)


def _clean(value: Any) -> Any:
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
