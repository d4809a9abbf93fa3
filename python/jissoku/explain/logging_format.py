"""Lines of a log are made for each request."""

from jissoku.explain.cpu_share import Signature, Wording, cpu_cause
from jissoku.model.finding import Finding, SuggestedDirective
from jissoku.model.observed import Observations

SIGNATURE = Signature(
    functions=r"ngx_http_log_\w+|callHandlers|makeRecord|findCaller|log\.\(\*Logger\)\S+"
    r"|log/slog\.\S+|(tracing_subscriber::fmt|env_logger|fern|slog)::\S+|v?syslog|__vsyslog\w*"
    r"|spdlog::\S+|log_message|log_request",
    share_min=0.08,
)

WORDING = Wording(
    name="logging-format",
    cause="A line of a log is made for each request.",
    falsified_by="the log off, and the same CPU time per request",
    remedy="log less per request, check the level before the line is made, or write lines from a"
    " queue",
    directives=(SuggestedDirective(program="nginx", directive="access_log", value="off"),),
)


def diagnose(observed: Observations) -> Finding | None:
    """Looks for logging libraries on the stacks."""
    return cpu_cause(observed, SIGNATURE, WORDING)
