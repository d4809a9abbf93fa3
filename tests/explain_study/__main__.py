"""Whether injected causes are named, their remedies proven, and nothing named in clean servers.

python -m tests.explain_study OUT [--only TEXT] [--seconds S] [--named] [--table]

OUT/found.jsonl keeps a line for each server; those that it has are not run again.
"""

import argparse
import json
import os
import random
import shlex
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from jissoku.model import Decision
from jissoku.system.address import free_port
from tests.profile_study.causes import write_site

HERE = Path(__file__).parent
APPS = HERE / "apps"
LIMIT_S = 900
STARTED_LIMIT_S = 10.0

PACKAGES = ("express@5", "ejs@3")

# Not about a server, but about how it was measured, or true of each.
UNCOUNTED = frozenset(["memory-per-connection"])


def servers() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads((HERE / "servers.toml").read_text())["server"]
    return found


def prepare(out: Path) -> None:
    """Builds the program of Go and installs the packages of Node, once."""
    if not (out / "go-study").exists():
        command = ["go", "build", "-o", str(out / "go-study"), "."]
        subprocess.run(command, cwd=APPS / "go", check=True)
    if not (out / "node_modules").exists():
        command = ["npm", "install", "--silent", "--no-audit", "--prefix", str(out), *PACKAGES]
        subprocess.run(command, check=True)


@contextmanager
def _behind(site: Path, ports: tuple[int, int]) -> Iterator[None]:
    """The servers behind: a database, and one that serves the site."""
    database, served = map(str, ports)
    listen = ["--listen", f"127.0.0.1:{served}", "--workers", "1"]
    commands = (
        [sys.executable, str(HERE / "behind.py"), database],
        [sys.executable, "-m", "jissoku", "serve", str(site), *listen],
    )
    with ExitStack() as stack:
        for command in commands:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        for port in ports:
            _wait_for(port)
        yield


def _wait_for(port: int) -> None:
    end = time.monotonic() + STARTED_LIMIT_S
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port)):
                return
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def explained(server: dict[str, Any], out: Path, folder: Path, *, verifies: bool) -> dict[str, Any]:
    """Runs `explain` on a server, and `--verify` where a knob has to be proven."""
    case: dict[str, Any] = {"size": 2_000, "path": "/", "config": ""} | server
    ports = (free_port_of(server, "database"), free_port_of(server, "http"))
    texts = {"HTTP": f"127.0.0.1:{ports[1]}", "PYTHON": sys.executable, "APPS": str(APPS)}
    texts["GO"] = str(out / "go-study")
    for name, text in texts.items():
        case["config"] = case["config"].replace(name, text)
    words = write_site(folder, case)
    site = folder / "site"
    with sqlite3.connect(site / "shop.db") as connection:
        connection.execute("create table item (id integer primary key, name text)")
        rows = [(number, f"item {number}") for number in range(100)]
        connection.executemany("insert into item values (?, ?)", rows)
    if "command" in server:
        command = server["command"]
        for name, text in texts.items():
            command = command.replace(name, shlex.quote(text))
        words = ["--cmd", f"mine={command}", "--path", case["path"]]
    elif "recipe" in server:
        words = [server["recipe"]]
    elif server.get("program") == "haproxy":
        words[0] = "haproxy"
    words += ["--match", server["match"]] if "match" in server else []
    words += ["--verify"] if "knob" in server and verifies else []
    environment = os.environ | {
        "SITE": str(site),
        "DATABASE_PORT": str(ports[0]),
        "HTTP_PORT": str(ports[1]),
        "NODE_PATH": str(out / "node_modules"),
    }
    command = [sys.executable, "-m", "jissoku", "explain", *words, "--json", "--out", "run"]
    with _behind(site, ports):
        started = time.monotonic()
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
    return _read(server, done, time.monotonic() - started, out)


def free_port_of(server: dict[str, Any], what: str) -> int:
    return free_port(random.Random(f"{server['name']}/{what}"))


