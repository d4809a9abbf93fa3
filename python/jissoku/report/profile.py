"""A profile for a terminal, as a page, and for other tools: CPU time per request by function."""

import base64
import gzip
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from jissoku.model import profile as model
from jissoku.model.wording import micro_cell, micro_text, plural
from jissoku.report import page
from jissoku.report.format import Table

FUNCTIONS = 20
OTHERS = 8
TREE_ROWS = 40
HEAD = ("µs", "95 % interval", "share", "with callees")
TREE_HEAD = ("with callees", "share", "µs", "function below its caller", "library")

# The maximum width of a name; of longer ones the end is shown, by which functions differ.
NAME_WIDTH = 56

Line = tuple[str, ...]
Stack = tuple[str, ...]


def profile_to_text(
    summaries: Sequence[model.ProfileSummary],
    change: model.ProfileDifference | None,
    sort: str = "self",
) -> str:
    """One profile after the other, then their difference; functions by `self` or `total` time."""
    parts = [_profile(summary, sort) for summary in summaries]
    parts += [_difference(change)] if change else []
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def profile_to_json(
    summaries: Sequence[model.ProfileSummary], change: model.ProfileDifference | None
) -> str:
    """All tables as one JSON object, without the stacks."""
    found = msgspec.to_builtins({"profiles": list(summaries), "difference": change})
    difference = found["difference"]
    both = [difference["first"], difference["second"]] if difference else []
    for summary in [*found["profiles"], *both]:
        for name in ("frames", "threads", "stacks", "interpreted"):
            del summary["profile"]["samples"][name]
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n"


def headline(summary: model.ProfileSummary) -> str:
    profile = summary.profile
    rate = profile.workload.rate_rps or 0
    asked = "" if profile.is_reached else f"{profile.answered_rps:,.0f} of "
    text = (
        f"{micro_text(summary.total_ns)} of CPU time per request at {profile.workload.path},"
        f" {asked}{rate:,} {plural(rate, 'request')} per second; {profile.samples.samples:,}"
        f" {plural(profile.samples.samples, 'sample')}"
    )
    if summary.sampled_ns is None:
        return text + "."
    if not profile.samples.sees_kernel:
        return text + f" in user space, which make {micro_text(summary.sampled_ns)}."
    off = summary.sampled_ns / summary.total_ns - 1
    return text + f", which add up to {micro_text(summary.sampled_ns)} ({off:+.1%})."


def row_cells(row: model.ProfileRow, total_ns: float) -> Line:
    """Time, interval, share, time with callees, name and place."""
    callees = "" if row.ns_with_callees is None else micro_cell(row.ns_with_callees)
    return (
        micro_cell(row.ns),
        f"[{micro_cell(row.ns_low)} {micro_cell(row.ns_high)}]",
        f"{row.ns / total_ns:.1%}" if total_ns else "",
        callees,
        shortened(row.name),
        row.place,
    )


def difference_cells(row: model.DifferenceRow) -> Line:
    """Difference, interval, part, both times, name and place."""
    return (
        f"{micro_cell(row.difference_ns, '+,.2f')}",
        f"[{micro_cell(row.low_ns, '+,.2f')} {micro_cell(row.high_ns, '+,.2f')}]",
        "" if row.part is None else f"{row.part:.0%}",
        *map(_known, row.ns, row.ns_high, row.samples),
        shortened(row.name) + ("" if row.is_certain else " (not certain)"),
        row.place,
    )


def _known(ns: float, ns_high: float, samples: int) -> str:
    """A time, or where it has too few samples for one, what it is less than."""
    return micro_cell(ns) if samples >= model.SAMPLES_MIN else f"< {micro_cell(ns_high)}"


def shortened(name: str) -> str:
    return name if len(name) <= NAME_WIDTH else "…" + name[1 - NAME_WIDTH :]


def tree_cells(row: model.TreeRow, total_ns: float) -> Line:
    """Time with callees, its share, own time, name below its caller and place."""
    return (
        micro_cell(row.ns_with_callees),
        f"{row.ns_with_callees / total_ns:.1%}" if total_ns else "",
        micro_cell(row.ns),
        # Spaces that no page joins.
        "\u00a0\u00a0" * row.depth + shortened(row.name),
        row.place,
    )


def _profile(summary: model.ProfileSummary, sort: str) -> Iterator[str]:
    profile = summary.profile
    yield f"{profile.target} ({profile.version}): {headline(summary)}"
    for remark in summary.remarks:
        yield f"  {remark}"
    total = summary.total_ns
    ordered = sorted(summary.functions, key=lambda row: -_sorted_by(row, sort))
    least = 0 if sort == "total" else model.SAMPLES_MIN
    functions = [row for row in ordered if row.samples >= least]
    too_few = summary.too_few + sum(row.ns for row in ordered if row.samples < least)
    yield ""
    yield from _table(
        (*HEAD, "function", "library"),
        [row_cells(row, total) for row in functions[:FUNCTIONS] if _sorted_by(row, sort)],
    )
    if too_few:
        yield f"  Functions with fewer than ten samples each: {micro_text(too_few, ',.2f')}."
    yield ""
    yield from _table(TREE_HEAD, [tree_cells(row, total) for row in summary.tree[:TREE_ROWS]])
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
            yield from _table((*HEAD, name, place), shown)


