"""One workload of an experiment, for its pages."""

from dataclasses import dataclass

from jissoku.model import Summary
from jissoku.model.experiment import ExperimentResult
from jissoku.report import format as fmt, method, tables
from jissoku.report.tables import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSection:
    """One workload, for a page."""

    name: str
    workload_text: str
    trials: str
    headline: str
    tables: tuple[tuple[str, Table], ...]
    warnings: tuple[str, ...]


def workload_sections(outcome: ExperimentResult) -> tuple[WorkloadSection, ...]:
    """One per workload that was measured."""
    return tuple(_part(name, summary) for name, summary in outcome.summaries.items())


def _part(name: str, summary: Summary) -> WorkloadSection:
    shared = " Servers and load generator shared their cores." if summary.run.cores.shared else ""
    return WorkloadSection(
        name=name,
        workload_text=f"{method.describe_load(summary.run)}.{shared}",
        trials=method.trials(summary),
        headline=_how_it_ended(summary),
        tables=_tables(summary),
        warnings=tuple(
            f"{warning.severity}: {warning.title}. {warning.text}" for warning in summary.warnings
        ),
    )


def _tables(summary: Summary) -> tuple[tuple[str, Table], ...]:
    """One table per load with values, then values that do not depend on a load."""
    loads = [(one.title, one.table) for one in tables.at_loads(summary) if one.table.rows]
    return (*loads, ("Every target", tables.facts(summary)))


def _how_it_ended(summary: Summary) -> str:
    """Without a ranking by cost, the closed-loop rates."""
    rates = {s.arm.name: s.rate_rps for s in summary.arm_summaries if s.rate_rps is not None}
    ranked = any(p.rank is not None for known in summary.arm_summaries for p in known.points)
    if ranked or len(rates) < len(summary.arm_summaries):
        return summary.headline
    text = ", ".join(f"{name} {fmt.interval(rate, 'rate')}" for name, rate in rates.items())
    return f"Closed loop, one target at a time: {text}."
