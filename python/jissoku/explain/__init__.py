"""From observations to causes: one rule per file, each a pure function to one finding or none."""

from collections.abc import Callable

from jissoku.explain import (
    accept_queue_overflow,
    access_log,
    allocation,
    avoidable_syscalls,
    coarse_timers,
    compression_per_request,
    connection_close,
    copying,
    date_formatting,
    debug_build,
    delayed_acknowledgement,
    exceptions,
    garbage_collection,
    generator_bound,
    hashing,
    idle_cores,
    interpreter_bound,
    json_per_request,
    kernel_threads,
    linear_timers,
    lock_contention,
    logging_format,
    memory_per_connection,
    name_lookup,
    open_per_request,
    queueing,
    regular_expressions,
    split_answer,
    stat_per_request,
    template_per_request,
    thundering_herd,
    tls_handshakes,
    upstream_no_keepalive,
)
from jissoku.explain.config_diff import diff
from jissoku.model.finding import Finding
from jissoku.model.observed import Observations

__all__ = ["RULES", "diff", "findings"]

Rule = Callable[[Observations], Finding | None]

# What usually weighs most comes first.
RULES: tuple[Rule, ...] = (
    debug_build.diagnose,
    idle_cores.diagnose,
    delayed_acknowledgement.diagnose,
    connection_close.diagnose,
    upstream_no_keepalive.diagnose,
    compression_per_request.diagnose,
    tls_handshakes.diagnose,
    regular_expressions.diagnose,
    json_per_request.diagnose,
    template_per_request.diagnose,
    name_lookup.diagnose,
    hashing.diagnose,
    logging_format.diagnose,
    date_formatting.diagnose,
    exceptions.diagnose,
    garbage_collection.diagnose,
    allocation.diagnose,
    lock_contention.diagnose,
    copying.diagnose,
    interpreter_bound.diagnose,
    open_per_request.diagnose,
    stat_per_request.diagnose,
    access_log.diagnose,
    linear_timers.diagnose,
    coarse_timers.diagnose,
    split_answer.diagnose,
    avoidable_syscalls.diagnose,
    thundering_herd.diagnose,
    memory_per_connection.diagnose,
    accept_queue_overflow.diagnose,
    queueing.diagnose,
    generator_bound.diagnose,
    kernel_threads.diagnose,
)


def findings(observed: Observations) -> tuple[Finding, ...]:
    """All causes that what was seen speaks for, those that usually weigh most first."""
    return tuple(finding for rule in RULES if (finding := rule(observed)) is not None)