def _sorted_by(row: model.ProfileRow, sort: str) -> float:
    return row.ns if sort == "self" else row.ns_with_callees or 0.0


def _difference(change: model.ProfileDifference) -> Iterator[str]:
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


def verdict(
    summaries: Sequence[model.ProfileSummary], change: model.ProfileDifference | None
) -> str:
    """What was found, in a line: the difference, or where most of the time goes."""
    if change is not None:
        return difference_sentence(change)
    (one,) = summaries
    text = f"{one.profile.target}: {micro_text(one.total_ns)} of CPU time per request"
    top = max(one.functions, key=lambda row: row.ns, default=None)
    if top is None or top.samples < model.SAMPLES_MIN or not one.total_ns:
        return f"{text}."
    return f"{text}, {top.ns / one.total_ns:.0%} of it in {top.name}."


def difference_sentence(change: model.ProfileDifference) -> str:
    """The difference of CPU time per request, and the part that no function explains."""
    first, second = change.first.profile.target, change.second.profile.target
    more = "more" if change.difference_ns >= 0 else "less"
    return (
        f"{second} uses {micro_text(abs(change.difference_ns))} {more} CPU time per request than"
        f" {first}. Functions whose difference is certain leave"
        f" {micro_text(change.unexplained_ns, '+,.1f')} of that unexplained."
    )


def _table(head: Line, rows: Sequence[Line]) -> Iterator[str]:
    """Figures to the right, names to the left; empty columns are left out."""
    used = [i for i in range(len(head)) if any(row[i] for row in rows)]
    widths = {i: max(len(row[i]) for row in (head, *rows)) for i in used}
    for row in (head, *rows):
        words = [
            row[i].rjust(widths[i]) if i < len(head) - 2 else row[i].ljust(widths[i]) for i in used
        ]
        yield ("  " + "  ".join(words)).rstrip()


# Unit of weights, so that stacks below a nanosecond per request do not vanish by rounding.
SCALE = 1000


# Profiles for other tools: collapsed stacks, and pprof. Weights are nanoseconds of CPU time per
# request, so that two profiles can be compared independently of their rates and lengths. The pprof
# format is `profile.proto` of github.com/google/pprof, written here field by field (protobuf:
# varints and length-delimited fields).


def collapsed(profile: model.Profile) -> str:
    """Lines `program;thread;outer;inner WEIGHT`, in thousandths of nanoseconds per request."""
    return _lines(_weights(profile, interpreted=False))


def collapsed_interpreted(profile: model.Profile) -> str:
    """The same of interpreted functions; empty where no interpreter was read."""
    return _lines(_weights(profile, interpreted=True)) if profile.samples.interpreted else ""


def collapsed_difference(first: model.Profile, second: model.Profile) -> str:
    """Lines `outer;inner FIRST SECOND`, as differential flame graphs take them."""
    both = bool(first.samples.interpreted and second.samples.interpreted)
    merged = Counter[Stack](), Counter[Stack]()
    for profile, weights in zip((first, second), merged, strict=True):
        for stack, weight in _weights(profile, interpreted=both).items():
            # Without program and thread, whose names differ between two targets.
            weights[stack[2:] or stack] += weight
    left, right = merged
    keys = sorted(set(left) | set(right))
    return "".join(f"{';'.join(key)} {left[key]} {right[key]}\n" for key in keys)


def pprof(profile: model.Profile) -> bytes:
    """A compressed pprof profile: samples, and CPU time in nanoseconds, of the whole window."""
    samples = profile.samples
    # Tables that grow while samples are written.
    strings, locations = {"": 0}, dict[int, int]()
    functions: dict[tuple[str, str], int] = {}

    def string(text: str) -> int:
        return strings.setdefault(text, len(strings))

    period_ns = samples.period if samples.clock == "cpu-time" else 1
    count = _message((1, string("samples")), (2, string("count")))
    cpu = _message((1, string("cpu")), (2, string("nanoseconds")))
    body: list[tuple[int, int | bytes]] = [(1, count), (1, cpu)]
    for stack in samples.stacks:
        ids = [locations.setdefault(index, len(locations) + 1) for index in stack.frames]
        numbers = _varint(stack.count) + _varint(stack.count * period_ns)
        body.append((2, _message((1, b"".join(map(_varint, ids))), (2, numbers))))
    for index, number in locations.items():
        frame = samples.frames[index]
        key = _label(frame), frame.file or frame.library
        line = _message((1, functions.setdefault(key, len(functions) + 1)), (2, frame.line))
        body.append((4, _message((1, number), (4, line))))
    for (name, file), number in functions.items():
        names = ((2, string(name)), (3, string(name)), (4, string(file)))
        body.append((5, _message((1, number), *names)))
    body += [(6, text.encode()) for text in strings]
    body += [(10, samples.duration_ns), (11, cpu), (12, period_ns)]
    return gzip.compress(_message(*body), mtime=0)


