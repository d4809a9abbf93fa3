"""A bound on a run, as in continuous integration, and its result."""

from enum import StrEnum

import msgspec

from jissoku.model.summary import Estimate
from jissoku.model.workload import Load


class BoundStatus(StrEnum):
    """Whether a run breaks its bound."""

    KEPT = "kept"
    EXCEEDED = "exceeded"
    UNDECIDED = "undecided"


class BoundResult(msgspec.Struct, frozen=True, kw_only=True):
    """One bound.

    Attributes:
        text: As the user wrote it; the run fails if it is proven.
        ratio: Of the left side to the right one without the bound's number, with the interval that
            decides; None if the values are missing.
        bound: The number that the ratio is compared with.
        relation: < or >.
        load: The load of the values.
        reason: Why it is undecided; empty if it is decided.
        blocks_needed: Blocks that would decide, at this spread; None if unknown.
    """

    text: str
    status: BoundStatus
    bound: float
    relation: str
    ratio: Estimate | None = None
    load: Load | None = None
    reason: str = ""
    blocks_needed: int | None = None
