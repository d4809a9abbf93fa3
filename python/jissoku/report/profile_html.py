"""Profiles as one HTML page, with their flame graphs as images inside it."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from jissoku.model.profile_summary import ProfileDifference, ProfileSummary
from jissoku.report import page, profile as text
from jissoku.report.tables import Table

FUNCTIONS = 40
OTHERS = 12

HEAD = ("µs", "95 % interval", "share", "with callees")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlameGraph:
    """A flame graph: its collapsed stacks, and their image.

    Attributes:
        name: Of its files, without suffix.
        lines: `outer;inner WEIGHT`, or two weights for a difference.
    """

    name: str
    title: str
    lines: str
    svg: str = ""

    @property
    def source(self) -> str:
        """The image as a data URL, because images run no scripts and load no resources."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg.encode()).decode()


def profile_to_html(
    summaries: Sequence[ProfileSummary],
    change: ProfileDifference | None,
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


def _part(summary: ProfileSummary) -> dict[str, object]:
    profile = summary.profile
    tables = [
        ("Functions", "function", "library", summary.functions[:FUNCTIONS]),
        ("Kernel and user space", "part", "", summary.parts[:FUNCTIONS]),
        ("Libraries", "library", "", summary.libraries[:OTHERS]),
        ("Threads", "thread", "process", summary.threads[:OTHERS]),
        ("Source lines", "line", "function", summary.lines[:OTHERS]),
        ("Native functions", "function", "library", summary.native[:FUNCTIONS]),
    ]
    return {
        "name": profile.target,
        "version": profile.version,
        "headline": text.headline(summary),
        "remarks": summary.remarks,
        "tables": [
            (
                title,
                Table(
                    header=_named_first((*HEAD, name, place)),
                    rows=tuple(
                        _named_first(text.row_cells(row, summary.total_ns))
                        for row in rows
                        if row.ns
                    ),
                ),
            )
            for title, name, place, rows in tables
            if any(row.ns for row in rows)
        ],
    }


def _change(change: ProfileDifference) -> dict[str, object]:
    first, second = change.first.profile.target, change.second.profile.target
    head = ("µs", "95 % interval", "part", first, second)
    tables = (
        ("Functions", "function", "library", change.functions[:FUNCTIONS]),
        ("Libraries", "library", "", change.libraries[:OTHERS]),
        ("Kernel and user space", "part", "", change.parts[:FUNCTIONS]),
    )
    return {
        "sentence": text.difference_sentence(change),
        "tables": [
            (
                title,
                Table(
                    header=_named_first((*head, name, place)),
                    rows=tuple(_named_first(text.difference_cells(row)) for row in rows),
                ),
            )
            for title, name, place, rows in tables
        ],
    }


def _named_first(cells: tuple[str, ...]) -> tuple[str, ...]:
    """Rows of a page, with the name first."""
    return (*cells[-2:-1], *cells[:-2], *cells[-1:])
