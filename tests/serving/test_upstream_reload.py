"""Reloads that change the servers behind a gateway: nothing is lost."""

import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.serving.origin import Origin
from tests.serving.server_process import Load, Served, Start, ask


class Site:
    """A configuration that can be changed, and a server that has read it."""

    def __init__(self, folder: Path, start: Start) -> None:
        self.file = folder / "serve.toml"
        self.start = start

    def write(self, *servers: Origin, more: str = "") -> None:
        """All requests go to these servers."""
        listed = ", ".join(f'"{server.address}"' for server in servers)
        self.file.write_text(
            f"listen = '127.0.0.1:0'\nworkers = 2\n[upstream.app]\nservers = [{listed}]\n"
            f"[[route]]\npath = '/**'\nto = 'app'\n{more}"
        )

    def serve(self) -> tuple[Served, int]:
        """Starts a server; it and its port."""
        served = self.start("--config", str(self.file))
        return served, int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])


@pytest.mark.slow
def test_a_server_that_was_removed_can_be_stopped(tmp_path: Path, start: Start) -> None:
    site = Site(tmp_path, start)
    with ExitStack() as stack:
        old = stack.enter_context(Origin("0"))
        site.write(old)
        served, port = site.serve()
        with Load(port) as load:
            for number in range(1, 9):
                new = stack.enter_context(Origin(str(number)))
                site.write(old, new)
                served.reload()
                load.wait_for_answers()
                site.write(new)
                served.reload()
                load.wait_for_answers()
                # Requests to it end before it does.
                old.stop()
                load.wait_for_answers()
                old = new
        assert ask(port) == (200, b"8 /")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("colour = 1\n", "line 8: .*colour"),
        ("[[route]]\npath = '/a'\nto = 'app'\n", "line 8: no request reaches this route"),
        ("[[route]]\npath = '/**'\nfixed = 'a'\n", "line 8: no request reaches this route"),
        ("[upstream.b]\nservers = ['no-such.invalid:80']\n", "line 8: .*cannot be resolved"),
    ],
)
def test_a_configuration_with_an_error_changes_nothing(
    tmp_path: Path, start: Start, more: str, said: str
) -> None:
    site = Site(tmp_path, start)
    with Origin("a") as one, Origin("b") as other:
        site.write(one)
        served, port = site.serve()
        site.write(other, more=more)
        served.send_signal(signal.SIGHUP)
        served.wait_for(rf"not reloaded: .*serve\.toml, {said}")
        assert ask(port) == (200, b"a /")
        site.write(other)
        served.reload()
        assert ask(port) == (200, b"b /")
