"""Several requests of a client in one: which are sent, what they have, and which are refused."""

import http.server
import json
from pathlib import Path
from typing import Any

import pytest

from tests.serving.origin import Origin
from tests.serving.server_process import Start, connect
from tests.serving.test_routes import asked, serve

JSON = "Content-Type: application/json"


def describe(request: http.server.BaseHTTPRequestHandler) -> tuple[int, str]:
    """Answers with what the request says."""
    names = ("Host", "Authorization", "X-Tag", "Content-Type", "Content-Length")
    fields = {name: request.headers[name] for name in names if request.headers[name]}
    content = {"line": f"{request.command} {request.path}", **fields}
    return 200, json.dumps(content | {"body": getattr(request, "body", b"").decode()})


class JsonOrigin(Origin):
    """Whose responses are JSON by their type."""

    def __init__(self) -> None:
        super().__init__("json", describe)
        handler = self.server.RequestHandlerClass
        end_headers = http.server.BaseHTTPRequestHandler.end_headers

        def with_type(request: Any) -> None:
            request.send_header(*JSON.split(": "))
            end_headers(request)

        handler.end_headers = with_type  # type: ignore[attr-defined]


def configuration(origin: Origin) -> str:
    """Routes of which some are open to batches."""
    return f"""
        [upstream.app]
        servers = ["{origin.address}"]
        [[route]]
        path = "/batch"
        batch = {{ methods = ["GET", "HEAD", "POST"], parts = 8 }}
        deadline = "60s"
        [[route]]
        path = "/get/**"
        methods = ["GET"]
        to = "app"
        in-batch = true
        [[route]]
        path = "/limited"
        to = "app"
        in-batch = true
        rate = {{ requests = 1, every = "1h" }}
        [[route]]
        host = "other.example"
        path = "/other"
        to = "app"
        in-batch = true
        [[route]]
        path = "/closed"
        to = "app"
        [[route]]
        path = "/open/**"
        to = "app"
        in-batch = true
    """


def send(
    port: int, parts: object, host: str = "h", **fields: str
) -> tuple[int, list[dict[str, Any]]]:
    """Status, and the parts of a response."""
    connection = connect(port)
    headers = {"Host": host, "Authorization": "outer", **fields}
    connection.request("POST", "/batch", json.dumps(parts), headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    if response.getheader("Content-Type") != "application/json":
        return response.status, [{"text": text}]
    found: list[dict[str, Any]] = json.loads(text)["parts"]
    return response.status, found


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (
            {"path": "/get/a%20b?c"},
            {"line": "GET /get/a%20b?c", "Host": "h", "Authorization": "outer", "body": ""},
        ),
        (
            {
                "path": "/open/a",
                "method": "POST",
                "headers": {"authorization": "inner", "X-Tag": "t"},
                "body": {"n": 1},
            },
            {
                "line": "POST /open/a",
                "Host": "h",
                "Authorization": "inner",
                "X-Tag": "t",
                "Content-Type": "application/json",
                "Content-Length": "8",
                "body": '{"n": 1}',
            },
        ),
        (
            {"path": "/open/a", "method": "POST"},
            {
                "line": "POST /open/a",
                "Host": "h",
                "Authorization": "outer",
                "Content-Length": "0",
                "body": "",
            },
        ),
    ],
)
def test_a_part_is_a_request(
    tmp_path: Path, start: Start, part: dict[str, Any], expected: dict[str, str]
) -> None:
    with JsonOrigin() as origin:
        port = serve(start, tmp_path, configuration(origin))
        status, [found] = send(port, [part])
    assert (status, found["status"], found["body"]) == (200, 200, expected)


def test_each_part_has_the_routes_and_limits_of_a_request(tmp_path: Path, start: Start) -> None:
    with JsonOrigin() as origin:
        port = serve(start, tmp_path, configuration(origin))
        requests = {
            "/get/a": ("GET", 200),
            "/get/b": ("POST", 405),
            "/limited": ("GET", 200),
            "/limited?again": ("GET", 429),
            "/other": ("GET", 404),
            "/closed": ("GET", 403),
            "/batch": ("POST", 403),
            "/open/%2e%2e/closed": ("GET", 400),
        }
        parts = [
            {"id": path, "path": path, "method": method} for path, (method, _) in requests.items()
        ]
        status, found = send(port, parts)
        assert status == 200
        assert {part["id"]: part["status"] for part in found} == {
            path: expected for path, (_, expected) in requests.items()
        }
        assert sorted(origin.requests) == ["/get/a", "/limited"]
        # Parts are for the host of the batch.
        assert send(port, [{"path": "/other"}], "other.example")[1][0]["status"] == 200


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "a batch is a JSON list of objects"),
        ("[]", "a batch has 1 to 8 parts, not 0"),
        ('[{"path": "/open/a", "method": "DELETE"}]', "the method is GET or HEAD or POST"),
        ('[{"path": "http://a/open"}]', "path is a path"),
        ('[{"path": "/open/a", "headers": {"Host": "b"}}]', "the field Host cannot be set"),
    ],
)
def test_a_malformed_batch_is_refused(tmp_path: Path, start: Start, text: str, why: str) -> None:
    with JsonOrigin() as origin:
        port = serve(start, tmp_path, configuration(origin))
        connection = connect(port)
        connection.request("POST", "/batch", text)
        response = connection.getresponse()
        body = response.read().decode()
        connection.close()
        assert response.status == 400
        assert why in body
        assert origin.requests == []


def test_only_post_is_a_batch(tmp_path: Path, start: Start) -> None:
    with JsonOrigin() as origin:
        port = serve(start, tmp_path, configuration(origin))
        assert asked(port, "GET", "/batch") == (405, "Method Not Allowed\n")


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ([{"path": "/get/a"}, {"path": "/gone"}], 200),
        ([{"path": "/get/a"}, {"path": "/open/dead"}], 200),
        ([{"path": "/get/a"}, {"path": "/open/dead", "required": True}], 502),
    ],
)
def test_a_part_can_be_required(
    tmp_path: Path, start: Start, parts: list[dict[str, Any]], status: int
) -> None:
    def answer(request: http.server.BaseHTTPRequestHandler) -> tuple[int, str]:
        return (500, "") if request.path == "/open/dead" else describe(request)

    with JsonOrigin() as origin:
        origin.answer = answer
        port = serve(start, tmp_path, configuration(origin))
        assert send(port, parts)[0] == status


def test_parts_are_lines_as_they_end(tmp_path: Path, start: Start) -> None:
    with JsonOrigin() as origin:
        port = serve(start, tmp_path, configuration(origin))
        connection = connect(port)
        body = json.dumps([{"path": "/get/a"}, {"path": "/nowhere"}])
        connection.request("POST", "/batch", body, {"Accept": "application/x-ndjson"})
        response = connection.getresponse()
        lines = [json.loads(line) for line in response.read().splitlines()]
        connection.close()
    statuses = {line["id"]: line["status"] for line in lines[:-1]}
    assert statuses == {"0": 200, "1": 404}
    assert lines[-1]["complete"] is True
