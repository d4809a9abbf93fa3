"""A file is opened for each request."""

from jissoku.explain.phrasing import format_saving, top_paths
from jissoku.model.explanation import Finding, Observations, SuggestedDirective

PER_REQUEST_MIN = 0.5


def diagnose(observed: Observations) -> Finding | None:
    """Counts opens per request."""
    syscalls = observed.syscalls
    if syscalls is None or sum(syscalls.opened.values()) < PER_REQUEST_MIN * syscalls.requests:
        return None
    per_request = sum(syscalls.opened.values()) / syscalls.requests
    price = observed.syscall_cost_ns.get("openat", 0.0)
    return Finding(
        name="open-per-request",
        cause="A file is opened anew for each request.",
        evidence=(
            f"{per_request:.2f} successful opens per request",
            *top_paths(syscalls.opened, syscalls.requests),
        ),
        falsified_by="open files kept, and the same CPU time per request",
        effect=format_saving(observed, per_request * price)
        + "; an open and a close are priced here",
        remedy="keep what was opened, or its bytes, and look from time to time whether it changed",
        directives=(
            SuggestedDirective(
                program="nginx", directive="open_file_cache", value="max=1000 inactive=60s"
            ),
        ),
    )
