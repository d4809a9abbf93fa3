"""A check of a load generator: scenarios with known behaviour, and expected values."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from jissoku.model.updated import updated

# What is asked of a tool, by name: `connections = 64`.
ToolOptions = dict[str, Any]


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that should be so.

    Attributes:
        of: An expression over what the tool reported and the oracle knows; `{each}` stands for each
            of `each` in turn.
        equals: The truth, an expression; or one of the two bounds instead.
        relative: How far `of` may be from the truth, as a part of it.
        absolute: The same in the value's unit, an expression; the two add up.
        says: A regular expression that the tool's report must contain, instead of a value.
        required: A tool that does not report the value fails; else it is not judged by it.
        graded: False for information only.
        is_timed: Whether it is void where the oracle was late; unsaid, as the check says.
        why: A sentence for who wonders.
    """

    of: str = ""
    each: tuple[str, ...] = ("",)
    equals: str | None = None
    at_least: str | None = None
    at_most: str | None = None
    relative: float = 0.0
    absolute: str = "0"
    says: str | None = None
    required: bool = False
    graded: bool = True
    is_timed: bool | None = None
    why: str = ""


class Disturbance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is done to the tool, or to the clock, while it runs; seconds after its start."""

    stop_at_s: float = 0.0
    stop_for_s: float = 0.0
    clock_step_s: float = 0.0


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run of a tool against one oracle.

    Attributes:
        oracle: Options of `jissoku oracle`.
        ask: Options that the tool must support; else it is not graded.
        wish: Options used if supported.
        long: Replaces parts of `ask` when there is time.
        share_of: Name of an earlier set-up of this check: the rate asked is `share` of what the
            oracle saw there.
        when: `quick` and `long` are of one kind of session only, where a longer sample has other
            values.
        closed: No listener at the address.
        disturb: What happens meanwhile.
        expect: What should be so.
    """

    name: str
    oracle: dict[str, Any] = {}
    ask: ToolOptions
    wish: ToolOptions = {}
    long: ToolOptions = {}
    share_of: str = ""
    share: float = 0.0
    when: Literal["always", "quick", "long"] = "always"
    closed: bool = False
    disturb: Disturbance | None = None
    expect: tuple[Expectation, ...] = ()

    def seconds(self) -> float:
        """How long it will take, roughly."""
        asked = self.ask | self.wish
        return float(asked.get("duration_s") or asked.get("about_s") or 3.0)


class CalibrationCheck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One claim about a load generator.

    Attributes:
        id: As in `C7`.
        why: What goes wrong where it does not hold, and how that is found.
        is_timed: Values are void where the oracle itself was late. A count does not care.
        needs: `clock` for a check that steps the machine's clock.
    """

    id: str
    title: str
    why: str
    is_timed: bool = True
    needs: str = ""
    setup: tuple[Scenario, ...]

    def is_void_if_late(self, expectation: Expectation) -> bool:
        """Whether an expectation is void where the oracle was late."""
        return self.is_timed if expectation.is_timed is None else expectation.is_timed

    def long_variant(self) -> "CalibrationCheck":
        """The same with long samples."""
        longer = (updated(it, ask=it.ask | it.long) for it in self.setup if it.when != "quick")
        return updated(self, setup=tuple(longer))

    def quick_variant(self) -> "CalibrationCheck":
        """The same without what takes long."""
        quick = tuple(it for it in self.setup if it.when != "long")
        return updated(self, setup=quick)


class ScenarioResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a set-up.

    Attributes:
        names: Every value that is known, by its dotted name.
        command: The tool's command line, without anything that belongs to this machine.
        report: The end of what the tool printed.
        code: How it exited; None when it had to be killed.
        account: The oracle's own account; empty where nothing listened.
        foreign: The share of the cores' time that others used meanwhile.
    """

    setup: str
    names: Mapping[str, float]
    command: str
    report: str
    code: int | None
    account: Mapping[str, Any]
    foreign: float = 0.0
