"""The file system is asked about a path for each request."""

from jissoku.explain.open_per_request import PER_REQUEST_MIN
from jissoku.explain.words import most, saving
from jissoku.model.finding import Finding, Setting
from jissoku.model.observed import Observed


def find(observed: Observed) -> Finding | None:
    """Counts questions about paths against requests."""
    calls = observed.calls
    if calls is None or sum(calls.looked_up.values()) < PER_REQUEST_MIN * calls.requests:
        return None
    per_request = sum(calls.looked_up.values()) / calls.requests
    price = observed.prices_ns.get("newfstatat", 0.0)
    return Finding(
        name="stat-per-request",
        cause="The file system is asked about a path for each request.",
        evidence=(
            f"{per_request:.2f} lookups per request",
            *most(calls.looked_up, calls.requests),
        ),
        refuted_by="answers kept for a while, and the same CPU time per request",
        effect=saving(observed, per_request * price),
        remedy="believe what was found for a while, or be told of changes (inotify(7))",
        settings=(
            Setting(program="nginx", directive="open_file_cache", value="max=1000 inactive=60s"),
        ),
    )