def _read(
    server: dict[str, Any], done: subprocess.CompletedProcess[str], seconds: float, out: Path
) -> dict[str, Any]:
    slug = "".join(c if c.isalnum() else "-" for c in server["name"])
    (out / f"{slug}.json").write_text(done.stdout)
    (out / f"{slug}.txt").write_text(done.stderr)
    found: dict[str, Any] = {
        "name": server["name"],
        "code": done.returncode,
        "seconds": round(seconds),
    }
    if done.returncode not in {0, 4}:
        return found | {"error": done.stderr.strip().splitlines()[-1:]}
    report = json.loads(done.stdout)
    names = {one["name"] for one in report["findings"] if one["scope"] == "server"} - UNCOUNTED
    expected = {server.get("cause"), *server.get("beside", ())}
    found |= {
        "named": sorted(names),
        "is_named": server.get("cause") in names,
        "false": sorted(names - expected),
        "failures": [one["probe"] for one in report["observations"]["failures"]],
    }
    verification = report.get("verification")
    if "knob" in server:
        results = verification["results"] if verification else []
        decided = {one["knob"]["name"]: one["decision"] for one in results}
        found["decision"] = decided.get(server["knob"], "not tried")
        found["is_proven"] = bool(verification) and server["knob"] in verification["kept"]
    return found


def table(found: dict[str, dict[str, Any]]) -> str:
    lines = ["server | cause | named | false causes | remedy | seconds", "--- | " * 5 + "---"]
    for server in servers():
        one = found.get(server["name"])
        if one is None:
            continue
        named = ("yes" if one.get("is_named") else "NO") if "cause" in server else ""
        remedy = ""
        if "knob" in server:
            is_proven = one.get("is_proven")
            decision = Decision.ACCEPTED if is_proven else one.get("decision")
            remedy = f"{server['knob']}: {'proven' if is_proven else decision}"
        false = ", ".join(one.get("false", ())) or one.get("error", "")
        lines.append(
            f"{server['name']} | {server.get('cause', '')} | {named} | {false} | {remedy} |"
            f" {one['seconds']}"
        )
    injected = [found[one["name"]] for one in servers() if "cause" in one and one["name"] in found]
    clean = [found[one["name"]] for one in servers() if "cause" not in one and one["name"] in found]
    proven = [one for one in injected if "decision" in one]
    lines.append(
        f"\n{sum(bool(one.get('is_named')) for one in injected)} of {len(injected)} causes named,"
        f" {sum(bool(one['is_proven']) for one in proven)} of {len(proven)} remedies proven,"
        f" a false cause in {sum(bool(one.get('false')) for one in injected)} of {len(injected)}"
        f" injected and {sum(bool(one.get('false')) for one in clean)} of {len(clean)} clean ones"
    )
    return "\n".join(lines) + "\n"


def main() -> int:
    words = argparse.ArgumentParser(prog="python -m tests.explain_study", description=__doc__)
    words.add_argument("out", type=Path, help="where results are kept")
    words.add_argument("--only", default="", help="servers whose name has this text")
    words.add_argument("--seconds", type=float, default=1e9, help="begin no server later than this")
    words.add_argument("--named", action="store_true", help="prove no remedies")
    words.add_argument("--table", action="store_true", help="print what is kept, and run nothing")
    asked = words.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    kept = asked.out / "found.jsonl"
    lines = kept.read_text().splitlines() if kept.exists() else []
    found = {one["name"]: one for one in map(json.loads, lines)}
    if not asked.table:
        out = asked.out.absolute()
        prepare(out)
        end = time.monotonic() + asked.seconds
        for server in servers():
            if server["name"] in found or asked.only not in server["name"]:
                continue
            if time.monotonic() > end:
                break
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                one = explained(server, out, Path(folder), verifies=not asked.named)
            found[one["name"]] = one
            with kept.open("a") as file:
                file.write(json.dumps(one) + "\n")
            sys.stderr.write(f"{json.dumps(one)}\n")
    sys.stdout.write(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
