"""Pages of frameworks are the same bytes under each server."""

import json

import pytest

from jissoku.model import UnavailableTarget, Workload
from jissoku.targets import catalogue, launch, process, response
from jissoku.targets.placeholders import BuildPaths
from tests.targets.conftest import placed, prepared_or_skipped

# Their preparation installs packages.
pytestmark = [pytest.mark.race, pytest.mark.timeout(600)]

RECIPES = catalogue.recipes()
PAGES = {
    "wsgi": {"/page": "text/html", "/blocking": "application/json", "/stream": "octet-stream"},
    "asgi": {"/json": "application/json", "/events": "event-stream", "/stream": "octet-stream"},
}
SERVERS = {
    "wsgi": ("jissoku", "gunicorn", "granian"),
    "asgi": ("jissoku", "uvicorn", "granian"),
}


def pages_of(name: str, interface: str, place: BuildPaths) -> dict[str, bytes]:
    prepared = prepared_or_skipped(RECIPES[name], place)
    if isinstance(prepared, UnavailableTarget):
        pytest.skip(f"{prepared.name} is not available here: {prepared.reason}")
    found = {}
    with process.start(prepared, placed()) as running:
        launch.wait_until_ready(running, Workload())
        for path, kind in PAGES[interface].items():
            given = response.send_request(running.address, Workload(path=path))
            fields = {field.lower(): value for field, value in given.fields}
            assert given.status == 200, (name, path)
            assert kind in fields["content-type"], (name, path)
            found[path] = given.body
    return found


@pytest.mark.parametrize("interface", ["wsgi", "asgi"])
def test_pages_are_the_same_under_each_server(interface: str, place: BuildPaths) -> None:
    found = [
        pages_of(f"{server}-{interface}-pages", interface, place) for server in SERVERS[interface]
    ]
    assert found[0] == found[1] == found[2]
    assert found[0]["/stream"] == b"x" * 2**20
    if interface == "wsgi":
        assert found[0]["/page"].count(b"<tr class=") == 20
        assert b"<td>Item 3<td>4.50" in found[0]["/page"]
    else:
        assert json.loads(found[0]["/json"])[19] == {"id": 19, "name": "item 19", "price": 28.5}
        assert found[0]["/events"].count(b"\n\n") == 50
