"""Head and body leave in two segments although they would fit in one."""

import statistics

from jissoku.explain import delayed_acknowledgement
from jissoku.explain.words import each
from jissoku.model.finding import Finding, Setting
from jissoku.model.observed import Observed

SENDS = ("write", "writev", "sendto", "sendmsg", "sendfile")


def find(observed: Observed) -> Finding | None:
    """Counts segments per answer; one that does not fit in a single segment says nothing."""
    wire, calls = observed.wire, observed.calls
    if wire is None or not wire.segments or wire.answer_size > wire.segment_size:
        return None
    per_answer = statistics.median(wire.segments)
    if per_answer < 2 or delayed_acknowledgement.find(observed) is not None:
        return None
    evidence = [
        (
            f"{per_answer:g} segments for an answer of {wire.answer_size:,} bytes; one holds "
            f"{wire.segment_size:,}"
        )
    ]
    if calls is not None:
        sends = [
            f"{each(calls.counts[name], calls.requests)} {name}"
            for name in SENDS
            if calls.counts.get(name)
        ]
        evidence.append(f"per request: {', '.join(sends)}")
    return Finding(
        name="split-answer",
        cause="Head and body are sent apart, in two segments where one would do.",
        evidence=tuple(evidence),
        refuted_by="one segment per answer, and the same CPU time per request",
        effect="a send and a segment less per request, on both sides; over a network a packet less",
        remedy="gather head and body into one call (writev(2), MSG_MORE or TCP_CORK)",
        settings=(Setting(program="nginx", directive="tcp_nopush", value="on"),),
    )
