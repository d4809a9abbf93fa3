"""What is kept of a calibration: one JSON file for each tool, rewritten after each check."""

from pathlib import Path
from typing import Any

import msgspec

from jissoku.errors import InputError

SCHEMA = "jissoku.calibration/1"


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was expected, and what was reported instead.

    Attributes:
        void: What shook the run enough to explain that; empty unless the grade is void.
    """

    setup: str
    what: str
    expected: str
    got: str
    grade: str
    tolerance: str = ""
    void: str = ""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the tool: enough to judge it once more.

    Attributes:
        foreign: The share of the cores' time that others used meanwhile.
        report: The beginning and the end of what the tool printed.
    """

    setup: str
    oracle: dict[str, Any]
    command: str
    exit_code: int | None
    account: dict[str, Any]
    figures: dict[str, float]
    foreign: float
    report: str


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """One check's result; `sentence` says why where there is no grade, or qualifies one."""

    check: str
    title: str
    grade: str
    sentence: str = ""
    evidence: tuple[Evidence, ...] = ()
    runs: tuple[Run, ...] = ()


class Scorecard(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known about one tool.

    Attributes:
        budget_s: How long everything might take, repetitions of void checks included.
        not_repeated: Checks that stayed void since there was no time to hold them again.
    """

    schema: str = SCHEMA
    tool: str
    about: str
    version: str
    jissoku: str
    started_utc: str
    mode: str
    machine: str
    is_finished: bool
    scores: tuple[Score, ...] = ()
    budget_s: float | None = None
    not_repeated: tuple[str, ...] = ()


def write_card(folder: Path, card: Scorecard) -> Path:
    """Writes the card as `write_record` does."""
    return write_record(folder, card.tool, card)


def write_record(folder: Path, name: str, record: msgspec.Struct) -> Path:
    """Writes a record so that a reader finds the old one or the new one, never half of one.

    Raises:
        InputError: The folder cannot be written.
    """
    path = folder / f"{name}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
        new.replace(path)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}") from error
    return path


def carried(folder: Path, card: Scorecard) -> tuple[Score, ...]:
    """What an earlier card of the same tool, in the same version and mode, has to say.

    A card of something else, or one that cannot be read any more, has nothing to say.
    """
    try:
        before = _read(folder / f"{card.tool}.json")
    except InputError:
        return ()
    same = [(it.version, it.jissoku, it.mode, it.machine) for it in (before, card)]
    return before.scores if same[0] == same[1] else ()


def read_cards(folder: Path) -> tuple[Scorecard, ...]:
    """Every card in a folder, by the tool's name.

    Raises:
        InputError: A file is no card, or of a schema that this version does not know.
    """
    return tuple(_read(path) for path in sorted(folder.glob("*.json")))


def _read(path: Path) -> Scorecard:
    try:
        card = msgspec.json.decode(path.read_bytes(), type=Scorecard)
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"{path} is not a scorecard: {error}") from error
    if card.schema != SCHEMA:
        raise InputError(f"{path}: schema {card.schema!r}; this version reads {SCHEMA!r}")
    return card
