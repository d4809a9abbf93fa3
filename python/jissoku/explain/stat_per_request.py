"""The file system is queried for a path on each request."""

from jissoku.explain.open_per_request import PER_REQUEST_MIN
from jissoku.explain.phrasing import format_saving, top_paths
from jissoku.model.explanation import Finding, Observations, SuggestedDirective


def diagnose(observed: Observations) -> Finding | None:
    """Counts file-status calls (stat and similar) per request."""
    syscalls = observed.syscalls
    if (
        syscalls is None
        or sum(syscalls.path_queries.values()) < PER_REQUEST_MIN * syscalls.requests
    ):
        return None
    per_request = sum(syscalls.path_queries.values()) / syscalls.requests
    price = observed.syscall_cost_ns.get("newfstatat", 0.0)
    return Finding(
        name="stat-per-request",
        cause="The file system is queried for a path on each request.",
        evidence=(
            f"{per_request:.2f} lookups per request",
            *top_paths(syscalls.path_queries, syscalls.requests),
        ),
        falsified_by="answers kept for a while, and the same CPU time per request",
        effect=format_saving(observed, per_request * price),
        remedy="cache the result for some time, or watch for changes (inotify(7))",
        directives=(
            SuggestedDirective(
                program="nginx", directive="open_file_cache", value="max=1000 inactive=60s"
            ),
        ),
    )
