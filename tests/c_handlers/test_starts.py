"""How handlers are compiled and started, what is wrong with some, and reloads."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.c_handlers.conftest import HELLO, port_of, served, write
from tests.serving.server_process import COMMAND, PATIENCE_S, Load, ask, spawn

CC = shutil.which("cc") or "cc"

# Notes each call beside itself.
COMPILER = '#!/bin/sh\necho "$@" >>"$0.calls"\nexec cc "$@"\n'


def failure(file: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    """The exit code and the standard error of a server that does not start."""
    done = subprocess.run(
        [*COMMAND, str(file), "--listen", "127.0.0.1:0", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env={**os.environ, "XDG_CACHE_HOME": str(file.parent / ".cache"), **variables},
    )
    return done.returncode, done.stderr


def test_a_source_is_compiled_and_served(tmp_path: Path) -> None:
    with served(write(tmp_path, HELLO)) as (server, port):
        assert ask(port, "/?name=C") == (200, b"Hello, C!")
        assert ask(port, "/") == (200, b"Hello, !")
        server.wait_for(r"^serving the handler .*hello\.c with 1 worker process$")
        server.wait_for("^limits: request bodies of 1 MiB, ")
        server.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE_S) == 0


def test_a_shared_object_is_served_beside_files_by_several_workers(tmp_path: Path) -> None:
    header = Path(__file__).parents[2] / "crates" / "jissoku-handlers" / "include"
    library, source = tmp_path / "hello.so", write(tmp_path, HELLO)
    compiler = [CC, "-shared", "-fPIC", f"-I{header}", "-o", str(library), str(source)]
    subprocess.run(compiler, check=True)
    (tmp_path / "public").mkdir()
    write(tmp_path / "public", "a file", "page.txt")
    static = f"/files={tmp_path / 'public'}"
    log = tmp_path / "log"
    logging = ["--access-log", str(log), "--metrics", "127.0.0.1:0"]
    with served(library, "--static", static, "--workers", "2", *logging) as (server, port):
        metrics = int(server.wait_for(r"^metrics on http://127\.0\.0\.1:([0-9]+)/")[1])
        assert ask(port, "/?name=so") == (200, b"Hello, so!")
        assert ask(port, "/files/page.txt") == (200, b"a file")
        assert ask(port, "/files/nothing")[0] == 404
        while b'jissoku_requests_total{status="2xx"} 2' not in ask(metrics, "/metrics")[1]:
            pass
        assert b"jissoku_app_seconds_count 1" in ask(metrics, "/metrics")[1]
        server.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE_S) == 0
    assert "/?name=so" in log.read_text()


def test_an_unchanged_source_is_compiled_once(tmp_path: Path) -> None:
    compiler = write(tmp_path, COMPILER, "compiler")
    compiler.chmod(0o755)
    source = write(tmp_path, HELLO)
    calls = tmp_path / "compiler.calls"

    def compilations() -> int:
        return sum("-shared" in line for line in calls.read_text().splitlines())

    # A file of this moment may change again unnoticed.
    os.utime(source, (1, 1))
    for _ in range(2):
        with served(source, CC=f"{compiler} -g") as (_, port):
            assert ask(port)[0] == 200
    assert compilations() == 1
    with served(source, "--cflags", "-O0 -DX", "--libs=-lm", CC=str(compiler)) as (_, port):
        assert ask(port)[0] == 200
    assert compilations() == 2
    assert re.search("-O2 .* -O0 -DX .* -lm$", calls.read_text().splitlines()[-1])


def is_in_use(library: Path) -> bool:
    """Whether another process holds the lock of a file."""
    with library.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def wait_until_free(library: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while is_in_use(library):
        assert time.monotonic() < deadline, "nothing serves it any more"
        time.sleep(0.01)


def test_what_is_compiled_is_held_while_it_is_served(tmp_path: Path) -> None:
    source = write(tmp_path, HELLO)
    cache = tmp_path / ".cache" / "jissoku" / "handlers"
    with served(source) as (server, _):
        [first] = cache.glob("*.so")
        assert is_in_use(first)
        source.write_text(HELLO.replace("Hello", "Good evening"))
        server.reload()
        [second] = set(cache.glob("*.so")) - {first}
        assert is_in_use(second)
        # The old worker has it until it has ended.
        wait_until_free(first)
        assert is_in_use(second)
    wait_until_free(second)


def test_cpp_is_compiled_by_its_compiler(tmp_path: Path) -> None:
    if shutil.which("c++") is None:
        pytest.skip("there is no c++")
    with served(write(tmp_path, HELLO, "hello.cpp")) as (_, port):
        assert ask(port, "/?name=C%2B%2B") == (200, b"Hello, C++!")


START = HELLO + "int jsk_start(const jsk_api *js, void **state) { *state = (void *)js; "


@pytest.mark.parametrize(
    ("text", "code", "sentence"),
    [
        ("int x = ;", 2, r"hello\.c does not compile: cc has printed why \(exit status: 1\)"),
        ("#include <jissoku.h>\n", 2, r"hello\.c does not define the function jsk_handle"),
        ("int x;", 2, r"hello\.c is not a handler: it does not include jissoku\.h"),
        ("unsigned jsk_abi = 2;", 2, r"hello\.c is for version 2 of jissoku\.h, and this server"),
        (HELLO + "int f(void); int (*g)(void) = f;", 2, "cannot load .*: undefined symbol: f"),
        (START + "return 7; }", 1, r"hello\.c: jsk_start has returned 7"),
        (START + "__builtin_trap(); }", 1, r"worker 0 did not start \(signal 4\)"),
        (
            f"#include <stdlib.h>\n{START} exit(3); }}",
            1,
            r"worker 0 did not start \(exit code 3\)",
        ),
    ],
)
def test_a_handler_that_cannot_start_is_a_sentence(
    tmp_path: Path, text: str, code: int, sentence: str
) -> None:
    returned, said = failure(write(tmp_path, text))
    assert re.search(rf"^jissoku serve: .*{sentence}", said, re.MULTILINE), said
    assert returned == code
    assert len(re.findall("^jissoku serve: (?!the stack)", said, re.MULTILINE)) == 1, said
    crash = rf"at its end, in jsk_start of {tmp_path}/hello\.c:$"
    assert bool(re.search(crash, said, re.MULTILINE)) == ("trap" in text), said


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    code, said = failure(tmp_path / "nothing.c")
    assert (code, said.count("\n")) == (2, 1)
    assert "nothing.c: No such file or directory" in said
    code, said = failure(write(tmp_path, HELLO), CC="no-such-compiler -g")
    assert (code, said.count("\n")) == (2, 1)
    assert "cannot run the compiler no-such-compiler: No such file" in said


def test_the_messages_of_the_compiler_are_printed_as_they_are(tmp_path: Path) -> None:
    source = write(tmp_path, "int x = ;\n")
    compiled = subprocess.run(
        [CC, "-O2", "-shared", "-fPIC", "-Wall", "-o", "/dev/null", str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert compiled.stderr in failure(source)[1]


@pytest.mark.slow
def test_a_reload_compiles_and_a_source_that_does_not_compile_leaves_the_old_one(
    tmp_path: Path,
) -> None:
    source = write(tmp_path, HELLO)
    with served(source, "--workers", "2") as (server, port), Load(port) as load:
        source.write_text(HELLO.replace("Hello", "Good evening"))
        load.wait_for_answers()
        assert ask(port)[1] == b"Hello, !"
        server.reload()
        load.wait_for_answers()
        assert ask(port)[1] == b"Good evening, !"
        for broken, why in [
            ("int x = ;", r"hello\.c does not compile: "),
            ("int x;", "worker 0 did not start"),
        ]:
            source.write_text(broken)
            server.send_signal(signal.SIGHUP)
            server.wait_for(f"^jissoku serve: not reloaded: .*{why}")
            load.wait_for_answers()
            assert ask(port)[1] == b"Good evening, !"
        source.write_text(HELLO)
        server.reload()
        server.replace()
        load.wait_for_answers()
        assert ask(port)[1] == b"Hello, !"


@pytest.mark.slow
def test_a_changed_source_or_header_is_served_while_it_is_edited(tmp_path: Path) -> None:
    text = HELLO.replace("<jissoku.h>", '<jissoku.h>\n#include "deep/greeting.h"')
    source = write(tmp_path, text.replace('"Hello, ', 'GREETING ", '))
    (tmp_path / "deep").mkdir()
    header = write(tmp_path / "deep", '#define GREETING "Hello"\n', "greeting.h")
    with served(source, "--reload") as (server, port):
        assert ask(port)[1] == b"Hello, !"
        header.write_text('#define GREETING "Good morning"\n')
        server.wait_for("greeting.h has changed$")
        server.wait_for("^reloaded$")
        assert ask(port)[1] == b"Good morning, !"
        header.write_text("#error nothing\n")
        server.wait_for("^jissoku serve: not reloaded: ")
        assert any("#error nothing" in line for line in server.seen)
        assert ask(port)[1] == b"Good morning, !"
        header.write_text('#define GREETING "Good night"\n')
        server.wait_for("^reloaded$")
        assert ask(port)[1] == b"Good night, !"


def test_routes_have_handlers_with_variables_beside_other_content(tmp_path: Path) -> None:
    write(tmp_path, HELLO.replace("query", "variable"))
    write(tmp_path, HELLO.replace("Hello", "Length %zu").replace("JSK", "name.len, JSK"), "n.c")
    (tmp_path / "public").mkdir()
    write(tmp_path / "public", "a file", "page.txt")
    configuration = write(
        tmp_path,
        """
        [[route]]
        path = "/hello/{name}"
        methods = ["GET"]
        handler = "hello.c"
        [[route]]
        path = "/length"
        handler = "n.c"
        [[route]]
        path = "/again/{first}/{name}/**"
        handler = "hello.c"
        [[route]]
        path = "/**"
        folder = "public"
        """,
        "serve.toml",
    )
    variables = {"XDG_CACHE_HOME": str(tmp_path / ".cache")}
    server = spawn("--config", str(configuration), "--listen", "127.0.0.1:0", **variables)
    try:
        port = port_of(server)
        assert ask(port, "/hello/a%20%C3%A9") == (200, b"Hello, a \xc3\xa9!")
        assert ask(port, "/again/1/2/3/4") == (200, b"Hello, 2!")
        assert ask(port, "/length?name=four") == (200, b"Length 4, four!")
        assert ask(port, "/page.txt") == (200, b"a file")
        assert ask(port, "/hello")[0] == 404
        server.reload()
        assert ask(port, "/hello/C") == (200, b"Hello, C!")
    finally:
        server.end()


@pytest.mark.parametrize(
    ("route", "sentence"),
    [
        ('handler = "hello.py"', "line 2: handler is a file NAME.c, NAME.cpp or NAME.so, not "),
        ('handler = "nothing.c"', "nothing.c: No such file or directory"),
        (
            'handler = "hello.c"\n[[route]]\npath = "/b"\napp = "a:b"',
            "line 2: a server has handlers or an application, and a:b is one",
        ),
    ],
)
def test_a_route_names_a_handler(tmp_path: Path, route: str, sentence: str) -> None:
    write(tmp_path, HELLO)
    text = f'\n[[route]]\npath = "/a"\n{route}\n'
    configuration = write(tmp_path, text, "serve.toml")
    command = [*COMMAND[:-1], "check", str(configuration)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert sentence in done.stderr


def test_a_folder_of_others_is_not_used(tmp_path: Path) -> None:
    """The folder for compiled handlers: code that another user could replace is not run."""
    cache = tmp_path / ".cache" / "jissoku" / "handlers"
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    source = write(tmp_path, HELLO)
    with served(source, TMPDIR=str(temporary)) as (_, port):
        assert ask(port)[0] == 200
    assert list(cache.iterdir()) == []
    [fallback] = temporary.glob(f"jissoku-handlers-{os.geteuid()}")
    assert fallback.stat().st_mode & 0o777 == 0o700
    fallback.chmod(0o777)
    code, said = failure(source, TMPDIR=str(temporary))
    assert code == 2
    assert "other users can write to it; set XDG_CACHE_HOME" in said


def test_a_worker_begins_and_ends(tmp_path: Path) -> None:
    text = """
    #include <jissoku.h>
    #include <stdio.h>
    #include <stdlib.h>
    int jsk_start(const jsk_api *js, void **state) {
        int *count = malloc(sizeof *count);
        *count = js->version == JSK_ABI && JSK_HAS(js, printf) ? 40 : 0;
        *state = count;
        fprintf(stderr, "begins\\n");
        return 0;
    }
    int jsk_handle(const jsk_api *js, jsk_request *r) {
        return js->printf(r, 200, "%d", ++*(int *)js->state(r));
    }
    void jsk_stop(const jsk_api *js, void *state) {
        fprintf(stderr, "ends after %d of %u\\n", *(int *)state, js->version);
    }
    """
    with served(write(tmp_path, text)) as (server, port):
        assert [ask(port)[1] for _ in range(2)] == [b"41", b"42"]
        server.send_signal(signal.SIGTERM)
        server.wait_for("^ends after 42 of 1$")
        assert "begins" in server.seen
        assert server.process.wait(PATIENCE_S) == 0
