"""Fixtures for pytest; see docs/api.md.

pytest imports it in every project where jissoku is installed, so it imports nothing else until a
fixture is used.
"""

import pkgutil
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jissoku.comparing import ComparisonResult
    from jissoku.serving import Application


@pytest.fixture
def jissoku_server() -> "Iterator[Callable[..., str]]":
    """Serves an application, an object or its name as `MODULE:APP`, until the test ends.

    Called with it and the parameters of `jissoku.serve_in_thread`, returns the server's URL.
    """
    import jissoku  # noqa: PLC0415 - see above

    with ExitStack() as servers:

        def serve(app: "Application | str", **options: Any) -> str:
            served = pkgutil.resolve_name(app) if isinstance(app, str) else app
            return servers.enter_context(jissoku.serve_in_thread(served, **options)).url

        yield serve


@pytest.fixture
def assert_not_slower(
    tmp_path_factory: pytest.TempPathFactory,
) -> "Callable[..., ComparisonResult]":
    """Compares two targets of `jissoku.compare`, and fails if `head` is proven to be slower.

    Called with `base`, `head` and optionally `margin`, such as `"2 %"`, returns the result. Slower
    is more CPU time per request, by more than the margin. An undecided comparison fails as well,
    since nothing is shown by it, unless with `undecided="pass"`. Other parameters are those of
    `jissoku.compare`.
    """

    def check(
        base: str, head: str, *, margin: str = "2 %", undecided: str = "fail", **options: Any
    ) -> "ComparisonResult":
        __tracebackhide__ = True
        import jissoku  # noqa: PLC0415 - see above
        from jissoku.report.bounds import bound_sentence  # noqa: PLC0415
        from jissoku.request.param_types import PERCENTAGE  # noqa: PLC0415

        if undecided not in {"fail", "pass"}:
            raise ValueError(f"undecided={undecided!r}: write 'fail' or 'pass'")
        bound = f"cost(head) > {1 + PERCENTAGE.read(margin):g} x cost(base)"
        options.setdefault("folder", tmp_path_factory.mktemp("jissoku") / "run")
        found = jissoku.compare(f"base={base}", f"head={head}", fail_if=bound, **options)
        (result,) = found.bounds
        if result.status == "exceeded" or (result.status, undecided) == ("undecided", "fail"):
            pytest.fail(f"fail if {bound_sentence(result)}; report: {found.folder}/report.html")
        return found

    return check
