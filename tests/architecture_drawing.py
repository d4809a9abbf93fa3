"""Draws packages and crates with what they import, for ARCHITECTURE.md.

    python -m tests.architecture_drawing

writes docs/architecture.svg from the imports of the package, the dependencies in the manifests, and
the first sentence that each package and crate says of itself. An import that follows from others is
not drawn. Packages with the same users and the same imports share a frame.
"""

import ast
import html
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "jissoku"
CRATES = ROOT / "crates"
PICTURE = ROOT / "docs" / "architecture.svg"

Graph = Mapping[str, set[str]]
Point = tuple[float, float]

WIDTH = 960
BOX = (204, 82)
GAP = (14, 30)
FRAME = 10
MARGIN = 20
COLUMNS_MAX = 3
LINES_MAX = 3
LINE_SIGNS = 27

STYLE = """
  text { font-family: system-ui, sans-serif; fill: #1c2430 }
  .title { font-size: 17px; font-weight: 600 }
  .name { font-size: 15px; font-weight: 600 }
  .says { font-size: 13px }
  .paper { fill: #ffffff }
  .box { fill: #eef3fb; stroke: #5b7db8 }
  .rust { fill: #fbf1e8; stroke: #b3793f }
  .frame { fill: none; stroke: #9aa4b2; stroke-dasharray: 4 3 }
  .edge { fill: none; stroke: #6b7785; stroke-width: 1.4 }
  .tip { fill: #6b7785 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6ebf2 }
    .paper { fill: #0f141b }
    .box { fill: #1b2a44; stroke: #7d9fd9 }
    .rust { fill: #382819; stroke: #cf9a62 }
    .frame { stroke: #6b7785 }
    .edge { stroke: #9aa7b5 }
    .tip { fill: #9aa7b5 }
  }
"""


