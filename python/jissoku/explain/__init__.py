"""From observations to causes: rules, each a pure function that returns one finding or none."""

from collections.abc import Callable

from jissoku.explain import (
    accept_queue_overflow,
    access_log,
    avoidable_syscalls,
    coarse_timers,
    connection_close,
    debug_build,
    delayed_acknowledgement,
    generator_bound,
    idle_cores,
    interpreter_bound,
    kernel_threads,
    linear_timers,
    memory_per_connection,
    open_per_request,
    queueing,
    split_answer,
    stat_per_request,
    thundering_herd,
    upstream_no_keepalive,
)
from jissoku.explain.config_diff import diff
from jissoku.explain.cpu_causes import CPU_CAUSES
from jissoku.model.explanation import Finding, Observations

__all__ = ["RULES", "diff", "findings"]

Rule = Callable[[Observations], Finding | None]

# The causes that usually cost most come first.
RULES: tuple[Rule, ...] = (
    debug_build.diagnose,
    idle_cores.diagnose,
    delayed_acknowledgement.diagnose,
    connection_close.diagnose,
    upstream_no_keepalive.diagnose,
    *(cause.diagnose for cause in CPU_CAUSES),
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
    """All causes that the observations support, those that usually cost most first."""
    return tuple(finding for rule in RULES if (finding := rule(observed)) is not None)
