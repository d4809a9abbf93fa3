"""An idle connection uses much memory."""

from jissoku.model.explanation import Finding, Observations

BYTES_MAX = 32 * 1024


def diagnose(observed: Observations) -> Finding | None:
    """Divides the memory that idle connections added by their number."""
    memory = observed.memory
    if memory is None or not memory.connections:
        return None
    each = (memory.rss_bytes_after - memory.rss_bytes_before) / memory.connections
    if each < BYTES_MAX:
        return None
    return Finding(
        name="memory-per-connection",
        cause="An idle connection holds much memory.",
        evidence=(
            (
                f"{each / 1024:,.0f} KiB for each of {memory.connections} connections that had "
                "asked once and said nothing since"
            ),
        ),
        falsified_by="memory that stays when the connections have gone, and serves the next ones",
        effect=f"{each * 10_000 / 1024**2:,.0f} MiB less for ten thousand idle connections",
        remedy="give buffers back between requests",
    )
