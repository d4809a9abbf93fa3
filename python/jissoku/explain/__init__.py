"""From observations to causes, and the settings of servers that remove them."""

from jissoku.explain.causes import CAUSES, cpu_findings
from jissoku.explain.rules import RULES
from jissoku.explain.settings import server_of, setting
from jissoku.model.explanation import Finding, Observations
from jissoku.model.updated import updated

# Causes whose cost grows with the answer.
OF_BYTES = frozenset(
    ("compression-per-request", "json-per-request", "template-per-request", "tls-encryption")
)


def findings(observed: Observations, server: str = "") -> tuple[Finding, ...]:
    """All causes that the observations support, those that usually cost most first."""
    found = {finding.name: finding for finding in cpu_findings(observed.profile)}
    if observed.wire is not None:
        size = f"an answer has {observed.wire.answer_size:,} bytes"
        for name in OF_BYTES & found.keys():
            found[name] = updated(found[name], evidence=(*found[name].evidence, size))
    for rule in RULES:
        if (seen := rule(observed)) is not None:
            beside = found.get(seen.name)
            evidence = () if beside is None else beside.evidence
            found[seen.name] = updated(seen, evidence=(*seen.evidence, *evidence))
    server = server or server_of(observed.load.processes if observed.load is not None else ())
    ordered = [found[name] for name in CAUSES if name in found]
    return tuple(updated(one, setting=setting(one.name, server)) for one in ordered)
