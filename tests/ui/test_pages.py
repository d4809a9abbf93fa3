"""Pages of real records: complete, harmless, and the same as the commands' answers."""

import gzip
import json
import re
import shlex
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from jissoku.measure import reports
from jissoku.request import ComparisonRequest, from_argv
from jissoku.ui import pages, run_index
from jissoku.ui.guard import Access
from jissoku.ui.server import UiConfig, pages_in_thread
from tests.ui.conftest import RECORDS, Answer, Client, client_of
from tests.ui.suspicion import record

PAGES = ("/", "/experiments", "/targets", "/board", "/changes", "/machines", "/servers")


class Reader(HTMLParser):
    """Collects links, and what a strict policy would block."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.blocked: list[str] = []
        self._is_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "a" and values.get("href"):
            self.links.append(values["href"] or "")
        self.blocked += [f"{tag} {name}" for name in values if name.startswith("on")]
        self.blocked += [f"{tag} style" for name in values if name == "style"]
        if tag == "style" or (tag == "script" and "src" not in values):
            self.blocked.append(tag)


def read(answer: Answer) -> Reader:
    assert answer.status == 200, answer.text[:500]
    reader = Reader()
    reader.feed(answer.text)
    assert reader.blocked == []
    return reader


def runs_of(client: Client) -> list[str]:
    return [link for link in read(client.get("/")).links if re.fullmatch(r"/runs/[\w-]+", link)]


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES)
def test_every_link_of_a_page_leads_somewhere(client: Client, path: str) -> None:
    for link in set(read(client.get(path)).links):
        if link.startswith("/"):
            assert client.get(link).status == 200, link


def test_the_list_has_every_run_and_names_the_broken_one(client: Client) -> None:
    answer = client.get("/")
    assert len(runs_of(client)) == 8
    assert re.search(r"broken is left out: ", answer.text)


def test_the_list_is_filtered_and_sorted_by_its_address(client: Client) -> None:
    assert 0 < len(runs_of_text(client.get("/?text=picohttpparser").text)) < 8
    assert "No run matches." in client.get("/?text=unheard-of").text
    up = runs_of_text(client.get("/?sort=trials&order=up").text)
    down = runs_of_text(client.get("/?sort=trials").text)
    assert up == down[::-1]
    assert len(up) == 8
    assert client.get("/?sort=nothing&after=gone").status == 200


def runs_of_text(text: str) -> list[str]:
    return re.findall(r'href="(/runs/[\w-]+)"', text)


def test_a_run_is_its_report(client: Client) -> None:
    for path in runs_of(client):
        answer = client.get(path)
        read(answer)
        assert answer.text.count("<h1>") == 1
    rebuilt = client.get(f"{runs_of(client)[0]}/report.html")
    assert rebuilt.headers["content-disposition"].startswith("attachment")
    assert "Content-Security-Policy" in rebuilt.text
    assert client.get(f"{runs_of(client)[0]}/report.json").text.startswith("{")
    assert client.get(f"{runs_of(client)[0]}/report.txt").text != ""
    assert "requests/s" in client.get(f"{runs_of(client)[0]}/report.txt").text
    assert client.get(f"{runs_of(client)[0]}/report.exe").status == 404


@pytest.mark.slow
def test_measuring_again_asks_for_the_same_rate_connections_and_baseline(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "one"
    shutil.copytree(RECORDS / "repeatability" / "54", folder)
    header = json.loads((folder / "run.json").read_text())
    header["workload"] |= {"rate_rps": 1000, "connection_mode": "close"}
    header["mode"] = "standard"
    targets = [one["target"] for one in header["arms"] if one["target"] != "floor"]
    assert targets != sorted(targets)
    (folder / "run.json").write_text(json.dumps(header))
    config = UiConfig(listen="127.0.0.1", port=0, roots=(tmp_path / "runs",), cache=tmp_path)
    with pages_in_thread(config) as link:
        client = client_of(link)
        (run,) = runs_of(client)
        again = next(one for one in read(client.get(run)).links if one.startswith("/start?"))
        request = from_argv(parse_qs(urlsplit(again).query)["word"])
        assert isinstance(request, ComparisonRequest)
        assert request.arms == tuple(targets)
        assert (request.rate, request.keepalive, request.quick) == (1000, False, False)
        form = client.get(again).text.partition("</form>")[0]
    assert re.findall(r'name="target" value="([^"]+)" checked', form) == targets
    assert 'value="standard" checked' in form
    assert 'value="1000"' in form


OPTIONS = "--closed-loop --for 90s --server-cores 0 --pairing paired"


def with_header(folder: Path, *, allows_commands: bool, **changes: object) -> tuple[str, str]:
    """The page of a kept run whose header is changed, and what its link leads to."""
    shutil.copytree(RECORDS / "repeatability" / "54", folder / "runs" / "one")
    file = folder / "runs" / "one" / "run.json"
    header = json.loads(file.read_text())
    header["workload"] |= changes.pop("workload", {})
    header["arms"][0] |= changes.pop("arm", {})
    file.write_text(json.dumps(header | changes))
    config = UiConfig(
        listen="127.0.0.1",
        port=0,
        roots=(folder / "runs",),
        cache=folder,
        allows_commands=allows_commands,
    )
    with pages_in_thread(config) as link:
        client = client_of(link)
        (run,) = runs_of(client)
        page = client.get(run).text
        links = read(client.get(run)).links
        again = [one for one in links if re.match(r"/start\?word=(?!.*explain=)", one)]
        return page, client.get(again[0]).text if again else ""


@pytest.mark.slow
def test_measuring_again_keeps_every_option_that_was_asked_for(tmp_path: Path) -> None:
    words = f"compare jissoku --blocks 20 {OPTIONS}".split()
    request = msgspec.to_builtins(from_argv(words))
    _, form = with_header(tmp_path, allows_commands=False, request=request)
    shown = re.search(r"Also as it was asked for: <code>(.*?)</code>", form)
    assert shown
    assert sorted(shown[1].split()) == sorted(OPTIONS.split())
    assert all(f'name="word" value="{word}"' in form for word in OPTIONS.split())
    assert 'placeholder="by precision" value="20"' in form
    assert re.findall(r'name="target" value="([^"]+)" checked', form) == ["jissoku"]


@pytest.mark.parametrize(
    ("query", "checked"),
    [
        ("word=compare&word=jissoku", ["jissoku"]),
        ("word=compare&word=--group&word=wsgi", []),
        ("word=compare&word=gone-1%3Dgone%401&target=", ["gone-1=gone@1"]),
    ],
)
def test_the_form_checks_the_targets_that_were_asked_for(
    query: str, checked: list[str], client: Client
) -> None:
    form = client.get(f"/start?{query}").text.partition("</form>")[0]
    assert re.findall(r'name="target" value="([^"]+)" checked', form) == checked


def test_a_target_is_explained_with_the_workload_of_its_run(client: Client) -> None:
    words = "word=compare&word=go&word=--path&word=%2F42&word=-c&word=8&word=--closed-loop"
    text = client.get(f"/start?{words}&explain=jissoku").text
    form = text.partition('id="explain"')[2]
    assert "<option selected>jissoku</option>" in form
    assert "<option selected>/42</option>" in form
    assert 'value="8"' in form


def test_words_that_are_no_request_are_refused_in_a_sentence(client: Client) -> None:
    answer = client.get("/start?word=compare&word=-R&word=fast")
    assert answer.status == 400
    assert "is not a rate" in answer.text


@pytest.mark.slow
def test_measuring_again_keeps_a_method_that_an_older_record_has(tmp_path: Path) -> None:
    _, form = with_header(tmp_path, allows_commands=False, workload={"method": "POST"})
    assert "<code>-m POST</code>" in form


@pytest.mark.slow
@pytest.mark.parametrize(
    ("request_", "command", "is_form"),
    [
        ("compare jissoku --cmd 'mine=./mine {port}'", "jissoku compare jissoku --cmd", True),
        ("compare --cmd mine=…/mine", "jissoku compare --cmd", False),
        ("bisect a b --cmd c", "jissoku bisect", False),
        ("tune nginx --config nginx.conf", "jissoku tune nginx --config nginx.conf", True),
    ],
)
def test_what_pages_do_not_start_is_a_command(
    tmp_path: Path, request_: str, command: str, *, is_form: bool
) -> None:
    asked = msgspec.to_builtins(from_argv(shlex.split(request_)))
    page, form = with_header(tmp_path / "a", allows_commands=False, request=asked)
    assert f"Measured again by <code>{command}" in page
    assert not form
    page, form = with_header(tmp_path / "b", allows_commands=True, request=asked)
    assert bool(form) is is_form
    assert ("Measured again by" in page) is not is_form


@pytest.mark.slow
def test_a_report_is_made_once_and_again_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []

    def report_text(folder: Path, kind: str) -> str:
        made.append(folder)
        return reports.report_text(folder, kind)

    monkeypatch.setattr(pages, "report_text", report_text)
    folder = tmp_path / "runs" / "one"
    shutil.copytree(RECORDS / "parsers" / "kept", folder)
    config = UiConfig(listen="127.0.0.1", port=0, roots=(tmp_path / "runs",), cache=tmp_path)
    with pages_in_thread(config) as link:
        client = client_of(link)
        (run,) = runs_of(client)
        first = client.get(run).text
        assert client.get(run).text == first
        assert made == [folder]
        kept = folder / "trials.jsonl.gz"
        lines = gzip.decompress(kept.read_bytes()).splitlines(keepends=True)
        kept.write_bytes(gzip.compress(b"".join(lines[:-1])))
        monkeypatch.setattr(run_index, "REFRESH_S", 0.0)
        (changed,) = runs_of(client)
        assert changed != run
        assert client.get(changed).status == 200
        assert made == [folder, folder]


def test_an_experiment_is_its_report(client: Client) -> None:
    (link,) = [one for one in read(client.get("/experiments")).links if one.startswith("/runs/")]
    answer = client.get(link)
    workloads = [one for one in read(answer).links if re.fullmatch(r"/runs/[\w-]+", one)]
    assert len(workloads) == 4
    assert "claims:" in answer.text
    assert answer.text.count("<h1>") == 1
    for path in workloads:
        assert f'href="{path}/experiment"' in client.get(path).text


def test_a_run_of_no_experiment_has_no_report_of_one(client: Client) -> None:
    single = runs_of_text(client.get("/?text=repeatability").text)[0]
    assert (
        "/experiment" not in client.get(single).text.partition("<footer>")[0].partition("<main")[2]
    )
    assert client.get(f"{single}/experiment").status == 404
    assert client.get("/runs/gone/experiment").status == 404


def test_hostile_names_are_text(client: Client) -> None:
    runs = runs_of(client)
    texts = {path: client.get(path).text for path in (*PAGES, *runs)}
    for path, text in texts.items():
        assert "<script>alert" not in text, path
        assert "<img" not in text, path
    assert any("&lt;script&gt;alert" in texts[path] for path in runs)


def test_two_runs_of_one_question_are_compared(client: Client) -> None:
    like = runs_of_text(client.get("/?text=repeatability").text)
    first, second = (path.removeprefix("/runs/") for path in like[:2])
    text = client.get(f"/diff?run={first}&run={second}").text
    assert "later / earlier" in text
    assert "the same program" in text


@pytest.mark.slow
def test_two_runs_of_different_questions_are_not(client: Client) -> None:
    first = runs_of_text(client.get("/?text=repeatability").text)[0].removeprefix("/runs/")
    second = runs_of_text(client.get("/?text=picohttpparser").text)[0].removeprefix("/runs/")
    text = client.get(f"/diff?run={first}&run={second}").text
    assert "Not comparable" in text
    assert "jissoku compare" in text
    assert client.get(f"/diff?run={first}").status == 400


def test_what_differs_between_two_runs_is_marked(client: Client) -> None:
    first = runs_of_text(client.get("/?text=repeatability").text)[0].removeprefix("/runs/")
    second = runs_of_text(client.get("/?text=picohttpparser").text)[0].removeprefix("/runs/")
    text = client.get(f"/diff?run={first}&run={second}").text
    marked = re.findall(r'<tr class="differs"><th scope="row">([\w ]+)<span', text)
    assert {"method", "result"} <= set(marked)
    assert "machine" not in marked


def test_a_board_has_a_table_for_each_question(client: Client) -> None:
    text = client.get("/board").text
    titles = re.findall(r"<h2>(.*?)</h2>", text)
    assert len(titles) == len(set(titles)) > 0
    assert all("multiple of" in title for title in titles)
    places = [one for one in read(client.get("/board")).links if one.startswith("/start?")]
    assert places
    request = from_argv(parse_qs(urlsplit(places[0]).query)["word"])
    assert isinstance(request, ComparisonRequest)
    assert len(request.arms) > 1
    assert request.connections == 64


def test_a_target_on_several_machines_has_a_row_for_each(tmp_path: Path) -> None:
    for number in (1, 2):
        folder = tmp_path / "runs" / str(number)
        record(folder, number, "0.1.0", 7_000)
        header = json.loads((folder / "run.json").read_text())
        header["machine"]["cpu_model"] = f"CPU {number}"
        (folder / "run.json").write_text(json.dumps(header))
    config = UiConfig(listen="127.0.0.1", port=0, roots=(tmp_path / "runs",), cache=tmp_path)
    with pages_in_thread(config) as link:
        client = client_of(link)
        text = client.get("/target?name=jissoku").text
        assert "more than floor on 2 of 2 machines" in text
        assert "2 machines: no statement about another one" in text


def test_a_folder_without_runs_is_said(tmp_path: Path) -> None:
    config = UiConfig(listen="::1", port=0, roots=(tmp_path,), cache=tmp_path / "cache")
    with pages_in_thread(config) as link:
        assert link.startswith("http://[::1]:")
    config = UiConfig(listen="127.0.0.1", port=0, roots=(tmp_path,), cache=tmp_path / "cache")
    with pages_in_thread(config) as link:
        client = client_of(link)
        assert "holds no run that can be read" in client.get("/").text
        for path in PAGES:
            assert client.get(path).status == 200


def test_an_index_of_another_version_is_neither_read_nor_changed(
    some_records: Path, tmp_path: Path
) -> None:
    other = tmp_path / "history" / "v0-other"
    other.mkdir(parents=True)
    (other / "part").write_text("of another version")
    config = UiConfig(listen="127.0.0.1", port=0, roots=(some_records / "parsers",), cache=tmp_path)
    with pages_in_thread(config) as link:
        assert len(runs_of(client_of(link))) == 4
    assert (other / "part").read_text() == "of another version"


def test_a_token_is_used_up_and_old_sessions_are_forgotten() -> None:
    access = Access()
    token = access.token
    first = access.enter(token)
    assert first is not None
    assert access.enter(token) is None
    sessions = [access.enter(access.token) for _ in range(40)]
    assert sessions[-1] is not None
    assert sessions[-1] in access.form_keys
    assert first not in access.form_keys
    assert len({access.form_keys[one] for one in sessions[-10:] if one}) == 10


@pytest.mark.parametrize("listen", ["127.0.0.2", "127.1.2.3", "::1"])
def test_pages_answer_at_every_loopback_address_that_is_accepted(
    some_records: Path, tmp_path: Path, listen: str
) -> None:
    config = UiConfig(
        listen=listen,
        port=0,
        roots=(some_records / "parsers",),
        cache=tmp_path,
        allows_commands=True,
    )
    with pages_in_thread(config) as link:
        client = client_of(link)
        assert client.get("/").status == 200
        assert client.get("/", Host="example.org").status == 421
