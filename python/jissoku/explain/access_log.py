"""Something is written to a file for each request."""

from jissoku.explain.phrasing import format_saving, top_paths
from jissoku.model.explanation import Finding, Observations, SuggestedDirective

PER_REQUEST_MIN = 0.5


def diagnose(observed: Observations) -> Finding | None:
    """Counts writes to files per request."""
    syscalls = observed.syscalls
    if syscalls is None or sum(syscalls.logged.values()) < PER_REQUEST_MIN * syscalls.requests:
        return None
    per_request = sum(syscalls.logged.values()) / syscalls.requests
    return Finding(
        name="access-log",
        cause="A line is written to a file for each request, by a call of its own.",
        evidence=(
            f"{per_request:.2f} writes to files per request",
            *top_paths(syscalls.logged, syscalls.requests),
        ),
        falsified_by="the log off or buffered, and the same CPU time per request",
        effect=format_saving(observed, per_request * observed.syscall_cost_ns.get("write", 0.0))
        + "; writing to /dev/null is priced, and a file system takes more",
        remedy="collect lines and write many at once, or write none",
        directives=(SuggestedDirective(program="nginx", directive="access_log", value="off"),),
    )
