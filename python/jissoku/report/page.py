"""Self-contained HTML pages: no network, no second file, no clock."""

import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from jissoku.report import svg
from jissoku.report.svg import Chart

# A factor, or the interval behind it.
INTERVAL = re.compile(r"[0-9.,]+ \N{MULTIPLICATION SIGN}|\[[0-9.,]+ [0-9.,]+\]")

CSS_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
# Not before a colon, where a space is a combinator, and not around operators of calc().
CSS_SPACE = re.compile(r"\s*([{};,])\s*|(?<=:)\s+|\s+(?=\s)|\n")


def render(
    template: str,
    *,
    figures: Sequence[Chart],
    extra_policy: str = "",
    record: str = "",
    **values: object,
) -> str:
    """Renders a page: the same values give the same bytes.

    Its policy allows this style sheet and this script, by their hashes, and nothing else: no
    attribute with code or styles, no request. `extra_policy` allows more, such as images inside the
    page. `record` is printed on every sheet of paper.
    """
    pages = _environment()
    style = style_sheet(record)
    code = script() if figures else ""
    policy = f"default-src 'none'; style-src {_hash(style)}{extra_policy}"
    return pages.get_template(template).render(
        figures=figures,
        policy=Markup(policy + (f"; script-src {_hash(code)}" if code else "")),  # noqa: S704
        style=Markup(style),  # noqa: S704 - ours
        script=Markup(code),  # noqa: S704 - ours
        shapes=svg.shapes() if figures else "",
        **values,
    )


def style_sheet(record: str = "") -> str:
    """The style sheet of every page, without the spaces and line ends that only people need.

    `record` is the hash of the records behind the page, in hexadecimal digits.
    """
    text = _environment().get_template("report.css").render(room_max=svg.ROOM_MAX, record=record)
    return CSS_SPACE.sub(r"\1", CSS_COMMENT.sub("", text)).strip()


def script() -> str:
    return _environment().get_template("report.js").render()


def content(whole: str) -> Markup:
    """The body of a page made by `render`, to be included in another page."""
    _, _, rest = whole.partition("<body>\n")
    body, _, _ = rest.partition("</main>")
    shapes, _, main = body.partition("<main>")
    return Markup(shapes + main)  # noqa: S704 - ours, and escaped by `render`


def _hash(text: str) -> str:
    """The hash of a source in a content security policy (CSP level 3, section 2.3.1)."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("jissoku.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters["together"] = together
    return found


def together(text: str) -> str:
    """Replaces the spaces of an interval by non-breaking ones."""
    return INTERVAL.sub(lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
