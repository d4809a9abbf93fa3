"""Connections are ended after few answers, so that each costs its part of a new one."""

from jissoku.explain.words import saving
from jissoku.model.finding import Finding, Setting
from jissoku.model.observed import Observed

# A connection costs a few requests; after more answers than this its part is lost in the noise.
ANSWERS_MAX = 100


def find(observed: Observed) -> Finding | None:
    """Looks after how many answers a connection ended."""
    wire, calls = observed.wire, observed.calls
    if wire is None or wire.answers_until_close is None:
        return None
    count = wire.answers_until_close
    if count > ANSWERS_MAX:
        return None
    evidence = [f"a connection ended after {count} {'answer' if count == 1 else 'answers'}"]
    if calls is not None:
        evidence.append(
            f"{calls.connections} new connections for {calls.requests} requests under the trace"
        )
    never = "Keep-alive is off: each connection ends with its first answer."
    return Finding(
        name="connection-closed",
        cause=never if count == 1 else f"Each connection is ended after {count} answers.",
        evidence=tuple(evidence),
        refuted_by="connections that stay open, and the same CPU time per request",
        effect=saving(observed, observed.prices_ns.get("connection", 0.0) / count)
        + "; a connection is priced with both its ends",
        remedy="keep connections open, and let only time limits end them",
        settings=(
            Setting(program="nginx", directive="keepalive_requests", value="100000"),
            Setting(program="nginx", directive="keepalive_timeout", value="75s"),
        ),
    )
