"""Each request opens a connection to somebody else."""

from jissoku.explain.words import saving
from jissoku.model.finding import Finding, Setting
from jissoku.model.observed import Observed

PER_REQUEST_MIN = 0.5


def find(observed: Observed) -> Finding | None:
    """Counts connections that the target opened itself."""
    calls = observed.calls
    if calls is None or calls.hops < PER_REQUEST_MIN * calls.requests:
        return None
    return Finding(
        name="proxy-hop",
        cause="Each request is passed on over a new connection: the hop behind has no keep-alive.",
        evidence=(f"{calls.hops / calls.requests:.2f} connections opened per request",),
        refuted_by="kept connections to the server behind, and the same CPU time per request",
        effect=saving(
            observed, observed.prices_ns.get("connection", 0.0) * calls.hops / calls.requests
        ),
        remedy="keep connections to the server behind open",
        settings=(
            Setting(program="nginx", directive="proxy_http_version", value="1.1"),
            Setting(program="nginx", directive="proxy_set_header Connection", value='""'),
            Setting(program="nginx", directive="keepalive", value="64", block="upstream"),
        ),
    )
