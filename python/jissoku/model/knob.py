"""A knob: one setting of a target, and the expected effect of switching it."""

from enum import StrEnum

import msgspec


class ChangeKind(StrEnum):
    """Kind of a change."""

    DIRECTIVE = "directive"  # sets a directive of an nginx configuration, wherever it stands
    APPEND = "append"  # adds words to a directive of an nginx configuration that has them not yet
    MISSING = "missing"  # puts a directive into its block, unless it is set already
    LISTEN = "listen"  # adds a parameter once to each TCP address that nginx listens at
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
        name: Of the directive or the variable; empty where there is only one that it can be.
        where: The block that a directive is set in when it stands nowhere yet: main, events, http.
        default: What a directive is where it stands nowhere; then it need not be set to that.
    """

    kind: ChangeKind
    value: str
    name: str = ""
    where: str = "http"
    default: str = ""


class Knob(msgspec.Struct, frozen=True, kw_only=True):
    """A knob, as a recipe describes it.

    Attributes:
        why: What it saves, and what is given up for it.
        counter: What should move with it, per request: a system call by its name, or one of
            `connections`, `segments` and `bytes`, or `user_us`, microseconds outside the kernel;
            or `cores`, those that the target kept busy, or `migrations`, how often a second its
            threads changed cores.
        change: All that is changed together.
        for_findings: Names of the findings that it answers; `jissoku explain --verify` tries it
            then.
        workers_min: With fewer workers there is nothing that it could do.
        needs: A directive of nginx with its words, such as `gzip on`; where it is not set, there is
            nothing that the knob could do.
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
        """What its counter is counted by."""
        return {"cores": "in all", "migrations": "a second"}.get(self.counter, "per request")
