"""The record of a calibration: one JSON file per tool, rewritten after each check."""

from pathlib import Path

import msgspec

from jissoku.errors import InputError
from jissoku.model.calibration import CostRecord, Score, Scorecard
from jissoku.records import files


def write_card(folder: Path, card: Scorecard) -> Path:
    """Writes the card as `write_record` does."""
    return write_record(folder, card.tool, card)


def write_record(folder: Path, name: str, record: msgspec.Struct) -> Path:
    """Writes a record atomically: a reader finds the old one or the new one.

    Raises:
        InputError: The folder cannot be written.
    """
    path = folder / f"{name}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files.replace_file(path, record)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}") from error
    return path


def carried(folder: Path, card: Scorecard) -> tuple[Score, ...]:
    """The results of an earlier card of the same tool, in the same version and mode.

    A card of another tool or version, or one that cannot be read any more, gives none.
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
    card = files.load(path, Scorecard)
    if card is None:
        raise InputError(f"{path} is not there")
    return card


def write_cost(folder: Path, record: CostRecord) -> Path:
    """Writes what a request costs, as `write_record` does."""
    return write_record(
        folder, f"{record.tool}-against-{record.against}-{record.transport}", record
    )
