"""A suspected change that is explained, and no longer open."""

import msgspec

SCHEMA = "jissoku.dismissal/1"


class Dismissal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a suspected change needs no confirmation.

    Attributes:
        key: Of the suspicion.
        reason: Empty: the suspicion is open again.
        dismissed_utc: ISO 8601, to the second.
    """

    key: str
    target: str
    reason: str
    dismissed_utc: str
    schema: str = SCHEMA
