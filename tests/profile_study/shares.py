"""Shares of an injected function, and differences of two servers, against what they measured."""

import functools
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jissoku.measure.sampler import FREQUENCY_SHORT_HZ
from tests.profile_study.checks import Check, Found
from tests.profile_study.injected import FRAMEWORKS, NAMES, read_truth, server

LANGUAGES = ("c", "rust", "go", "java", "node", "express", "python")
DIFFERENCE_LANGUAGES = ("c", "rust", "go", "node", "python")
PERMILLES = (100, 300, 600)

# How far a share may be off.
ERROR_MAX = {"c": 0.03, "rust": 0.03, "go": 0.03}
DEFAULT_ERROR_MAX = 0.05

# Two servers differ by the injected function of this many thousandths; how far its time may be off.
DIFFERENCE_PERMILLE = 300
DIFFERENCE_ERROR_MAX = 0.10

RUNS = 10
LIMIT_S = 280

# Fraction of a core that is busy: the more, the more samples in the same time.
BUSY = 0.85

# Python's frames are read 200 times a second, where others have 997 samples: in 6 s a share of 60 %
# had a standard error of 2.7 points.
WINDOW_S = dict.fromkeys(("python", *FRAMEWORKS), 12.0)
DIFFERENCE_WINDOW_S = dict.fromkeys(("python", *FRAMEWORKS), 12.0)
DEFAULT_WINDOW_S = 4.0

# A profile's own time beside its window: start, warm-up, names.
BESIDE_S = 4.0

# A JIT needs its first load to compile, and the first rate is that of a probe.
PROBE_RATE = "100"
PROBE_RATES = {"java": "20"}


@functools.cache
def _build_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="jissoku-study-"))


@functools.cache
def _command(language: str) -> tuple[str, ...]:
    return tuple(server(language, _build_folder()))


@functools.cache
def _rate(language: str) -> int:
    """The rate at which the server is as busy as it is to be."""
    words = [*_command(language), "{port}", "0", "1000"]
    rate = PROBE_RATES.get(language, PROBE_RATE)
    found = _profile({"probe": words}, _build_folder(), seed=0, seconds=1.0, rate=rate)
    total_ns: float = found["profiles"][0]["total_ns"]
    return max(1, round(BUSY * 1e9 / total_ns))


def _profile(
    commands: dict[str, list[str]],
    folder: Path,
    *,
    seed: int,
    seconds: float,
    rate: str,
) -> dict[str, Any]:
    arms = [w for name, line in commands.items() for w in ("--cmd", f"{name}={shlex.join(line)}")]
    options = ["--json", "-d", f"{seconds:g}", "-F", str(FREQUENCY_SHORT_HZ), "-R", rate]
    options += ["--seed", str(seed), "--out", "run"]
    shutil.rmtree(folder / "run", ignore_errors=True)
    done = subprocess.run(
        [sys.executable, "-m", "jissoku", "profile", *arms, *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def _measured(language: str, permille: int, rest: int, folder: Path, name: str) -> list[str]:
    truth = folder / f"{name}.txt"
    return [*_command(language), "{port}", str(permille), str(rest), str(truth)]


def share(language: str, permille: int, seed: int, folder: Path) -> Found:
    """One profile: the share of the injected function, and what the server measured."""
    command = _measured(language, permille, 1000 - permille, folder, "with")
    seconds = WINDOW_S.get(language, DEFAULT_WINDOW_S)
    rate = str(_rate(language))
    report = _profile({"with": command}, folder, seed=seed, seconds=seconds, rate=rate)
    (profile,) = report["profiles"]
    truth = read_truth(folder / "with.txt", round(0.9 * seconds * 1e9))
    row = _row(profile["functions"], language)
    total = profile["total_ns"]
    return {
        "truth": round(truth.burnt_ns_per_request / total, 4),
        "share": round((row["ns_with_callees"] if row else 0.0) / total, 4),
        "named": row is not None,
        "samples": row["samples"] if row else 0,
        "us_per_request": round(total / 1e3, 1),
    }


def _row(rows: list[dict[str, Any]], language: str) -> dict[str, Any] | None:
    # Rust's has the name of the crate before it.
    return next((row for row in rows if row["name"].endswith(NAMES[language])), None)


def share_passed(language: str, found: Found) -> bool:
    """Whether the name is right and the share is near enough."""
    error = abs(float(found["share"]) - float(found["truth"]))
    return bool(found["named"]) and error <= ERROR_MAX.get(language, DEFAULT_ERROR_MAX)


def share_summary(found: Sequence[Found]) -> str:
    """The largest error of a share."""
    errors = [abs(float(one["share"]) - float(one["truth"])) for one in found]
    return f"at most {100 * max(errors):.1f} points off"


def difference(language: str, seed: int, folder: Path) -> Found:
    """Two profiles: what the second has more of, and what it measured of it."""
    rest = 1000 - DIFFERENCE_PERMILLE
    commands = {
        "without": _measured(language, 0, rest, folder, "without"),
        "with": _measured(language, DIFFERENCE_PERMILLE, rest, folder, "with"),
    }
    seconds = DIFFERENCE_WINDOW_S.get(language, DEFAULT_WINDOW_S)
    rate = str(_rate(language))
    report = _profile(commands, folder, seed=seed, seconds=seconds, rate=rate)
    change = report["difference"]
    truth = read_truth(folder / "with.txt", round(0.9 * seconds * 1e9))
    first = change["functions"][0]
    row = _row(change["functions"], language)
    return {
        "truth_us": round(truth.burnt_ns_per_request / 1e3, 2),
        "found_us": round((row["difference_ns"] if row else 0.0) / 1e3, 2),
        "first": first["name"],
        "named": first is row,
    }


def difference_passed(found: Found) -> bool:
    """Whether it is named first, with a time near enough."""
    off = abs(float(found["found_us"]) / float(found["truth_us"]) - 1)
    return bool(found["named"]) and off <= DIFFERENCE_ERROR_MAX


def difference_summary(found: Sequence[Found]) -> str:
    """The largest error of a difference."""
    errors = [abs(float(one["found_us"]) / float(one["truth_us"]) - 1) for one in found]
    return f"at most {100 * max(errors):.0f} % off"


def _share_check(language: str, permille: int) -> Check:
    return Check(
        group="shares",
        name=f"{language}, {permille / 10:g} %",
        runs=RUNS,
        seconds=WINDOW_S.get(language, DEFAULT_WINDOW_S) + BESIDE_S,
        measure=functools.partial(share, language, permille),
        passed=functools.partial(share_passed, language),
        summary=share_summary,
        bound=f"{100 * ERROR_MAX.get(language, DEFAULT_ERROR_MAX):g} points",
    )


def _difference_check(language: str) -> Check:
    return Check(
        group="differences",
        name=language,
        runs=RUNS,
        seconds=2 * (DIFFERENCE_WINDOW_S.get(language, DEFAULT_WINDOW_S) + BESIDE_S),
        measure=functools.partial(difference, language),
        passed=difference_passed,
        summary=difference_summary,
        bound=f"{100 * DIFFERENCE_ERROR_MAX:g} %",
    )


CHECKS = (
    *(
        _share_check(language, permille)
        for language in (*LANGUAGES, *FRAMEWORKS)
        for permille in PERMILLES
    ),
    *(_difference_check(language) for language in DIFFERENCE_LANGUAGES),
)
