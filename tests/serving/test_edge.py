"""TLS certificates, the access log and metrics."""

import json
import re
import shutil
import signal
import ssl
import subprocess
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

import pytest

from tests.serving.server_process import COMMAND, PATIENCE_S, Start, ask

OPENSSL = shutil.which("openssl")
needs_openssl = pytest.mark.skipif(OPENSSL is None, reason="openssl makes the certificates")


def make_papers(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate for `localhost` by that name, and its key."""
    paths = folder / f"{name}.crt", folder / f"{name}.key"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    target = ["-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(paths[1]), "-out", str(paths[0])]
    command = [str(OPENSSL), "req", "-x509", *curve, *target, *files]
    subprocess.run(command, check=True, capture_output=True)
    return paths


def ask_securely(port: int, certificate: Path) -> tuple[int, bytes]:
    """Status and body of one response, from the server with exactly this certificate."""
    context = ssl.create_default_context(cafile=str(certificate))
    connection = HTTPSConnection("localhost", port, timeout=PATIENCE_S, context=context)
    try:
        connection.request("GET", "/", headers={"Connection": "close"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@needs_openssl
def test_a_reload_takes_the_new_certificate_and_leaves_a_bad_one(
    tmp_path: Path, start: Start
) -> None:
    old, old_key = make_papers(tmp_path, "old")
    new, new_key = make_papers(tmp_path, "new")
    used, used_key = tmp_path / "used.crt", tmp_path / "used.key"
    shutil.copy(old, used)
    shutil.copy(old_key, used_key)
    warnings = ["--tls-cert", str(used), "--tls-key", str(used_key)]
    served = start("--fixed", "x", "--listen", "127.0.0.1:0", *warnings)
    port = int(served.wait_for(r"^listening on https://127\.0\.0\.1:([0-9]+)/$")[1])
    assert ask_securely(port, old) == (200, b"x")

    shutil.copy(new, used)
    served.send_signal(signal.SIGHUP)
    served.wait_for("not reloaded: the key in .* does not belong to the certificate in ")
    assert ask_securely(port, old) == (200, b"x")

    shutil.copy(new_key, used_key)
    served.reload()
    assert ask_securely(port, new) == (200, b"x")
    with pytest.raises(ssl.SSLCertVerificationError):
        ask_securely(port, old)


@needs_openssl
def test_bad_papers_are_one_sentence_and_exit_2(tmp_path: Path) -> None:
    certificate, _ = make_papers(tmp_path, "one")
    _, key = make_papers(tmp_path, "other")
    warnings = ["--tls-cert", str(certificate), "--tls-key", str(key)]
    arguments = [*COMMAND, "--fixed", "x", "--listen", "127.0.0.1:0", *warnings]
    run = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == (
        f"jissoku serve: the key in {key} does not belong to the certificate in {certificate}\n"
    )


def test_the_log_is_opened_again_and_written_to_the_end(tmp_path: Path, start: Start) -> None:
    log, moved = tmp_path / "access.log", tmp_path / "access.log.1"
    warnings = ["--access-log", str(log), "--log-format", "json"]
    served = start("--fixed", "x", "--listen", "127.0.0.1:0", *warnings)
    port = int(served.wait_for(r"listening on http://127\.0\.0\.1:([0-9]+)/")[1])
    ask(port, "/before")
    log.rename(moved)
    served.send_signal(signal.SIGUSR1)
    # The existence of the file shows that it was opened; before that, lines may go to the old one.
    asked = 0
    while not log.exists():
        ask(port, "/between")
        asked += 1
        assert asked < 10_000
    served.reload()
    ask(port, "/after")
    served.process.terminate()
    assert served.process.wait(PATIENCE_S) == 0
    texts = [path.read_text() for path in (moved, log)]
    lines = [json.loads(line) for text in texts for line in text.splitlines()]
    # Each worker hands over its own lines, so they come in no common order.
    targets = sorted(line["target"] for line in lines)
    assert targets == ["/after", "/before", *["/between"] * asked]
    assert "/after" in texts[1]


def test_standard_output_can_be_the_log(start: Start) -> None:
    served = start("--fixed", "x", "--listen", "127.0.0.1:0", "--access-log", "-")
    port = int(served.wait_for(r"listening on http://127\.0\.0\.1:([0-9]+)/")[1])
    ask(port, "/seen")
    served.wait_for(r'^127\.0\.0\.1 - - \[.*\] "GET /seen HTTP/1\.1" 200 1 "-" "-"$')


def read_metrics(port: int) -> tuple[str, dict[str, float]]:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/metrics", headers={"Connection": "close"})
        response = connection.getresponse()
        kind, text = response.getheader("Content-Type", ""), response.read().decode()
    finally:
        connection.close()
    samples = re.findall(r"^([a-z_]+(?:\{.*\})?) ([0-9]+)$", text, re.MULTILINE)
    return kind, {name: float(value) for name, value in samples}


def read_until_refused(port: int) -> None:
    """Reads while it listens: it stops like any other server."""
    while read_metrics(port):
        pass


def test_a_reload_takes_another_log_and_serves_the_metrics_elsewhere(
    tmp_path: Path, start: Start
) -> None:
    config = tmp_path / "serve.toml"
    basis = "fixed = 'x'\nlisten = '127.0.0.1:0'\n"
    config.write_text(basis + "access-log = 'old.log'\n")
    served = start("--config", str(config))
    port = int(served.wait_for(r"listening on http://127\.0\.0\.1:([0-9]+)/")[1])
    ask(port, "/old")

    config.write_text(basis + "access-log = 'no/such/folder/new.log'\nmetrics = '127.0.0.1:0'\n")
    served.send_signal(signal.SIGHUP)
    served.wait_for("not reloaded: cannot write the access log .*no/such/folder/new.log")
    ask(port, "/still-old")

    new = "access-log = 'new.log'\nlog-format = 'json'\n"
    config.write_text(basis + new + "metrics = '127.0.0.1:0'\n")
    served.send_signal(signal.SIGHUP)
    metrics = int(served.wait_for(r"metrics on http://127\.0\.0\.1:([0-9]+)/metrics")[1])
    served.wait_for("^reloaded$")
    ask(port, "/new")
    assert read_metrics(metrics)[1]['jissoku_requests_total{status="2xx"}'] == 1

    config.write_text(basis + new)
    served.reload()
    ask(port, "/uncounted")
    with pytest.raises(ConnectionError):
        read_until_refused(metrics)
    served.process.terminate()
    assert served.process.wait(PATIENCE_S) == 0
    old = (tmp_path / "old.log").read_text()
    assert sorted(re.findall(r"GET (\S+)", old)) == ["/old", "/still-old"]
    lines = (tmp_path / "new.log").read_text().splitlines()
    assert sorted(json.loads(line)["target"] for line in lines) == ["/new", "/uncounted"]


def test_the_numbers_go_on_over_a_reload_and_begin_again_in_a_successor(start: Start) -> None:
    served = start("--fixed", "x", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
    port = int(served.wait_for(r"listening on http://127\.0\.0\.1:([0-9]+)/")[1])
    metrics = int(served.wait_for(r"metrics on http://127\.0\.0\.1:([0-9]+)/metrics")[1])
    answered = 'jissoku_requests_total{status="2xx"}'
    ask(port)
    served.reload()
    ask(port)
    kind, samples = read_metrics(metrics)
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    assert samples[answered] == 2

    served.replace()
    # The same ports. Until it has ended, the old process may still take a connection.
    served.process.wait(PATIENCE_S)
    ask(port)
    _, samples = read_metrics(metrics)
    assert samples[answered] == 1
