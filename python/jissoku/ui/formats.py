"""The data of a page in other forms than HTML, by `?format=` in its address."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from jissoku.report.documents import (
    Document,
    Sheet,
    document_markdown,
    document_text,
    sheet_csv,
    value_json,
)

TYPES = {
    "txt": "text/plain",
    "md": "text/markdown",
    "json": "application/json",
    "csv": "text/csv",
}

# Parameters of an address that choose a form of a page or a part of it, and not its data.
NOT_DATA = {"format", "after"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageData:
    """A page's data; each form is made when it is requested.

    Attributes:
        name: Of the page, for a file's name.
        txt: As the command prints it in a terminal, where there is one.
    """

    name: str
    txt: Callable[[], str]
    md: Callable[[], str]
    json: Callable[[], str]
    sheet: Callable[[], Sheet]


def of_document(
    name: str, document: Document, value: Mapping[str, object], sheet: Sheet
) -> PageData:
    """The data of a page of which no command prints the same."""
    return PageData(
        name=name,
        txt=lambda: document_text(document),
        md=lambda: document_markdown(document),
        json=lambda: value_json(value),
        sheet=lambda: sheet,
    )


def requested(request: Request) -> str:
    """The form that an address asks for; empty: the page itself.

    Raises:
        HTTPException: There is no such form (400).
    """
    kind = request.query_params.get("format", "html")
    if kind == "html":
        return ""
    if kind not in TYPES:
        raise HTTPException(400, f"There is no such format: it is html, {', '.join(TYPES)}.\n")
    return kind


def answer(kind: str, data: PageData) -> Response:
    """The data in a form."""
    if kind == "csv":
        return response(kind, sheet_csv(data.sheet()), data.name)
    return response(kind, {"txt": data.txt, "md": data.md, "json": data.json}[kind](), data.name)


def response(kind: str, text: str, name: str) -> Response:
    """A text of some form; a sheet is saved as a file."""
    headers = {}
    if kind == "csv":
        headers["content-disposition"] = f'attachment; filename="jissoku-{name}.csv"'
    return Response(text, media_type=f"{TYPES[kind]}; charset=utf-8", headers=headers)


def links(request: Request) -> list[tuple[str, str]]:
    """Each form with its address: the same data as the page, and not only the part shown."""
    kept = [pair for pair in request.query_params.multi_items() if pair[0] not in NOT_DATA]
    return [(kind, f"{request.url.path}?{urlencode([*kept, ('format', kind)])}") for kind in TYPES]
