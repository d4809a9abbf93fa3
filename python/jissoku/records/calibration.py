"""The record of a calibration: one JSON file per tool, rewritten after each check."""

from pathlib import Path

import msgspec

from jissoku.errors import InputError
from jissoku.model.calibration import CostRecord, Score, Scorecard
from jissoku.records import files


def write_card(folder: Path, card: Scorecard) -> None:
    """Writes the card atomically: a reader finds the old one or the new one."""
    _write(folder, card.tool, card)


def write_cost(folder: Path, record: CostRecord) -> None:
    """Writes what a request costs, as `write_card` does."""
    _write(folder, f"{record.tool}-against-{record.against}-{record.transport}", record)


def _write(folder: Path, name: str, record: msgspec.Struct) -> None:
    with files.writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        files.replace_file(folder / f"{name}.json", record)


def carried(folder: Path, card: Scorecard) -> tuple[Score, ...]:
    """The results of an earlier card of the same tool, in the same version and mode.

    A card of another tool or version, or one that cannot be read any more, gives none.
    """
    try:
        before = files.load(folder / f"{card.tool}.json", Scorecard)
    except InputError:
        return ()
    if before is None:
        return ()
    same = [(it.version, it.jissoku, it.mode, it.machine) for it in (before, card)]
    return before.scores if same[0] == same[1] else ()


def read_cards(folder: Path) -> tuple[Scorecard, ...]:
    """Every card in a folder, by the tool's name."""
    found = (files.load(path, Scorecard) for path in sorted(folder.glob("*.json")))
    return tuple(card for card in found if card is not None)
