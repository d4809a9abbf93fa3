"""A page in a real browser: its rendering and its errors."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

CHROMIUM = shutil.which("chromium") or ""

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--virtual-time-budget=2000", "--enable-logging=stderr", "--dump-dom",
)  # fmt: skip
DARK = "--blink-settings=preferredColorScheme=0"

# Writes what is drawn into the page: boxes are left, top, right and bottom in pixels.
PROBE = """
<script>
function box(found) {
  var at = found.getBoundingClientRect();
  return [at.left, at.top, at.right, at.bottom];
}
function boxes(plot, selector) {
  return Array.from(plot.querySelectorAll(selector)).filter(function (found) {
    return found.checkVisibility();
  }).map(box);
}
document.body.append(Object.assign(document.createElement("pre"), {
  id: "probe",
  textContent: JSON.stringify({
    width: document.body.clientWidth,
    page: document.body.scrollWidth,
    background: getComputedStyle(document.body).backgroundColor,
    plots: Array.from(document.querySelectorAll("svg.plot")).map(function (plot) {
      return {
        marks: boxes(plot, "use, rect, polyline"),
        texts: boxes(plot, "text"),
        colour: getComputedStyle(plot.querySelector("text")).fill
      };
    })
  })
}));
</script>
"""

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Plot:
    """What is drawn of one plot."""

    marks: list[Box]
    texts: list[Box]
    colour: str

    @property
    def overlaps(self) -> list[tuple[Box, Box]]:
        """Texts that overlap by more than the empty edge of their lines."""
        return [
            (one, two)
            for index, one in enumerate(self.texts)
            for two in self.texts[index + 1 :]
            if min(one[2], two[2]) - max(one[0], two[0]) > 1
            and min(one[3], two[3]) - max(one[1], two[1]) > 4
        ]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A page as a browser shows it."""

    width: float
    page: float
    background: str
    plots: list[Plot]


def dump(page: Path, profile: Path, width: int = 1200, *warnings: str) -> tuple[str, list[str]]:
    """The page's elements after its script, and the messages of the browser's console."""
    done = subprocess.run(
        [
            CHROMIUM, *FLAGS, *warnings, f"--window-size={width},1000",
            f"--user-data-dir={profile}", page.as_uri(),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )  # fmt: skip
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def printed_pages(page: Path, folder: Path) -> int:
    """How many pages of paper it takes."""
    sheet = folder / "printed.pdf"
    subprocess.run(
        [
            CHROMIUM, *(flag for flag in FLAGS if flag != "--dump-dom"), f"--print-to-pdf={sheet}",
            f"--user-data-dir={folder}", page.as_uri(),
        ],
        capture_output=True,
        check=True,
        timeout=60,
    )  # fmt: skip
    return max(int(count) for count in re.findall(rb"/Count (\d+)", sheet.read_bytes()))


def draw(page: Path, folder: Path, width: int = 1200, *warnings: str) -> Drawn:
    """The drawn elements, from a copy of the page whose policy permits an inspecting script."""
    probed = folder / "probed.html"
    text = re.sub(r"<meta http-equiv[^>]*>", "", page.read_text(encoding="utf-8"))
    # A window is never narrower than 500 pixels, so the page itself is narrowed.
    narrow = f"<style>body {{ max-width: {width}px }}</style>"
    probed.write_text(text.replace("</body>", narrow + PROBE + "</body>"), encoding="utf-8")
    elements, _ = dump(probed, folder, width, *warnings)
    found = json.loads(elements.partition('id="probe">')[2].partition("</pre>")[0])
    plots = [Plot(marks=p["marks"], texts=p["texts"], colour=p["colour"]) for p in found["plots"]]
    return Drawn(found["width"], found["page"], found["background"], plots)
