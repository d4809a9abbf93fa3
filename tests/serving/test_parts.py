"""Parts of gathered responses that are late."""

import threading
from pathlib import Path

import pytest

from tests.serving.origin import Origin, held_until
from tests.serving.server_process import Start
from tests.serving.test_failure_matrix import Gateway


@pytest.mark.parametrize("sharing", ["", "single-flight = true"])
@pytest.mark.parametrize(
    ("times", "failures"),
    [("deadline = '200ms'", 1), ("deadline = '60s'\nsoft-deadline = '10ms'", 0)],
)
def test_a_part_without_a_response_at_the_deadline_counts_against_its_server(
    tmp_path: Path, start: Start, times: str, failures: int, sharing: str
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
            {sharing}
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
