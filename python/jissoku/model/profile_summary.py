"""The results of a profile: CPU time per request by part, library, thread and function."""

import msgspec

from jissoku.model.profile import Profile


class ProfileRow(msgspec.Struct, frozen=True, kw_only=True):
    """CPU time per request of one function, library, thread, line or part.

    Attributes:
        name: Of the function, library, thread or part.
        place: Its container: the library of a function, the function of a line; may be empty.
        samples: How many samples the value rests on.
        ns: CPU time per request in nanoseconds, without callees.
        ns_low: Lower end of the 95 % interval; samples are counts (Wilson's score interval).
        ns_high: Upper end.
        ns_with_callees: With callees; None for rows that have none.
    """

    name: str
    place: str = ""
    samples: int
    ns: float
    ns_low: float
    ns_high: float
    ns_with_callees: float | None = None


class ProfileSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Tables of one profile; within each, rows are ordered by cost.

    Attributes:
        parts: User space, each system call, interrupts and page faults: they add up to the CPU
            time.
        functions: They add up to the CPU time too. Of threads whose interpreter was sampled,
            interpreted functions with the native code and kernel functions that they called.
        native: Functions of native code and of the kernel; empty where `functions` has the same.
        too_few: CPU time per request of the functions that have too few samples for a value.
        sampled_ns: CPU time per request by samples alone; None if samples do not count time.
        remarks: Missing data and doubts, in sentences.
    """

    profile: Profile
    total_ns: float
    sampled_ns: float | None
    parts: tuple[ProfileRow, ...]
    libraries: tuple[ProfileRow, ...]
    threads: tuple[ProfileRow, ...]
    functions: tuple[ProfileRow, ...]
    native: tuple[ProfileRow, ...]
    lines: tuple[ProfileRow, ...]
    too_few: float
    remarks: tuple[str, ...]


class DifferenceRow(msgspec.Struct, frozen=True, kw_only=True):
    """The contribution of one function, library or part to the difference of two targets.

    Attributes:
        ns: CPU time per request in each, in nanoseconds.
        difference_ns: Second minus first.
        low_ns: Lower end of the difference's 95 % interval.
        high_ns: Upper end.
        part: Fraction of the total difference; None if that is too small to divide by.
    """

    name: str
    place: str
    ns: tuple[float, float]
    difference_ns: float
    low_ns: float
    high_ns: float
    part: float | None

    @property
    def is_certain(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low_ns > 0 or self.high_ns < 0


class ProfileDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The difference of two targets by function, library and part; largest first.

    Attributes:
        difference_ns: Measured CPU time per request of the second minus that of the first.
        unexplained_ns: The part of it that is not in functions whose difference is certain.
    """

    first: ProfileSummary
    second: ProfileSummary
    difference_ns: float
    parts: tuple[DifferenceRow, ...]
    libraries: tuple[DifferenceRow, ...]
    functions: tuple[DifferenceRow, ...]
    unexplained_ns: float
