"""Explanations, tunings and profiles below the folders of runs: a list, and a page for each.

They are found by the names of their files, and by a key that is no path.
"""

import datetime as dt
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from markupsafe import Markup

from jissoku.errors import InputError
from jissoku.measure.history import documents
from jissoku.measure.reports import DrawFlameGraph, profile_page
from jissoku.model import TuningResult, join_names
from jissoku.model.explanation import Explanation
from jissoku.records import files, read_profiles
from jissoku.records.run_folder import EXPLANATION_FILE, PROFILES_FILE, TUNING_FILE
from jissoku.report import page, tuning_to_text
from jissoku.report.explanation import causes_text, explanation_to_text, headline
from jissoku.report.format import duration
from jissoku.request import AnyRequest

Record = TypeVar("Record")

VERBS = {EXPLANATION_FILE: "explain", TUNING_FILE: "tune", PROFILES_FILE: "profile"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """One of them; `targets` are names with commas, `problem` is why its record cannot be read."""

    key: str
    folder: Path
    document: str
    written_utc: str
    targets: str = ""
    path: str = ""
    result: str = ""
    request: AnyRequest | None = None
    problem: str = ""

    @property
    def verb(self) -> str:
        return VERBS[self.document]

    @property
    def url(self) -> str:
        return f"/analyses/{self.key}"


def key_of(folder: Path | str) -> str:
    return hashlib.sha256(str(folder).encode(errors="surrogateescape")).hexdigest()[:16]


def found_analyses(roots: Sequence[Path], cache: Path | None) -> list[Analysis]:
    found = documents([root for root in roots if root.is_dir()], cache)
    rows = [one for folder, name in found if (one := analysis_in(Path(folder), name)) is not None]
    return sorted(rows, key=lambda one: (one.written_utc, one.key), reverse=True)


def analysis_in(folder: Path, document: str) -> Analysis | None:
    """What a file of a folder says; None if it has just gone."""
    try:
        changed_ns = files.stored(folder / document).stat().st_mtime_ns
    except OSError:
        return None
    return _read(folder, document, changed_ns)


@lru_cache(maxsize=1024)  # One is read again when its file has changed.
def _read(folder: Path, document: str, changed_ns: int) -> Analysis:
    written = dt.datetime.fromtimestamp(changed_ns // 10**9, dt.UTC).isoformat()
    bare = Analysis(key=key_of(folder), folder=folder, document=document, written_utc=written)
    try:
        return replace(bare, **_summary(folder, document))
    except InputError as error:
        return replace(bare, problem=str(error))


def _explanation(folder: Path) -> Explanation:
    return _loaded(folder, EXPLANATION_FILE, Explanation)


def _tuning(folder: Path) -> TuningResult:
    return _loaded(folder, TUNING_FILE, TuningResult)


def _loaded(folder: Path, name: str, kind: type[Record]) -> Record:
    found = files.load(folder / name, kind)
    if found is None:
        raise InputError(f"{folder} has no {name} any more")
    return found


def _summary(folder: Path, document: str) -> dict[str, Any]:
    """The fields of an `Analysis` that its record gives."""
    if document == PROFILES_FILE:
        profiles = read_profiles(folder)
        if not profiles:
            raise InputError(f"{folder} has no complete profile")
        costs = [f"{duration(one.cpu_ns_per_request)} for {one.target}" for one in profiles]
        return {
            "targets": ", ".join(one.target for one in profiles),
            "path": profiles[0].workload.path,
            "result": f"CPU time per request: {join_names(costs)}.",
            "request": profiles[0].request,
        }
    found: Explanation | TuningResult
    if document == TUNING_FILE:
        found = _tuning(folder)
        result = headline(found)
    else:
        found = _explanation(folder)
        result = causes_text(found)
        if found.verification is not None:
            result += f" {headline(found.verification)}"
    return {
        "targets": found.target, "path": found.path, "result": result, "request": found.request,
    }  # fmt: skip


def content(found: Analysis, draw: DrawFlameGraph) -> Markup | str:
    """The report, made from the record: a part of a page, or text."""
    if found.document == PROFILES_FILE:
        return page.content(profile_page(found.folder, draw))
    if found.document == TUNING_FILE:
        return tuning_to_text(_tuning(found.folder))
    explanation = _explanation(found.folder)
    tuned = explanation.verification
    return explanation_to_text(explanation) + (f"\n{tuning_to_text(tuned)}" if tuned else "")


def record_data(found: Analysis) -> dict[str, object]:
    with files.opened(found.folder / found.document) as file:
        text = file.read()
    lines = text.splitlines() if found.document == PROFILES_FILE else [text]
    return {"records": [msgspec.json.decode(line) for line in lines]}
