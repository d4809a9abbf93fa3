"""Figures in sentences, and what a saving is worth beside all a request costs."""

from jissoku.model.observed import Observed

# Below this a figure in microseconds would read as 0.0.
LEAST_NS = 100


def micro(ns: float) -> str:
    """Nanoseconds as microseconds, or as milliseconds where those are easier to read."""
    return f"{ns / 1e6:,.1f} ms" if ns >= 1e6 else f"{ns / 1e3:,.1f} µs"


def little(ns: float) -> str:
    """The same of what may be next to nothing, which is not none."""
    return micro(ns) if ns >= LEAST_NS else f"less than {micro(LEAST_NS)}"


def each(count: float, requests: int) -> str:
    """How often something happened per request."""
    return f"{count / requests:,.2f}"


def most(paths: dict[str, int], requests: int, rows: int = 3) -> tuple[str, ...]:
    """The paths that were met most, each with how often per request."""
    ranked = sorted(paths.items(), key=lambda item: (-item[1], item[0]))
    return tuple(f"{path}: {each(count, requests)} per request" for path, count in ranked[:rows])


def saving(observed: Observed, ns: float) -> str:
    """What a saving of so many nanoseconds per request would be worth at the most."""
    cost = observed.load.cpu_ns_per_request if observed.load is not None else None
    if not ns:
        return "not priced on this machine"
    if not cost:
        return f"at most {micro(ns)} of CPU time per request"
    share = min(1, ns / cost)
    return f"at most {micro(ns)} of the {micro(cost)} of CPU time per request ({share:.0%})"
