"""The pages over real records, served by our own server; and a client with a session."""

import http.client
import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from jissoku.system.measurement_lock import PATH_VARIABLE
from jissoku.ui import run_index, watched_servers
from jissoku.ui.server import UiConfig, pages_in_thread
from tests.serving.server_process import spawn
from tests.ui.watched_server import Running

RECORDS = Path(__file__).parents[2] / "records"
# For a page over all records, on a machine with much else to do.
LIMIT_S = 120


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: dict[str, str]
    text: str


@dataclass
class Client:
    """Sends requests as a browser with a session does."""

    port: int
    cookie: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    host: str = "127.0.0.1"

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, headers=headers)

    def post(self, path: str, fields: dict[str, str] | list[tuple[str, str]]) -> Answer:
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Sec-Fetch-Site": "same-origin",
            "Origin": f"http://127.0.0.1:{self.port}",
        }
        return self.send("POST", path, urlencode(fields), headers)

    def send(
        self, method: str, path: str, body: str = "", headers: dict[str, str] | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=LIMIT_S)
        cookie = {"Cookie": self.cookie} if self.cookie else {}
        with closing(connection):
            connection.request(method, path, body or None, cookie | (headers or {}))
            response = connection.getresponse()
            text = response.read().decode()
        named = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, named, text)


def client_of(link: str) -> Client:
    """A client that has used a link."""
    parts = urlsplit(link)
    client = Client(parts.port or 0, host=parts.hostname or "127.0.0.1")
    entered = client.get(f"{parts.path}?{parts.query}")
    assert entered.status == 303
    client.cookie = entered.headers["set-cookie"].partition(";")[0]
    return client


@pytest.fixture(scope="session", autouse=True)
def complete_pages() -> Iterator[None]:
    """A page shows every run, however long indexing takes; tests of that set a shorter time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_index, "WAIT_S", float(LIMIT_S))
        yield


@pytest.fixture(scope="session")
def index_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("index")


@pytest.fixture(scope="session")
def some_records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three like runs, four of an experiment, one with a hostile text, and a broken one."""
    folder = tmp_path_factory.mktemp("pages") / "runs"
    for name in ("repeatability/51", "repeatability/52", "repeatability/53", "parsers"):
        shutil.copytree(RECORDS / name, folder / name)
    hostile = folder / "hostile"
    shutil.copytree(RECORDS / "parsers" / "kept", hostile)
    header = json.loads((hostile / "run.json").read_text())
    header["machine_label"] = HOSTILE
    header["arms"][0]["description"] = header["arms"][0]["version"] = HOSTILE
    (hostile / "run.json").write_text(json.dumps(header))
    broken = folder / "broken"
    broken.mkdir()
    (broken / "run.json").write_text('{"schema": ')
    return folder


HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="session")
def link(some_records: Path, index_cache: Path) -> Iterator[str]:
    config = UiConfig(listen="127.0.0.1", port=0, roots=(some_records,), cache=index_cache)
    with pages_in_thread(config) as found:
        yield found


@pytest.fixture(scope="session")
def client(link: str) -> Client:
    return client_of(link)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Running]:
    """Every look reads; measurements of other tests are not seen."""
    monkeypatch.setattr(watched_servers, "PERIOD_NS", 0)
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path / "lock"))
    served = spawn("--fixed", "x", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
    try:
        port = int(served.wait_for(r"listening on http://127\.0\.0\.1:([0-9]+)/")[1])
        metrics = int(served.wait_for(r"metrics on http://127\.0\.0\.1:([0-9]+)/metrics")[1])
        yield Running(served, port, metrics)
    finally:
        served.end()
