"""The files of a calibration: its checks, and the loads of a cost measurement."""

from pathlib import Path

from jissoku.errors import InputError
from jissoku.model.calibration import CalibrationCheck
from jissoku.model.request_cost import LoadPoints
from jissoku.system import toml_file

CHECKS = Path(__file__).parent / "checks"
CELLS = Path(__file__).parent / "cost.toml"


def read_checks(folder: Path = CHECKS) -> tuple[CalibrationCheck, ...]:
    """Every check, in the order of their numbers."""
    found = [toml_file.read(path, CalibrationCheck) for path in folder.glob("*.toml")]
    return tuple(sorted(found, key=lambda check: order(check.id)))


def select_checks(
    checks: tuple[CalibrationCheck, ...], wanted: str
) -> tuple[CalibrationCheck, ...]:
    """The checks that a list such as `C1,C6-C9` names.

    Raises:
        InputError: It is not such a list, or names no existing check.
    """
    numbers: set[str] = set()
    for part in wanted.upper().replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        ids = [check.id.upper() for check in checks]
        if not dash:
            last = first
        if first not in ids or last not in ids:
            raise InputError(
                f"{part!r} is not a check: checks are C1 to {checks[-1].id}, as in C1,C6-C9"
            )
        numbers |= set(ids[ids.index(first) : ids.index(last) + 1])
    return tuple(check for check in checks if check.id.upper() in numbers)


def order(name: str) -> tuple[int, str]:
    """The sort key of a check's id: C11b comes after C11."""
    digits = "".join(sign for sign in name if sign.isdigit())
    return int(digits or 0), name


def read_cells(path: Path = CELLS) -> LoadPoints:
    """The loads of a data file under which the cost of a request is measured."""
    return toml_file.read(path, LoadPoints)
