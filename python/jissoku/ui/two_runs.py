"""Two runs side by side: their properties, and how the cost of each arm changed."""

from collections.abc import Sequence

from jissoku.model.history_answer import ArmChange, RunDifference
from jissoku.report.format import load_mark, offered
from jissoku.report.history_text import change_word, control_text, percent
from jissoku.report.sanitize import clean
from jissoku.report.tables import Table


def pair_facts(found: RunDifference) -> list[tuple[str, tuple[str, str]]]:
    """Properties of both runs; what differs is marked."""

    def both(values: Sequence[str]) -> tuple[str, str]:
        return values[0], values[1]

    def of(field: str) -> tuple[str, str]:
        return both([str(getattr(row, field)) for row in found.runs])

    facts = [
        ("workload", of("workload_text")),
        ("loads", both([", ".join(map(offered, loads)) or "-" for loads in found.loads])),
        ("machine", of("machine_text")),
        ("method", of("method")),
        ("cores of the server", of("server_cores")),
        ("kernel", of("kernel")),
        ("governor", of("governor")),
        ("jissoku", of("jissoku")),
        ("turbo", of("turbo")),
        ("clock", of("clocksource")),
        ("label", of("machine_label")),
        ("incomplete", both([reason or "-" for reason in found.unfinished])),
        ("only here", both([", ".join(names) or "-" for names in found.only])),
        ("result", of("headline")),
    ]
    # What neither has is no property of theirs.
    return [(name, values) for name, values in facts if set(values) - {"", "-"}]


def changes_table(found: RunDifference) -> Table:
    """A row per arm and load, arms with another program first."""
    return Table(
        header=("arm", "load", "change", "what may be said", "versions", "through", "control"),
        rows=tuple(
            (
                clean(one.arm),
                load_mark(one.load),
                percent(one.change),
                change_word(one),
                clean(_versions(one)),
                clean(", ".join(one.anchors)),
                control_text(one),
            )
            for one in sorted(found.changes, key=lambda one: one.is_same)
        ),
    )


def _versions(one: ArmChange) -> str:
    named = " to ".join(dict.fromkeys(one.versions))
    is_hidden = one.versions[0] == one.versions[1] and not one.is_same
    return f"{named}, another program" if is_hidden else named
