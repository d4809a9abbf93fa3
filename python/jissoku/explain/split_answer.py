"""Head and body are sent in two segments although they would fit into one."""

import statistics

from jissoku.explain import delayed_acknowledgement
from jissoku.explain.phrasing import per_request
from jissoku.model.explanation import Finding, Observations, SuggestedDirective

SENDS = ("write", "writev", "sendto", "sendmsg", "sendfile")


def diagnose(observed: Observations) -> Finding | None:
    """Counts segments per answer, of answers that fit into one segment."""
    wire, syscalls = observed.wire, observed.syscalls
    if wire is None or not wire.segments or wire.answer_size > wire.segment_size:
        return None
    per_answer = statistics.median(wire.segments)
    if per_answer < 2 or delayed_acknowledgement.diagnose(observed) is not None:
        return None
    evidence = [
        (
            f"{per_answer:g} segments for an answer of {wire.answer_size:,} bytes; one holds "
            f"{wire.segment_size:,}"
        )
    ]
    if syscalls is not None:
        sends = [
            f"{per_request(syscalls.counts[name], syscalls.requests)} {name}"
            for name in SENDS
            if syscalls.counts.get(name)
        ]
        evidence.append(f"per request: {', '.join(sends)}")
    return Finding(
        name="split-answer",
        cause="Head and body are sent apart, in two segments where one would do.",
        evidence=tuple(evidence),
        falsified_by="one segment per answer, and the same CPU time per request",
        effect="a send and a segment less per request, on both sides; over a network a packet less",
        remedy="gather head and body into one call (writev(2), MSG_MORE or TCP_CORK)",
        directives=(SuggestedDirective(program="nginx", directive="tcp_nopush", value="on"),),
    )
