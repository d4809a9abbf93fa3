"""A file is opened for each request."""

from jissoku.explain.words import most, saving
from jissoku.model.finding import Finding, Setting
from jissoku.model.observed import Observed

PER_REQUEST_MIN = 0.5


def find(observed: Observed) -> Finding | None:
    """Counts opens against requests."""
    calls = observed.calls
    if calls is None or sum(calls.opened.values()) < PER_REQUEST_MIN * calls.requests:
        return None
    per_request = sum(calls.opened.values()) / calls.requests
    price = observed.prices_ns.get("openat", 0.0)
    return Finding(
        name="open-per-request",
        cause="A file is opened anew for each request.",
        evidence=(
            f"{per_request:.2f} successful opens per request",
            *most(calls.opened, calls.requests),
        ),
        refuted_by="open files kept, and the same CPU time per request",
        effect=saving(observed, per_request * price) + "; an open and a close are priced here",
        remedy="keep what was opened, or its bytes, and look from time to time whether it changed",
        settings=(
            Setting(program="nginx", directive="open_file_cache", value="max=1000 inactive=60s"),
        ),
    )
