"""The second part of an answer waits until the first has been acknowledged, and that is delayed."""

import statistics

from jissoku.explain.words import micro
from jissoku.model.finding import Finding, Setting
from jissoku.model.observed import Observed

# Linux delays an acknowledgement by 40 ms at the least (TCP_DELACK_MIN).
STALL_NS = 30_000_000
STALLED_MIN = 0.25

# Without the delay the answers must be this many times faster; else something else takes the time.
FASTER = 3


def find(observed: Observed) -> Finding | None:
    """Compares a client that acknowledges when it likes with one that does so at once."""
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
                f"{micro(statistics.median(stalled))}, the kernel's delay of an acknowledgement"
            ),
            f"a client that acknowledges at once waited {micro(prompt)}",
            (
                f"{statistics.median(wire.segments):g} segments for an answer of "
                f"{wire.answer_size:,} bytes"
            ),
        ),
        refuted_by="the same stall with TCP_NODELAY, or in answers of one segment",
        effect=f"a lone request takes {micro(prompt)} instead of {micro(stall)}",
        remedy="send the answer with one call, and set TCP_NODELAY",
        settings=(
            Setting(program="nginx", directive="tcp_nodelay", value="on"),
            Setting(program="nginx", directive="tcp_nopush", value="on"),
        ),
    )
