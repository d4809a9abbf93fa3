"""A load: the request rate during a measurement, from a fixed grid.

CPU time per request depends on the rate. All runs use the same grid of rates (1-2-5), so that two
runs are comparable; arms are compared at a rate that both reach, never at different rates.
"""

from enum import StrEnum

import msgspec

STEPS = (1, 2, 5)


class LoadLevel(StrEnum):
    """Name of a load."""

    LIGHT = "light"
    MEDIUM = "medium"
    HEAVY = "heavy"
    GIVEN = "given"  # the rate given with -R
    FULL = "full"  # the closed loop


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Requests per second to the server's cores while one arm is under load.

    Attributes:
        rate_rps: None: closed loop.
        level: Light, middle or heavy for rates of the grid.
    """

    rate_rps: int | None
    level: LoadLevel

    @property
    def text(self) -> str:
        """As in `5,000 requests/s (medium load)`."""
        if self.rate_rps is None:
            return "full load (closed loop)"
        text = f"{self.rate_rps:,} requests/s"
        return text if self.level is LoadLevel.GIVEN else f"{text} ({self.level} load)"


FULL_LOAD = Load(rate_rps=None, level=LoadLevel.FULL)


def rate_grid(low_rps: int, high_rps: int) -> tuple[int, ...]:
    """The rates 1, 2, 5 times a power of ten from `low_rps` to `high_rps`, both included."""
    found = []
    scale = 1
    while scale <= high_rps:
        found += [step * scale for step in STEPS if low_rps <= step * scale <= high_rps]
        scale *= 10
    return tuple(found)
