"""Connections are closed after few responses, so that each bears part of the cost of a new one."""

from jissoku.explain.phrasing import format_saving
from jissoku.model.explanation import Finding, Observations, SuggestedDirective
from jissoku.model.wording import plural

# A connection costs as much as a few requests; spread over more answers it is below the noise.
ANSWERS_MAX = 100


def diagnose(observed: Observations) -> Finding | None:
    """Checks after how many answers connections ended."""
    wire, syscalls = observed.wire, observed.syscalls
    if wire is None or wire.answers_until_close is None:
        return None
    count = wire.answers_until_close
    if count > ANSWERS_MAX:
        return None
    evidence = [f"a connection ended after {count} {plural(count, 'answer')}"]
    if syscalls is not None:
        evidence.append(
            f"{syscalls.connections} new {plural(syscalls.connections, 'connection')} for"
            f" {syscalls.requests} {plural(syscalls.requests, 'request')} under the trace"
        )
    never = "Keep-alive is off: each connection ends with its first answer."
    return Finding(
        name="connection-closed",
        cause=never if count == 1 else f"Each connection is ended after {count} answers.",
        evidence=tuple(evidence),
        falsified_by="connections that stay open, and the same CPU time per request",
        effect=format_saving(observed, observed.syscall_cost_ns.get("connection", 0.0) / count)
        + "; a connection is priced with both its ends",
        remedy="keep connections open, and let only time limits end them",
        directives=(
            SuggestedDirective(program="nginx", directive="keepalive_requests", value="100000"),
            SuggestedDirective(program="nginx", directive="keepalive_timeout", value="75s"),
        ),
    )