@dataclass(frozen=True, slots=True)
class Frame:
    """Boxes that have the same users and the same imports, or the bend of an arrow past a layer."""

    members: tuple[str, ...]

    @property
    def columns(self) -> int:
        return min(len(self.members), COLUMNS_MAX if len(self.members) > 2 else 1)

    @property
    def size(self) -> Point:
        if not self.members:
            return (GAP[0], BOX[1])
        rows = -(-len(self.members) // self.columns)
        edge = 2 * FRAME * (len(self.members) > 1)
        width = self.columns * (BOX[0] + GAP[0]) - GAP[0] + edge
        return (width, rows * (BOX[1] + FRAME) - FRAME + edge)


@dataclass(slots=True, eq=False)
class Place:
    """Where a frame is: its left edge and its top, and the frames that it leads to."""

    frame: Frame
    layer: int
    targets: list["Place"] = field(default_factory=list)
    x: float = 0
    y: float = 0

    @property
    def middle(self) -> float:
        return self.x + self.frame.size[0] / 2

    @property
    def bottom(self) -> float:
        return self.y + self.frame.size[1]


def imports_of_packages() -> dict[str, set[str]]:
    """Which packages and modules of `jissoku` import which others."""
    graph: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[0].startswith("__"):
            continue
        used = graph.setdefault(parts[0], set())
        names = {name.split(".")[1] for name in imported(path) if name.startswith("jissoku.")}
        used |= {name for name in names if exists(name)} - {parts[0]}
    return graph


def imported(path: Path) -> Iterator[str]:
    """Full names of what a module imports, wherever in the file it does so."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def exists(name: str) -> bool:
    return (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists() or name == "_native"


def imports_of_crates() -> dict[str, set[str]]:
    graph = {}
    for path in sorted(CRATES.glob("*/Cargo.toml")):
        used = tomllib.loads(path.read_text(encoding="utf-8")).get("dependencies", {})
        graph[path.parent.name] = {name for name in used if name.startswith("jissoku-")}
    return graph


def sentence(name: str) -> str:
    """What a package or crate says of itself first; only what is before a colon if that is long."""
    manifest = CRATES / name / "Cargo.toml"
    if manifest.exists():
        text = str(tomllib.loads(manifest.read_text(encoding="utf-8"))["package"]["description"])
    elif name == "_native":
        text = "The crate jissoku-python"
    else:
        path = PACKAGE / name / "__init__.py"
        source = (path if path.exists() else PACKAGE / f"{name}.py").read_text(encoding="utf-8")
        text = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
    text = text.removesuffix(".").replace("`", "")
    return text if len(textwrap.wrap(text, LINE_SIGNS)) <= LINES_MAX else text.partition(":")[0]


def reduced(graph: Graph) -> dict[str, set[str]]:
    """The graph without edges that follow from others."""

    def below(name: str) -> set[str]:
        return graph[name].union(*(below(used) for used in graph[name]))

    return {
        name: {used for used in names if not any(used in below(other) for other in names)}
        for name, names in graph.items()
    }


def places(graph: Graph) -> list[list[Place]]:
    """Layers of frames, each below all that imports it; a bend wherever an arrow passes a layer."""
    users = {name: frozenset(user for user in graph if name in graph[user]) for name in graph}
    groups: dict[object, list[str]] = {}
    for name in sorted(graph):
        groups.setdefault((users[name], frozenset(graph[name])), []).append(name)

    def depth(name: str) -> int:
        return max((depth(user) + 1 for user in users[name]), default=0)

    found = [Place(Frame(tuple(names)), depth(names[0])) for names in groups.values()]
    of_name = {name: place for place in found for name in place.frame.members}
    for place in tuple(found):
        for target in dict.fromkeys(id(of_name[n]) for n in sorted(graph[place.frame.members[0]])):
            end, last = next(p for p in found if id(p) == target), place
            for layer in range(place.layer + 1, end.layer):
                bend = Place(Frame(()), layer)
                found.append(bend)
                last.targets.append(bend)
                last = bend
            last.targets.append(end)
    height = 1 + max(place.layer for place in found)
    return [[place for place in found if place.layer == layer] for layer in range(height)]


def arrange(layers: list[list[Place]], top: float) -> float:
    """Sets the places; each layer is ordered by the middle of its users. Returns the bottom."""
    for layer, row in enumerate(layers):
        above = layers[layer - 1] if layer else []
        wanted = {}
        for place in row:
            users = [user.middle for user in above if place in user.targets]
            wanted[id(place)] = sum(users) / len(users) if users else WIDTH / 2
        row.sort(key=lambda place: (wanted[id(place)], place.frame.members))
        width = sum(place.frame.size[0] for place in row) + 2 * GAP[0] * (len(row) - 1)
        left = (WIDTH - width) / 2
        for place in row:
            place.x, place.y = left, top
            left += place.frame.size[0] + 2 * GAP[0]
        top = max(place.y + place.frame.size[1] for place in row) + GAP[1]
    return top - GAP[1]


def drawn(row: list[Place], kind: str) -> Iterator[str]:
    """The boxes of a layer and the arrows that leave it."""
    bottom = max(place.bottom for place in row)
    for place in row:
        yield from boxes(place, kind)
        start = (place.middle, place.bottom if place.frame.members else place.y)
        if place.bottom < bottom or not place.frame.members:
            yield f'<path class="edge" d="M{start[0]:.0f} {start[1]:.0f}V{bottom:.0f}"/>'
        for target in place.targets:
            end = (target.middle, target.y - (6 if target.frame.members else 0))
            bend = (bottom + end[1]) / 2
            yield (
                f'<path class="edge" d="M{start[0]:.0f} {bottom:.0f}C{start[0]:.0f} {bend:.0f}'
                f' {end[0]:.0f} {bend:.0f} {end[0]:.0f} {end[1]:.0f}"/>'
            )
            if target.frame.members:
                x, y = target.middle, target.y
                yield f'<path class="tip" d="M{x - 4:.0f} {y - 8:.0f}h8l-4 8z"/>'


def boxes(place: Place, kind: str) -> Iterator[str]:
    members = place.frame.members
    edge = FRAME if len(members) > 1 else 0
    if edge:
        yield rectangle("frame", (place.x, place.y), place.frame.size)
    for index, name in enumerate(members):
        x = place.x + edge + index % place.frame.columns * (BOX[0] + GAP[0])
        y = place.y + edge + index // place.frame.columns * (BOX[1] + FRAME)
        yield rectangle(kind, (x, y), BOX)
        yield f'<text class="name" x="{x + 9:.0f}" y="{y + 20:.0f}">{name}</text>'
        lines = textwrap.wrap(sentence(name), LINE_SIGNS)
        if len(lines) > LINES_MAX:
            raise ValueError(f"the first sentence of {name} is longer than {LINES_MAX} lines")
        for line, text in enumerate(lines):
            says = html.escape(text)
            yield f'<text class="says" x="{x + 9:.0f}" y="{y + 38 + 16 * line:.0f}">{says}</text>'


def rectangle(kind: str, corner: Point, size: Point) -> str:
    at = f'x="{corner[0]:.0f}" y="{corner[1]:.0f}" width="{size[0]}" height="{size[1]}"'
    return f'<rect class="{kind}" {at} rx="5"/>'


def picture() -> str:
    """The drawing as SVG, in light or dark colours as its reader has them."""
    parts: list[str] = []
    top = float(MARGIN)
    packages, crates = imports_of_packages(), imports_of_crates()
    packages["_native"] = set()
    for title, graph, kind in [
        ("Python: packages of jissoku", packages, "box"),
        ("Rust: crates", crates, "rust"),
    ]:
        parts.append(f'<text class="title" x="{MARGIN}" y="{top + 14:.0f}">{title}</text>')
        layers = places(reduced(graph))
        bottom = arrange(layers, top + MARGIN + 8)
        for row in layers:
            parts.extend(drawn(row, kind))
        top = bottom + 2 * MARGIN
    size = f'viewBox="0 0 {WIDTH} {top:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{STYLE}</style>'
    paper = '<rect class="paper" width="100%" height="100%"/>'
    return "\n".join([head, paper, *parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
