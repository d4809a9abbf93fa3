"""Dismissed suspicions, in files beside the runs: a line for each decision, the latest one counts.

They are part of the records and not of the index, which is rebuilt from the records.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from jissoku.errors import InputError
from jissoku.model.history import Dismissal
from jissoku.records import files

FILE_NAME = "dismissed.jsonl"


def read(roots: Iterable[Path]) -> Mapping[str, Dismissal]:
    """The dismissals in some folders of runs, by the key of their suspicion."""
    found: dict[str, Dismissal] = {}
    for root in roots:
        path = root / FILE_NAME
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


def add(root: Path, key: str, target: str, reason: str) -> None:
    """Dismisses a suspicion; with an empty reason it is open again."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    one = Dismissal(key=key, target=target, reason=" ".join(reason.split()), dismissed_utc=now)
    path = root / FILE_NAME
    with files.writing(path):
        root.mkdir(parents=True, exist_ok=True)
        # A single write, so that two writers do not mix their lines.
        with path.open("ab", buffering=0) as file:
            file.write(msgspec.json.encode(one) + b"\n")
