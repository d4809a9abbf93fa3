"""The second part of a response waits for a delayed acknowledgement of the first."""

import statistics

from jissoku.explain.phrasing import format_time
from jissoku.model.explanation import Finding, Observations, SuggestedDirective

# Linux delays an acknowledgement by 40 ms at the least (TCP_DELACK_MIN).
STALL_NS = 30_000_000
STALLED_MIN = 0.25

# Without the delay latency must be lower by this factor; else the delay is not the cause.
FASTER = 3


def diagnose(observed: Observations) -> Finding | None:
    """Compares a client that delays acknowledgements with one that sends them immediately."""
    wire = observed.wire
    if wire is None or not wire.latency_ns_acknowledged or not wire.segments:
        return None
    stalled = [ns for ns in wire.latency_ns if ns >= STALL_NS]
    if len(stalled) < STALLED_MIN * len(wire.latency_ns):
        return None
    prompt = statistics.median(wire.latency_ns_acknowledged)
    if prompt * FASTER > statistics.median(stalled) or statistics.median(wire.segments) < 2:
        return None
    stall = statistics.median(stalled)
    return Finding(
        name="delayed-acknowledgement",
        cause="Part of each answer waits for an acknowledgement that the client delays: Nagle's "
        "algorithm is on, and head and body are sent apart.",
        evidence=(
            (
                f"{len(stalled)} of {len(wire.latency_ns)} lone answers took "
                f"{format_time(statistics.median(stalled))}, the kernel's delay of an"
                f" acknowledgement"
            ),
            f"a client that acknowledges at once waited {format_time(prompt)}",
            (
                f"{statistics.median(wire.segments):g} segments for an answer of "
                f"{wire.answer_size:,} bytes"
            ),
        ),
        falsified_by="the same stall with TCP_NODELAY, or in answers of one segment",
        effect=f"a lone request takes {format_time(prompt)} instead of {format_time(stall)}",
        remedy="send the answer with one call, and set TCP_NODELAY",
        directives=(
            SuggestedDirective(program="nginx", directive="tcp_nodelay", value="on"),
            SuggestedDirective(program="nginx", directive="tcp_nopush", value="on"),
        ),
    )
