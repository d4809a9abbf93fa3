"""Parts of gathered responses: those that are late, and the memory that they take."""

import threading
from pathlib import Path

import pytest

from tests.serving.origin import Origin, held_until
from tests.serving.server_process import Start
from tests.serving.test_failure_matrix import Gateway


@pytest.mark.parametrize(
    ("times", "failures"),
    [("deadline = '200ms'", 1), ("deadline = '60s'\nsoft-deadline = '10ms'", 0)],
)
def test_a_part_without_a_response_at_the_deadline_counts_against_its_server(
    tmp_path: Path, start: Start, times: str, failures: int
) -> None:
    is_over = threading.Event()
    with Origin("hangs", held_until(is_over)) as hanging, Origin("good") as good:
        text = f"""
            [upstream.app]
            servers = [{{ at = "{hanging.address}", weight = 1000 }}, "{good.address}"]
            failures = 1
            [upstream.other]
            servers = ["{good.address}"]
            [[route]]
            path = "/home"
            gather = {{ late = "app:/", soon = "other:/" }}
            {times}
        """
        gateway = Gateway(tmp_path, start, text)
        gateway.ask("/home")
        assert hanging.requests == ["/"]
        reason = {"reason": "http_response_timeout"}
        assert gateway.metric("failures_total", upstream="app", **reason) == failures
        serves = gateway.metric("server_serving", upstream="app", server=hanging.address)
        assert serves == (not failures)
        is_over.set()


@pytest.mark.parametrize(("size", "status"), [("1000", 503), ("100KiB", 200)])
def test_a_worker_holds_no_more_than_it_may(
    tmp_path: Path, start: Start, size: str, status: int
) -> None:
    with Origin("a", lambda _: (200, "x" * 2000)) as origin:
        text = f"""
            gather-memory = "{size}"
            [upstream.app]
            servers = ["{origin.address}"]
            [[route]]
            path = "/home"
            gather = {{ one = "app:/" }}
        """
        gateway = Gateway(tmp_path, start, text)
        assert gateway.ask("/home") == (status, False, "1" if status == 503 else None)
        assert gateway.errors() == ["proxy_internal_error" if status == 503 else None]
