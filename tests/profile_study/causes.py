"""Causes in user space: configurations and servers that have one, and servers that have none.

Only functions are observed, because no other probe has a part in these causes. With `--verify` the
knob of a cause is tested too, which takes a minute.
"""

import functools
import gzip
import json
import random
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jissoku.explain.causes import CPU_CAUSES
from jissoku.model import Decision
from tests.profile_study.checks import Check, Found
from tests.profile_study.injected import ToolMissing

CASES = Path(__file__).with_name("causes.toml")

# Servers as their recipes start them.
CLEAN = (
    "jissoku",
    "nginx-tuned",
    "go",
    "node",
    "uvicorn",
    "tornado",
    "granian",
    "http-server",
    "h2o",
    "lighttpd",
)

# A long page has more words than a short one: of six alone, 100 KB take level 9 of deflate 35 ms,
# because everything matches everywhere, and of as many as here 5 ms, as texts of people do.
FEW_WORDS = ("the", "answer", "is", "not", "the", "question")
WORDS, LETTERS = 3_000, "etaoinshrdlucmfwyp"
PAGE_MIN = 50_000

NAMED_RUNS = 10
CLEAN_RUNS = 5
SECONDS = 7.0
VERIFIED_SECONDS = 90.0
LIMIT_S = 500

# Causes that this study is about.
NAMES = {cause.name for cause in CPU_CAUSES} | {"debug-build"}


def cases() -> list[dict[str, Any]]:
    """Configurations of nginx, each with a cause and the knob that removes it."""
    found: list[dict[str, Any]] = tomllib.loads(CASES.read_text())["case"]
    return found


def _explain(words: Sequence[str], folder: Path, seed: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "jissoku", "explain", *words, "--json", "--seed", str(seed)]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    if done.returncode not in {0, 4}:
        raise RuntimeError(done.stderr)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def _causes(report: dict[str, Any]) -> set[str]:
    return {found["name"] for found in report["findings"]} & NAMES


def write_site(folder: Path, case: dict[str, Any]) -> list[str]:
    """Writes a configuration and its files; returns the words that `explain` needs."""
    files = folder / "site"
    files.mkdir()
    words = random.Random(1).choices(FEW_WORDS, k=40_000)
    if case["size"] >= PAGE_MIN:
        words = _many_words(random.Random(1))
    text = " ".join(words)[: case["size"]]
    (files / "page.html").write_text(text)
    if case.get("has_gz"):
        (files / "page.html.gz").write_bytes(gzip.compress(text.encode(), 9))
    config = folder / "nginx.conf"
    config.write_text(case["config"].replace("SITE", str(files)))
    if "ssl_certificate" in case["config"]:
        _write_certificate(files)
    headers = ["-H", "Accept-Encoding: gzip"]
    return ["nginx", "--config", str(config), "--path", case["path"], *headers]


def _many_words(rng: random.Random) -> list[str]:
    known = ["".join(rng.choices(LETTERS, k=rng.randint(2, 10))) for _ in range(WORDS)]
    return rng.choices(known, [rank**-0.7 for rank in range(1, WORDS + 1)], k=40_000)


def _write_certificate(folder: Path) -> None:
    """A certificate with a key of RSA, as most have that name no other kind."""
    subject = ["-x509", "-days", "2", "-subj", "/CN=localhost", "-newkey", "rsa:2048", "-nodes"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    openssl = shutil.which("openssl")
    if openssl is None:
        raise ToolMissing("openssl")
    subprocess.run([openssl, "req", *subject, *files], check=True, capture_output=True)


def named(case: dict[str, Any], seed: int, folder: Path) -> Found:
    """Which causes are named in a configuration that has one."""
    words = [*write_site(folder, case), "--probe", "functions"]
    causes = _causes(_explain(words, folder, seed))
    others = sorted(causes - {case["cause"], *case.get("beside", ())})
    return {"named": case["cause"] in causes, "others": " ".join(others)}


def verified(case: dict[str, Any], seed: int, folder: Path) -> Found:
    """Whether the knob is proven, and written as a diff."""
    words = [*write_site(folder, case), "--probe", "functions", "--verify", "--out", "run"]
    report = _explain(words, folder, seed)
    results = report["verification"]["results"] if report.get("verification") else []
    decisions = {one["knob"]["name"]: one["decision"] for one in results}
    diff = "".join(path.read_text() for path in (folder / "run").rglob("*.diff"))
    return {"decision": decisions.get(case["knob"], "none"), "diff": case["directive"] in diff}


def clean(name: str, seed: int, folder: Path) -> Found:
    """Which of these causes are named in a server that has none."""
    report = _explain([name, "--probe", "functions"], folder, seed)
    return {"others": " ".join(sorted(_causes(report)))}


def named_passed(found: Found) -> bool:
    """Whether the cause is named, and no other."""
    return bool(found["named"]) and not found["others"]


def clean_passed(found: Found) -> bool:
    """Whether no cause is named."""
    return not found["others"]


def verified_passed(found: Found) -> bool:
    """Whether the knob is accepted, and the diff has it."""
    return found["decision"] == Decision.ACCEPTED and bool(found["diff"])


def named_summary(found: Sequence[Found]) -> str:
    """How often it was named, and what else."""
    count = sum(bool(one["named"]) for one in found)
    return f"named in {count} of {len(found)}{_others(found)}"


def clean_summary(found: Sequence[Found]) -> str:
    """What was named."""
    return "nothing named" if not _others(found) else f"false{_others(found)}"


def verified_summary(found: Sequence[Found]) -> str:
    """How often the knob was accepted."""
    count = sum(map(verified_passed, found))
    return f"accepted, with a diff, in {count} of {len(found)}"


def _others(found: Sequence[Found]) -> str:
    counts = Counter(name for one in found for name in str(one["others"]).split())
    return "".join(f"; {name} {count} times" for name, count in counts.items())


def _checks(case: dict[str, Any]) -> tuple[Check, Check]:
    return (
        Check(
            group="causes",
            name=case["name"],
            runs=NAMED_RUNS,
            seconds=SECONDS,
            measure=functools.partial(named, case),
            passed=named_passed,
            summary=named_summary,
            bound=f"{case['cause']}, nothing else",
        ),
        Check(
            group="knobs",
            name=case["name"],
            runs=1,
            seconds=VERIFIED_SECONDS,
            measure=functools.partial(verified, case),
            passed=verified_passed,
            summary=verified_summary,
            bound=f"{case['knob']} accepted",
        ),
    )


def _clean_check(name: str) -> Check:
    return Check(
        group="clean servers",
        name=name,
        runs=CLEAN_RUNS,
        seconds=SECONDS,
        measure=functools.partial(clean, name),
        passed=clean_passed,
        summary=clean_summary,
        bound="nothing",
    )


_BY_CASE = [_checks(case) for case in cases()]

CHECKS = (
    *(pair[0] for pair in _BY_CASE),
    *(pair[1] for pair in _BY_CASE),
    *map(_clean_check, CLEAN),
)
