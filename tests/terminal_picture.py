"""Draws what `jissoku compare` prints at the end of a run, as a picture for the README.

    python -m tests.terminal_picture RUN docs/race.svg

RUN is the folder of a real run of `make race`. The picture is drawn again after a change of the
report: its text is that of the report, and nothing in it is written by hand.
"""

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI

from jissoku import inference, records, report

WIDTH = 80

# A page of a repository loads no fonts from elsewhere: the reader's own monospaced one is used.
FONTS = re.compile(r" *@font-face \{.*?\}\n", re.DOTALL)


def picture(folder: Path) -> str:
    """The end of a run's terminal as SVG."""
    console = Console(
        record=True,
        width=WIDTH,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
        _environ={},
    )
    console.print("$ make race", style="bold green")
    console.print(report.brief(inference.summarise(*records.read(folder))))
    drawn = console.export_svg(title="jissoku", theme=DIMMED_MONOKAI, unique_id="race")
    return FONTS.sub("", drawn)


def main() -> None:
    folder, target = map(Path, sys.argv[1:])
    target.write_text(picture(folder), encoding="utf-8")


if __name__ == "__main__":
    main()
