"""From what was seen to causes: a rule per file, each a pure function to one cause or none."""

from collections.abc import Callable

from jissoku.explain import (
    access_log,
    closes,
    coarse_timers,
    debug_build,
    delayed_acknowledgement,
    generator_bound,
    herd,
    interpreter,
    kernel_threads,
    linear_timers,
    memory_per_connection,
    needless_calls,
    open_per_request,
    overflow,
    proxy_hop,
    queueing,
    split_answer,
    stat_per_request,
    workers,
)
from jissoku.explain.remedy import diff
from jissoku.model.finding import Finding
from jissoku.model.observed import Observed

__all__ = ["RULES", "diff", "findings"]

Rule = Callable[[Observed], Finding | None]

# What usually weighs most comes first.
RULES: tuple[Rule, ...] = (
    debug_build.find,
    workers.find,
    delayed_acknowledgement.find,
    closes.find,
    proxy_hop.find,
    interpreter.find,
    open_per_request.find,
    stat_per_request.find,
    access_log.find,
    linear_timers.find,
    coarse_timers.find,
    split_answer.find,
    needless_calls.find,
    herd.find,
    memory_per_connection.find,
    overflow.find,
    queueing.find,
    generator_bound.find,
    kernel_threads.find,
)


def findings(observed: Observed) -> tuple[Finding, ...]:
    """All causes that what was seen speaks for, those that usually weigh most first."""
    return tuple(finding for rule in RULES if (finding := rule(observed)) is not None)
