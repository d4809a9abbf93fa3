"""How the clock of another host relates to ours, by round trips. No I/O.

Both clocks are CLOCK_MONOTONIC, which is slewed and never set. A question leaves at `sent_ns` of
our clock, is answered with `there_ns` of the other one, and the answer comes at `received_ns`: so
the other clock showed `there_ns` at some instant in between. The middle is off by at most half the
round trip, however the delay is distributed over both ways. That is a bound, and no standard
deviation.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from jissoku.errors import JissokuError

# Time synchronisation slews a clock by at most 500 ppm (adjtimex(2)), on either host.
DRIFT_PPM_MAX = 1000

# Reading a clock, three times.
READING_NS = 1_000


class ClockStep(JissokuError):  # noqa: N818 - it says what happened
    """Two clocks have moved against each other by more than clocks that are slewed can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTrip:
    """Nanoseconds: of our clock before and after, and of the other one in between."""

    sent_ns: int
    there_ns: int
    received_ns: int

    @property
    def length_ns(self) -> int:
        return self.received_ns - self.sent_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockBound:
    """The other clock showed `offset_ns` more than ours at `at_ns`, to within `error_ns`."""

    at_ns: int
    offset_ns: int
    error_ns: int
    round_trip_ns: int

    @classmethod
    def of(cls, trips: Iterable[RoundTrip]) -> "ClockBound":
        """That of the shortest round trip, of at least one."""
        best = min(trips, key=lambda trip: trip.length_ns)
        middle_ns = best.sent_ns + best.length_ns // 2
        return cls(
            at_ns=middle_ns,
            offset_ns=best.there_ns - middle_ns,
            error_ns=best.length_ns // 2 + READING_NS,
            round_trip_ns=best.length_ns,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """From our clock to the other one, between two bounds; drift in between is a straight line."""

    before: ClockBound
    after: ClockBound

    def __post_init__(self) -> None:
        """ClockStep if the two bounds cannot both be true of clocks that drift."""
        moved_ns = abs(self.after.offset_ns - self.before.offset_ns)
        span_ns = abs(self.after.at_ns - self.before.at_ns)
        errors_ns = self.before.error_ns + self.after.error_ns
        if moved_ns > errors_ns + span_ns * DRIFT_PPM_MAX // 1_000_000:
            raise ClockStep(
                f"the clocks of both hosts moved against each other by {moved_ns / 1e6:.3f} ms in"
                f" {span_ns / 1e9:.3f} s: one was suspended or set"
            )

    @property
    def error_ns(self) -> int:
        """Between two offsets that are off by no more than this, so is every one in between.

        That takes for granted that clocks keep their rates for the seconds between the two.
        """
        return max(self.before.error_ns, self.after.error_ns)

    @property
    def round_trip_ns(self) -> int:
        return min(self.before.round_trip_ns, self.after.round_trip_ns)

    def there_ns(self, here_ns: int) -> int:
        """What the other clock showed when ours showed `here_ns`."""
        span_ns = self.after.at_ns - self.before.at_ns
        moved_ns = self.after.offset_ns - self.before.offset_ns
        if span_ns <= 0:
            return here_ns + self.before.offset_ns
        return here_ns + self.before.offset_ns + moved_ns * (here_ns - self.before.at_ns) // span_ns


def window_edges(opened_ns: int, closed_ns: int, duration_ns: int) -> tuple[int, int, int]:
    """When a window opened and closed, and the bound of both, in nanoseconds.

    It opened after `opened_ns`, closed before `closed_ns`, and lasted `duration_ns`.
    """
    slack_ns = max(0, closed_ns - opened_ns - duration_ns)
    open_ns = opened_ns + slack_ns // 2
    return open_ns, open_ns + duration_ns, slack_ns // 2 + 1
