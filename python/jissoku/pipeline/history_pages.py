"""Static pages of all runs, to be read as files or served as a directory."""

from pathlib import Path

from jissoku.model.history import IndexedRun
from jissoku.pipeline.reports import report_text, write_texts
from jissoku.pipeline.run_history import History
from jissoku.report.history_html import index_html, report_file, target_file, target_html


def write_history(folder: Path, known: History, command: str) -> int:
    """Writes all pages into a folder, and returns their number.

    A run's report is read from its folder, or generated if it is missing.

    Args:
        folder: Created if needed.
        known: The runs to show.
        command: Rebuilds the pages; it is shown on each.

    Raises:
        InputError: The folder cannot be written.
    """
    runs = known.headers()
    targets = sorted({arm.target for run in runs for arm in run.arms if not arm.is_control})
    series = {target: known.series(target) for target in targets}
    pages = {
        target_file(target): target_html(target, found, command)
        for target, found in series.items()
        if found
    }
    everything = [one for found in series.values() for one in found]
    pages["index.html"] = index_html(runs, everything, command)
    pages |= {report_file(run.row.run): _report(run) for run in runs}
    write_texts(folder, pages)
    return len(pages)


def _report(run: IndexedRun) -> str:
    """The report next to the records; generated from them if it is missing."""
    try:
        return (Path(run.folder) / "report.html").read_text(encoding="utf-8")
    except OSError:
        return report_text(Path(run.folder), "html")
