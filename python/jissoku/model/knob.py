"""A knob: one setting of a target, and the expected effect of switching it."""

from enum import StrEnum

import msgspec


class ChangeKind(StrEnum):
    """Kind of a change."""

    DIRECTIVE = "directive"  # sets a directive of an nginx configuration wherever it occurs
    APPEND = "append"  # adds words to a directive of an nginx configuration that does not have them
    MISSING = "missing"  # adds a directive to its block, unless it is set already
    LISTEN = "listen"  # adds a parameter once to each TCP address that nginx listens at
    LINE = "line"  # replaces lines of a HAProxy configuration, or adds one to their section
    UPSTREAM = "upstream"  # keeps this many idle connections to upstream blocks
    ENVIRONMENT = "environment"  # sets a variable of the target's environment
    ARGUMENT = (
        "argument"  # a flag of the command that starts the target: its value, or added to the end
    )


class Direction(StrEnum):
    """Expected direction of a knob's counter."""

    FALLS = "falls"
    RISES = "rises"


class Objective(StrEnum):
    """The metric that a knob should reduce."""

    COST = "CPU per request"
    RATE = "time per answer at full load"  # with all cores, which the load generator shares


class KnobChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a knob.

    Attributes:
        name: Of the directive or the variable; empty if the kind implies it. Of lines the first
            words, with `|` between alternatives.
        value: Of lines the new one; empty removes them.
        where: The block for a directive that does not occur yet: main, events, http. The section
            for a line: global, defaults.
        default: The value of a missing directive, which then need not be set to it.
    """

    kind: ChangeKind
    value: str
    name: str = ""
    where: str = "http"
    default: str = ""


class Knob(msgspec.Struct, frozen=True, kw_only=True):
    """A knob, as a recipe describes it.

    Attributes:
        why: Its saving, and its price.
        counter: The counter that should change, per request: a system call by its name, or one of
            `connections`, `segments` and `bytes`, or `user_us`, microseconds outside the kernel; or
            `cores`, the number of busy cores, or `migrations`, core migrations of threads per
            second.
        change: The changes, made together.
        for_findings: Names of the findings that it remedies; `jissoku explain --verify` tries it
            for these.
        workers_min: It has no effect with fewer workers.
        needs: A directive of nginx, with its words (`gzip on`) or without (`ssl_certificate`),
            without which the knob has no effect.
    """

    name: str
    why: str
    counter: str
    change: tuple[KnobChange, ...]
    direction: Direction = Direction.FALLS
    for_findings: tuple[str, ...] = ()
    objective: Objective = Objective.COST
    workers_min: int = 1
    needs: str = ""

    @property
    def counter_unit(self) -> str:
        """The unit of its counter: per request, per second or a number of cores."""
        return {"cores": "in all", "migrations": "a second"}.get(self.counter, "per request")
