"""Bad input to every verb: one clear sentence on standard error, exit code 2, nothing left
behind."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from jissoku.cli import NATIVE
from tests.conftest import Run, jissoku

TRACES = Path(__file__).parent / "traces"
TRACED = ["--arrival", f"trace:{TRACES}/whole.txt"]

CASES = {
    "an unknown verb": (["fly"], "`jissoku --help` lists them"),
    "a verb with a typo": (["comare", "go"], "did you mean compare?"),
    "a bisection with a name": (
        ["bisect", "HEAD", "HEAD", "--cmd", "mine=python serve.py {port}"],
        "leave out 'mine='",
    ),
    "a configuration that is not there": (
        ["tune", "nginx", "--config", "/nowhere/nginx.conf"],
        "/nowhere/nginx.conf: cannot be read: No such file or directory",
    ),
    "an unknown target": (["compare", "nginks", "go"], "did you mean nginx"),
    "one target twice": (["compare", "floor", "floor"], "two arms are called 'floor'"),
    "zero connections": (["compare", "floor", "jissoku", "-c", "0"], "0 is not in the range"),
    "a nonsense rate": (["compare", "floor", "jissoku", "-R", "fast"], "'fast' is not a rate"),
    "a rate of nothing": (["compare", "floor", "jissoku", "-R", "0"], "'0' is not a rate"),
    "no level": (["sweep", "jissoku", "--levels", "0,5"], "'0' is not a level"),
    "no header field": (["compare", "floor", "jissoku", "-H", "x"], "'x' is not a header field"),
    "a doctor that measures": (
        ["doctor", "--campaigns", "20"],
        "No such option '--campaigns'; see jissoku doctor --help",
    ),
    "an explanation for no time": (["explain", "jissoku", "--for", "soon"], "'soon' is not a time"),
    "no label": (["compare", "floor", "jissoku", "--label", "x"], "'x' is not a label"),
    "nothing to watch": (["watch"], "has no run with events.jsonl"),
    "a run without events": (["watch", "/nowhere"], "has no events.jsonl"),
    "a path without a slash": (["compare", "floor", "jissoku", "--path", "x"], "begins with /"),
    "no method": (["compare", "floor", "jissoku", "-m", "GE T"], "'GE T' is not a method"),
    "a path with a space": (["compare", "floor", "jissoku", "--path", "/a b"], "write %20"),
    "a path with a fragment": (["explain", "jissoku", "--path", "/a#b"], "write %23"),
    "a bound on an arm that is not there": (
        ["compare", "floor", "jissoku", "--fail-if", "cost(jisoku) > 1.01 x cost(floor)"],
        "no arm 'jisoku'; there are floor, jissoku",
    ),
    "a bound that ends early": (
        ["compare", "floor", "jissoku", "--fail-if", "cost(jissoku) >"],
        "--fail-if 'cost(jissoku) >': is incomplete",
    ),
    "a build of nothing": (
        ["compare", "floor", "jissoku", "--build", "make"],
        "--build requires --baseline",
    ),
    "a confirmation of nothing": (
        ["compare", "floor", "jissoku", "--confirm"],
        "--confirm requires --fail-if",
    ),
    "a part it cannot serve": (["compare", "floor", "jissoku", "--path", "/42"], "floor cannot"),
    "a body that is not there": (
        ["compare", "floor", "jissoku", "--body", "@/nowhere/at/all"],
        "No such file",
    ),
    "cores that are not there": (
        ["compare", "floor", "jissoku", "--server-cores", "9999"],
        "names no cores",
    ),
    "a raw request and a method": (
        ["compare", "floor", "jissoku", "--raw", __file__, "-m", "PUT"],
        "leave out -m",
    ),
    "WebSockets and a pipeline": (
        ["compare", "floor", "jissoku", "--websocket", "--pipeline", "2"],
        "--websocket and --pipeline exclude each other",
    ),
    "WebSockets and a connection for each message": (
        ["compare", "floor", "jissoku", "--websocket", "--no-keepalive"],
        "--websocket and --no-keepalive exclude each other",
    ),
    "a profile of WebSockets that are not kept": (
        ["profile", "jissoku", "--websocket", "--no-keepalive"],
        "--websocket and --no-keepalive exclude each other",
    ),
    "WebSockets over TLS": (
        ["load", "--websocket", "https://127.0.0.1:1/"],
        "WebSockets over TLS are not supported",
    ),
    "no raw request": (
        ["compare", "floor", "jissoku", "--raw", __file__],
        "ends with an empty line",
    ),
    "bursts at a rate": (
        ["compare", "floor", "jissoku", "-R", "1k", "--pipeline", "4"],
        "exclude each other",
    ),
    "a target without Unix sockets": (
        ["compare", "floor", "http-server", "--unix"],
        "http-server cannot listen on a Unix socket",
    ),
    "a command without a Unix socket": (
        ["compare", "floor", "--unix", "--cmd", "x=sleep {port}"],
        "write {socket}",
    ),
    "a command without a place": (["compare", "floor", "--cmd", "mine=true"], "{port}"),
    "the cost of an unknown tool": (["calibrate", "jissoku", "--cost", "wrkk"], "'wrkk'"),
    "the cost of no tool": (["calibrate", "--cost", "wrk"], "needs a tool"),
    "a cost without Unix sockets": (
        ["calibrate", "jissoku", "--cost", "ab", "--unix"],
        "ab has no Unix sockets",
    ),
    "a cost without a closed loop": (["calibrate", "jissoku", "--cost", "vegeta"], "closed loop"),
    "checks over Unix sockets": (["calibrate", "jissoku", "--unix"], "requires --cost"),
    "a command that is not there": (
        ["compare", "floor", "--cmd", "mine=/nowhere/server {port}"],
        "no program",
    ),
    "a command without a name": (["compare", "floor", "--cmd", "true {port}"], "--cmd"),
    "no URL": (["compare", "floor", "--url", "mine=ftp://x/"], "http://127.0.0.1"),
    "a folder that cannot be": (
        ["compare", "floor", "jissoku", "--out", "/proc/nowhere"],
        "cannot be written",
    ),
    "a time that is none": (["compare", "floor", "--for", "soon"], "'soon' is not a time"),
    "a precision that is none": (["compare", "floor", "--precision", "2"], "is not a precision"),
    "two ends of one run": (
        ["compare", "floor", "jissoku", "--for", "9s", "--blocks", "9"],
        "--for and --blocks exclude each other",
    ),
    "a precision of a run that ends by its bound": (
        ["compare", "floor", "go", "--precision", "1%", "--fail-if", "cost(go) > cost(floor)"],
        "--precision and --fail-if exclude each other",
    ),
    "no target to examine": (["conformance"], "name one target"),
    "two to examine": (["conformance", "jissoku", "--url", "x=http://a/"], "name one target"),
    "no such case": (["conformance", "jissoku", "--case", "x*"], "no case matches"),
    "no folder of cases": (
        ["conformance", "jissoku", "--cases", "/nowhere/at/all"],
        "cannot be read",
    ),
    "no target to sweep": (["sweep"], "name a target to sweep"),
    "a sweep of too few levels": (["sweep", "jissoku", "--levels", "1,2"], "at least 6"),
    "a sweep of nonsense levels": (["sweep", "jissoku", "--levels", "a-b"], "'a-b' is not a level"),
    "a sweep over nothing known": (["sweep", "jissoku", "--over", "luck"], "'luck'"),
    "a sweep of too few blocks": (["sweep", "jissoku", "--blocks", "2"], "3<=x"),
    "a forecast over rates": (
        ["sweep", "jissoku", "--over", "rate", "--at", "9"],
        "none is fitted over rates",
    ),
    "workers of a target that has none": (
        ["sweep", "http-server", "--over", "workers"],
        "takes no number of workers",
    ),
    "an unknown experiment": (["run", "static_tuning"], "did you mean static-tuning"),
    "an experiment like no other": (["run", "x"], "Ours are app-servers, delay, fan-out"),
    "no file of an experiment": (["run", "nowhere.toml"], "no such file"),
    "no run": (["report", "/nowhere/at/all"], "holds no run"),
    "a folder that cannot be published to": (
        ["publish", "/proc/nowhere"],
        "/proc/nowhere cannot be written (No such file or directory): name another folder",
    ),
    "no such target to describe": (["targets", "absent"], "no such target: 'absent'"),
    "nothing to serve": (["serve", "/nowhere/at/all"], "/nowhere/at/all"),
    "zero workers": (["serve", "--fixed", "x", "--workers", "0"], "--workers"),
    "a nonsense time": (["serve", "--fixed", "x", "--idle-time-max", "soon"], "soon"),
    "nowhere to listen": (["serve", "--fixed", "x", "--listen", "here"], "here"),
    "load with zero connections": (["load", "http://127.0.0.1:1/", "-c", "0", "-d", "1s"], "-c"),
    "load for a nonsense time": (["load", "http://127.0.0.1:1/", "-d", "soon"], "soon"),
    "load of no URL": (["load", "ftp://x", "-d", "1s"], "ftp://x"),
    "more threads than connections": (
        ["load", "http://127.0.0.1:1/", "-c", "1", "-t", "2", "-d", "1s"],
        "-t",
    ),
    "a raw request that is none": (
        ["load", "http://127.0.0.1:1/", "--raw", "/dev/null"],
        "is not exactly one HTTP request",
    ),
    "load by chance in a closed loop": (
        ["load", "http://127.0.0.1:1/", "--arrival", "poisson"],
        "--arrival requires -R",
    ),
    "an unknown arrival process": (
        ["load", "http://127.0.0.1:1/", "--arrival", "even"],
        "constant, poisson or trace:FILE",
    ),
    "a trace and a rate": (
        ["load", "http://127.0.0.1:1/", "-R", "9", *TRACED],
        "excludes -R",
    ),
    "a trace and a search": (
        [*["load", "http://127.0.0.1:1/", "--search", "p99<5ms"], *TRACED],
        "-R, --sweep and --search",
    ),
    "a trace for two servers": (
        ["load", "http://127.0.0.1:1/", "http://127.0.0.1:2/", *TRACED],
        "one URL",
    ),
    "a trace that is not there": (
        ["load", "http://127.0.0.1:1/", "--arrival", "trace:/nowhere/at/all"],
        "cannot read /nowhere/at/all",
    ),
    "a trace of nothing": (
        ["load", "http://127.0.0.1:1/", "--arrival", "trace:/dev/null"],
        "the trace is empty",
    ),
    "a trace that goes back": (
        ["load", "http://127.0.0.1:1/", "--arrival", f"trace:{TRACES}/decreasing.txt"],
        "decreasing.txt, line 4: 0.25 is less than the time before it",
    ),
    "a trace finer than a nanosecond": (
        ["load", "http://127.0.0.1:1/", "--arrival", f"trace:{TRACES}/too-fine.txt"],
        "at most 9 digits after the point",
    ),
    "a rate into nothing": (["load", "http://127.0.0.1:1/", "-R", "1k:"], "1k:50k"),
    "an objective without a bound": (["load", "http://127.0.0.1:1/", "--slo", "p99"], "p99<5ms"),
    "an unknown format": (["load", "http://127.0.0.1:1/", "--format", "xml"], "openmetrics"),
    "a self-test that is to last": (["load", "--self-test", "-d", "9s"], "need a URL"),
    "intervals of no length": (
        ["load", "http://127.0.0.1:1/", "--timeseries", "run.csv:9ms"],
        "give 10ms or more",
    ),
    "load of nothing": (["load"], "jissoku load: "),
    "an unknown option of load": (["load", "--quux"], "'--quux' found; see jissoku load --help"),
    "a misspelt option of load": (
        ["load", "--connection", "1", "http://127.0.0.1:1/"],
        "a similar argument exists: '--connections'",
    ),
    "wrk's options without a URL": (["load", "--from", "wrk -c 2"], "0 URLs"),
    "a check without a file": (["check"], "<FILE>; see jissoku check --help"),
    "a verb that has another name now": (["routes"], "jissoku check FILE [URL]"),
    "a verb that is an option now": (["wrk", "-c2", "http://127.0.0.1:1/"], "load --from 'wrk"),
    "a sample of nothing": (["sample"], "<PID>...; see jissoku sample --help"),
    "a sample of no process": (["sample", "0"], "0 is not in"),
    "a store that does not exist": (
        ["store", "get", "carts", "anna"],
        'there is no store "carts" in stores',
    ),
    "a folder without stores": (["store", "stats"], "there is no folder stores"),
    "a store of no name": (["store", "get", "a/b", "anna"], '"a/b" is no name of a store'),
    "a floor of an unknown kind": (["floor", "fly"], "see jissoku floor --help"),
    "an oracle with an unknown option": (["oracle", "--quux"], "see jissoku oracle --help"),
    "a script in another language": (
        ["load", "--from", "wrk -s x.lua http://127.0.0.1:1/"],
        "--from wrk: -s: Lua",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_refused_in_a_sentence(name: str, run: Run, tmp_path: Path) -> None:
    arguments, words = CASES[name]
    done = run(arguments, tmp_path)
    assert done.returncode == 2, done
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert "[Errno" not in done.stderr
    if arguments[0] in NATIVE:
        (sentence,) = done.stderr.splitlines()
        assert sentence.startswith(f"jissoku {arguments[0]}: ")
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


@pytest.mark.parametrize(
    "options",
    [("--body", "@/nowhere/at/all"), ("--server-cores", "9999"), ("--fail-if", "cost(x) > 1.01")],
)
def test_options_are_checked_before_anything_is_built(
    options: tuple[str, str], run: Run, tmp_path: Path
) -> None:
    done = run(["compare", "floor", "jissoku", *options], tmp_path)
    assert done.returncode == 2
    assert "Preparing" not in done.stderr


@pytest.mark.slow
def test_a_process_of_its_own_refuses_likewise(tmp_path: Path) -> None:
    arguments, words = CASES["an unknown target"]
    done = jissoku(*arguments, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_an_error(run: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        where = f"127.0.0.1:{listener.getsockname()[1]}"
        done = run(["serve", "--fixed", "x", "--listen", where], tmp_path)
    assert done.returncode == 2
    assert where in done.stderr


@pytest.mark.parametrize("verb", ["serve", "lab serve"])
@pytest.mark.parametrize("option", ["--workers=0", "--nonsense", "--listen=here"])
def test_messages_begin_with_the_verb_that_was_typed(
    verb: str, option: str, run: Run, tmp_path: Path
) -> None:
    done = run([*verb.split(), "--fixed", "x", option], tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"jissoku {verb}: ")
    assert done.stderr.count("jissoku serve") == (verb == "serve") * done.stderr.count("jissoku")


def test_a_malformed_recipe_is_reported_by_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('description = "x"\nparts = [\n')
    done = run(["compare", "--recipes", str(tmp_path), "mine", "floor"], tmp_path)
    assert done.returncode == 2
    assert "mine.toml" in done.stderr
    assert "line 2" in done.stderr


def test_a_refused_connection_is_a_failure_that_names_the_address(run: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    done = run(["load", url, "-d", "1s"], tmp_path)
    assert done.returncode == 1
    assert url.rstrip("/").removeprefix("http://") in done.stderr


@pytest.mark.parametrize("verb", ["compare", "sweep", "profile"])
def test_an_external_server_that_is_not_there_is_named_before_a_run(
    verb: str, run: Run, tmp_path: Path
) -> None:
    done = run([verb, "--url", f"mine=unix:{tmp_path}/absent.sock"], tmp_path)
    assert done.returncode == 1
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("jissoku: mine cannot be reached at unix:")
    assert sentence.endswith("start it first")
    assert list(tmp_path.iterdir()) == [], "nothing was begun"


def test_a_folder_that_holds_a_run_is_not_overwritten(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    done = run(["compare", "floor", "jissoku", "--out", str(tmp_path / "run")], tmp_path)
    assert done.returncode == 2
    assert "holds a run already" in done.stderr


@pytest.mark.parametrize(
    "verb",
    [
        "compare",
        "sweep",
        "conformance",
        "report",
        "targets",
        "doctor",
        "self-test",
        "serve",
        "load",
        "floor",
    ],
)
def test_every_verb_has_help(verb: str, run: Run, tmp_path: Path) -> None:
    done = run([verb, "--help"], tmp_path)
    assert done.returncode == 0
    assert "Usage" in done.stdout


# Ends with the names of these libraries that the command line in its arguments has imported.
LIBRARIES = """
import sys
from jissoku.cli import main
try:
    main()
except SystemExit as end:
    imported = {"numpy", "scipy"} & sys.modules.keys()
    sys.exit(f"{end.code} {sorted(imported)}")
"""


@pytest.mark.parametrize(
    "words",
    [
        "compare --nonsense",
        "compare no-such-server",
        "compare jissoku go --fail-if cost(go)",
        "sweep no-such-server",
        "bisect here there --cmd x",
        "run no-such-experiment",
        "explain no-such-server",
        "tune no-such-server",
        "profile --nonsense",
        "history --nonsense",
        "self-test --nonsense",
        "targets",
        "conformance --nonsense",
        "calibrate --nonsense",
        "calibrate no-such-tool",
        "calibrate jissoku --cost no-such-tool",
        "calibrate jissoku --cost ab --unix",
        "calibrate jissoku --checks C99",
    ],
)
def test_an_input_error_imports_no_large_library(words: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIBRARIES, *words.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    code = "0" if words == "targets" else "2"
    assert done.stderr.splitlines()[-1] == f"{code} []"
