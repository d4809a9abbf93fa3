"""Something is written to a file for each request."""

from jissoku.explain.words import most, saving
from jissoku.model.finding import Finding, Setting
from jissoku.model.observed import Observed

PER_REQUEST_MIN = 0.5


def find(observed: Observed) -> Finding | None:
    """Counts writes to files against requests."""
    calls = observed.calls
    if calls is None or sum(calls.logged.values()) < PER_REQUEST_MIN * calls.requests:
        return None
    per_request = sum(calls.logged.values()) / calls.requests
    return Finding(
        name="access-log",
        cause="A line is written to a file for each request, by a call of its own.",
        evidence=(
            f"{per_request:.2f} writes to files per request",
            *most(calls.logged, calls.requests),
        ),
        refuted_by="the log off or buffered, and the same CPU time per request",
        effect=saving(observed, per_request * observed.prices_ns.get("write", 0.0))
        + "; writing to /dev/null is priced, and a file system takes more",
        remedy="collect lines and write many at once, or write none",
        settings=(Setting(program="nginx", directive="access_log", value="off"),),
    )
