"""A profile for a terminal: CPU time per request by part, library and function."""

from collections.abc import Iterator, Sequence

import msgspec

from jissoku.model.profile_summary import (
    DifferenceRow,
    ProfileDifference,
    ProfileRow,
    ProfileSummary,
)

FUNCTIONS = 20
OTHERS = 8

# The maximum width of a name; of longer ones the end is shown, by which functions differ.
NAME_WIDTH = 56

Line = tuple[str, ...]


def profile_to_text(summaries: Sequence[ProfileSummary], change: ProfileDifference | None) -> str:
    """One profile after the other, then their difference."""
    lines: list[str] = []
    for summary in summaries:
        lines += [*_profile(summary), ""]
    if change is not None:
        lines += [*_difference(change), ""]
    return "\n".join(lines[:-1]) + "\n"


def profile_to_json(summaries: Sequence[ProfileSummary], change: ProfileDifference | None) -> str:
    """All tables as one JSON object, without the stacks."""
    found = msgspec.to_builtins({"profiles": list(summaries), "difference": change})
    for summary in [*found["profiles"], *_both(found["difference"])]:
        for name in ("frames", "threads", "stacks", "interpreted"):
            del summary["profile"]["samples"][name]
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n"


def _both(change: dict[str, dict[str, object]] | None) -> list[dict[str, dict[str, object]]]:
    return [change["first"], change["second"]] if change else []  # type: ignore[list-item]


def headline(summary: ProfileSummary) -> str:
    """CPU time per request, and the number of samples that divide it."""
    profile = summary.profile
    rate = profile.workload.rate_rps
    text = (
        f"{summary.total_ns / 1e3:,.1f} µs of CPU time per request at {profile.workload.path},"
        f" {rate or 0:,} requests per second; {profile.samples.samples:,} samples"
    )
    if summary.sampled_ns is None:
        return text + "."
    if not profile.samples.sees_kernel:
        return text + f" in user space, which make {summary.sampled_ns / 1e3:,.1f} µs."
    off = summary.sampled_ns / summary.total_ns - 1
    return text + f", which add up to {summary.sampled_ns / 1e3:,.1f} µs ({off:+.1%})."


def row_cells(row: ProfileRow, total_ns: float) -> Line:
    """Time, interval, share, time with callees, name and place."""
    callees = "" if row.ns_with_callees is None else f"{row.ns_with_callees / 1e3:,.2f}"
    return (
        f"{row.ns / 1e3:,.2f}",
        f"[{row.ns_low / 1e3:,.2f} {row.ns_high / 1e3:,.2f}]",
        f"{row.ns / total_ns:.1%}" if total_ns else "",
        callees,
        shortened(row.name),
        row.place,
    )


def difference_cells(row: DifferenceRow) -> Line:
    """Difference, interval, part, both times, name and place."""
    return (
        f"{row.difference_ns / 1e3:+,.2f}",
        f"[{row.low_ns / 1e3:+,.2f} {row.high_ns / 1e3:+,.2f}]",
        "" if row.part is None else f"{row.part:.0%}",
        f"{row.ns[0] / 1e3:,.2f}",
        f"{row.ns[1] / 1e3:,.2f}",
        shortened(row.name) + ("" if row.is_certain else " (not certain)"),
        row.place,
    )


def shortened(name: str) -> str:
    """A name with its beginning cut off."""
    return name if len(name) <= NAME_WIDTH else "…" + name[1 - NAME_WIDTH :]


def _profile(summary: ProfileSummary) -> Iterator[str]:
    profile = summary.profile
    yield f"{profile.target} ({profile.version}): {headline(summary)}"
    for remark in summary.remarks:
        yield f"  {remark}"
    total = summary.total_ns
    head = ("µs", "95 % interval", "share", "with callees")
    functions = [row_cells(row, total) for row in summary.functions[:FUNCTIONS] if row.ns]
    yield ""
    yield from _table((*head, "function", "library"), functions)
    if summary.too_few:
        yield f"  Functions with fewer than ten samples each: {summary.too_few / 1e3:,.2f} µs."
    for name, rows in (
        ("kernel and user space", summary.parts),
        ("library", summary.libraries),
        ("thread", summary.threads),
        ("source line", summary.lines),
        ("native function", summary.native),
    ):
        shown = [row_cells(row, total) for row in rows[:OTHERS] if row.ns]
        if shown:
            yield ""
            place = {"thread": "process", "source line": "function"}.get(name, "library")
            yield from _table((*head, name, place), shown)


def _difference(change: ProfileDifference) -> Iterator[str]:
    first, second = change.first.profile.target, change.second.profile.target
    yield difference_sentence(change)
    head = ("µs", "95 % interval", "part", first, second)
    for name, rows, count in (
        ("function", change.functions, FUNCTIONS),
        ("library", change.libraries, OTHERS),
        ("kernel and user space", change.parts, FUNCTIONS),
    ):
        yield ""
        place = "library" if name == "function" else ""
        yield from _table((*head, name, place), [difference_cells(row) for row in rows[:count]])


def difference_sentence(change: ProfileDifference) -> str:
    """The difference of CPU time per request, and the part that no function explains."""
    first, second = change.first.profile.target, change.second.profile.target
    more = "more" if change.difference_ns >= 0 else "less"
    return (
        f"{second} uses {abs(change.difference_ns) / 1e3:,.1f} µs {more} CPU time per request than"
        f" {first}. Functions whose difference is certain leave"
        f" {change.unexplained_ns / 1e3:+,.1f} µs of that unexplained."
    )


def _table(head: Line, rows: Sequence[Line]) -> Iterator[str]:
    """Figures to the right, names to the left; empty columns are left out."""
    used = [i for i in range(len(head)) if any(row[i] for row in rows)]
    cells = [[row[i] for i in used] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(used))]
    texts = len([i for i in used if i >= len(head) - 2])
    for row in cells:
        figures = len(row) - texts
        words = [
            cell.rjust(width) if index < figures else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield ("  " + "  ".join(words)).rstrip()
