"""Dismissing a suspected change with a reason, and opening it again."""

from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from jissoku.errors import InputError
from jissoku.records import dismissals
from jissoku.report.history import suspicions, with_key
from jissoku.ui.library import Library
from jissoku.ui.posted import FormError, posted
from jissoku.ui.render import Pages

REASON_SIZE_MAX = 500


class DismissingPages:
    def __init__(self, library: Library, root: Path, pages: Pages) -> None:
        """Dismissals are written to `root`."""
        self._library = library
        self._root = root
        self._pages = pages

    def routes(self) -> list[Route]:
        return [Route("/changes/{key}/dismiss", self.dismiss, methods=["POST"])]

    async def dismiss(self, request: Request) -> Response:
        """Dismisses a suspicion for the reason in the form; without one it is open again."""
        try:
            fields = await posted(request)
            reason = fields.get("reason", [""])[0].strip()[:REASON_SIZE_MAX]
            await run_in_threadpool(self._dismiss, request.path_params["key"], reason)
        except (FormError, InputError) as error:
            status = 403 if isinstance(error, FormError) else 404
            return self._pages.page(
                request, "message.html.j2", status=status, title="Not done", text=str(error)
            )
        return RedirectResponse("/changes", 303)

    def _dismiss(self, key: str, reason: str) -> None:
        series = [one for name in self._library.targets() for one in self._library.series(name)]
        one = with_key(suspicions(series), key)
        dismissals.add(self._root, key, one.series.target, reason)
