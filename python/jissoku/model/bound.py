"""A bound on a run, as in continuous integration: what must not be, and what was found."""

from enum import StrEnum

import msgspec

from jissoku.model.load import Load
from jissoku.model.summary import Estimate


class BoundStatus(StrEnum):
    """Whether a run breaks its bound."""

    KEPT = "kept"
    EXCEEDED = "exceeded"
    UNDECIDED = "undecided"


class BoundResult(msgspec.Struct, frozen=True, kw_only=True):
    """One bound.

    Attributes:
        text: As the user wrote it: what fails if it is proven.
        ratio: Of the left side to the right one without the bound's number, with the interval that
            decides; None where the values are not there.
        bound: What the ratio is compared with.
        relation: How: < or >.
        load: At which load.
        reason: Why nothing was decided; empty where something was.
        blocks_needed: Blocks that would decide, at this spread; None where unknown.
    """

    text: str
    status: BoundStatus
    bound: float
    relation: str
    ratio: Estimate | None = None
    load: Load | None = None
    reason: str = ""
    blocks_needed: int | None = None