def _lines(weights: Counter[Stack]) -> str:
    return "".join(f"{';'.join(stack)} {weights[stack]}\n" for stack in sorted(weights))


def _weights(profile: model.Profile, *, interpreted: bool) -> Counter[Stack]:
    samples = profile.samples
    weights: Counter[Stack] = Counter()
    each = profile.cpu_ns_per_request * SCALE / max(1, samples.samples)
    stacks = samples.as_written if interpreted else samples.native
    for stack in stacks:
        thread = samples.threads[stack.thread]
        names = [_label(samples.frames[index]) for index in reversed(stack.frames)]
        weights[thread.program or "?", thread.name or "?", *names] += round(stack.samples * each)
    return weights


def _label(frame: model.Frame) -> str:
    """A function, marked as flame graphs colour it: `_[k]` for the kernel."""
    if frame.library == model.KERNEL:
        return f"{frame.name}_[k]"
    return frame.function or f"[{frame.library.strip('[]')}]"


def _message(*fields: tuple[int, int | bytes]) -> bytes:
    """A message of protobuf: numbers are varints, and bytes have their length before them."""
    parts = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            parts += _varint(number << 3) + _varint(value)
        else:
            parts += _varint(number << 3 | 2) + _varint(len(value)) + value
    return bytes(parts)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the highest bit says that more follow."""
    septets = bytearray()
    while value > 0x7F:
        septets.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*septets, value))


PAGE_FUNCTIONS = 40
PAGE_OTHERS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class FlameGraph:
    """Collapsed stacks, `outer;inner WEIGHT` or with two weights for a difference; their image."""

    name: str
    title: str
    lines: str
    svg: str = ""

    @property
    def source(self) -> str:
        """The image as a data URL, because images run no scripts and load no resources."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg.encode()).decode()


def profile_to_html(
    summaries: Sequence[model.ProfileSummary],
    change: model.ProfileDifference | None,
    graphs: Sequence[FlameGraph],
) -> str:
    """The whole page; the same summaries always give the same bytes."""
    return page.render(
        "profile.html.j2",
        figures=(),
        extra_policy="; img-src data:",
        names=" and ".join(summary.profile.target for summary in summaries),
        profiles=[_part(summary) for summary in summaries],
        change=None if change is None else _change(change),
        graphs=graphs,
    )


def _part(summary: model.ProfileSummary) -> dict[str, object]:
    profile = summary.profile
    tables = [
        ("Functions", "function", "library", summary.functions[:PAGE_FUNCTIONS]),
        ("Kernel and user space", "part", "", summary.parts[:PAGE_FUNCTIONS]),
        ("Libraries", "library", "", summary.libraries[:PAGE_OTHERS]),
        ("Threads", "thread", "process", summary.threads[:PAGE_OTHERS]),
        ("Source lines", "line", "function", summary.lines[:PAGE_OTHERS]),
        ("Native functions", "function", "library", summary.native[:PAGE_FUNCTIONS]),
    ]
    total_ns = summary.total_ns
    found = {
        title: _headed((*HEAD, name, place), (row_cells(row, total_ns) for row in rows if row.ns))
        for title, name, place, rows in tables
    }
    tree = _headed(TREE_HEAD, (tree_cells(row, total_ns) for row in summary.tree))
    return {
        "name": profile.target,
        "version": profile.version,
        "headline": headline(summary),
        "remarks": summary.remarks,
        "tables": [
            (title, table)
            for title, table in (*found.items(), ("Callees under callers", tree))
            if table.rows
        ],
    }


def _headed(header: Line, rows: Iterable[Line]) -> Table:
    """A table with names first, and without columns that have no header."""
    whole = Table(header=_named_first(header), rows=tuple(map(_named_first, rows)))
    return whole.without({index for index, name in enumerate(whole.header) if not name})


def _change(change: model.ProfileDifference) -> dict[str, object]:
    first, second = change.first.profile.target, change.second.profile.target
    head = ("µs", "95 % interval", "part", first, second)
    tables = (
        ("Functions", "function", "library", change.functions[:PAGE_FUNCTIONS]),
        ("Libraries", "library", "", change.libraries[:PAGE_OTHERS]),
        ("Kernel and user space", "part", "", change.parts[:PAGE_FUNCTIONS]),
    )
    return {
        "sentence": difference_sentence(change),
        "tables": [
            (title, _headed((*head, name, place), map(difference_cells, rows)))
            for title, name, place, rows in tables
        ],
    }


def _named_first(cells: tuple[str, ...]) -> tuple[str, ...]:
    return (*cells[-2:-1], *cells[:-2], *cells[-1:])
