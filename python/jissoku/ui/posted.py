"""Forms of the pages, and whether a page of this session has sent them."""

from urllib.parse import parse_qs

from starlette.requests import Request

from jissoku.errors import JissokuError
from jissoku.ui.guard import SESSION

FIELDS_MAX = 200
FORM = "application/x-www-form-urlencoded"


class FormError(JissokuError):
    """A form that was not sent by a page of this session."""


async def posted(request: Request) -> dict[str, list[str]]:
    """The fields of a form that a page of this session has sent.

    Raises:
        FormError: It has not the session's value, or is no form.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip() != FORM:
        raise FormError("This is not a form of these pages.")
    try:
        body = (await request.body()).decode("utf-8")
        fields = parse_qs(body, keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError as error:
        raise FormError("The form cannot be read.") from error
    if not request.app.state.access.is_form_key(
        request.scope[SESSION], fields.get("form_key", [""])[0]
    ):
        raise FormError("The form is of an earlier session: reload the page, and send it again.")
    return fields
