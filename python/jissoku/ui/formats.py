"""The data of a page as JSON, with `?format=json` in its address."""

from collections.abc import Mapping
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from jissoku.report.json import value_json

# Parameters of an address that choose a form of a page or a part of it, and not its data.
NOT_DATA = {"format", "after"}

Value = Mapping[str, object]


def is_json_requested(request: Request) -> bool:
    """Whether an address asks for data instead of the page.

    Raises:
        HTTPException: It asks for another form (400).
    """
    kind = request.query_params.get("format", "html")
    if kind not in {"html", "json"}:
        raise HTTPException(400, "There is no such format: it is html or json.\n")
    return kind == "json"


def data(value: Value) -> Response:
    """The values of a page."""
    return json_response(value_json(value))


def json_response(text: str) -> Response:
    """A text in JSON."""
    return Response(text, media_type="application/json; charset=utf-8")


def json_link(request: Request) -> str:
    """The address of a page's data: all of them, and not only the part shown."""
    kept = [pair for pair in request.query_params.multi_items() if pair[0] not in NOT_DATA]
    return f"{request.url.path}?{urlencode([*kept, ('format', 'json')])}"
