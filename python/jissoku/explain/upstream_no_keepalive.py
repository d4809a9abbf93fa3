"""Each request opens a connection to another process."""

from jissoku.explain.phrasing import format_saving
from jissoku.model.explanation import Finding, Observations, SuggestedDirective

PER_REQUEST_MIN = 0.5


def diagnose(observed: Observations) -> Finding | None:
    """Counts connections that the target opened itself."""
    syscalls = observed.syscalls
    if syscalls is None or syscalls.upstream_connections < PER_REQUEST_MIN * syscalls.requests:
        return None
    return Finding(
        name="upstream-no-keepalive",
        cause="Each request is passed on over a new connection: the hop behind has no keep-alive.",
        evidence=(
            f"{syscalls.upstream_connections / syscalls.requests:.2f} connections per request",
        ),
        falsified_by="kept connections to the server behind, and the same CPU time per request",
        effect=format_saving(
            observed,
            observed.syscall_cost_ns.get("connection", 0.0)
            * syscalls.upstream_connections
            / syscalls.requests,
        ),
        remedy="keep connections to the server behind open",
        directives=(
            SuggestedDirective(program="nginx", directive="proxy_http_version", value="1.1"),
            SuggestedDirective(
                program="nginx", directive="proxy_set_header Connection", value='""'
            ),
            SuggestedDirective(
                program="nginx", directive="keepalive", value="64", block="upstream"
            ),
        ),
    )
