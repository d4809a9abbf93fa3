"""Counts what requests execute, for the compiler: profile-guided optimisation.

python -m tests.training [--out FILE]

Builds the extension module with counters (as long as `make build` takes), serves and loads what
cases.toml lists, and writes the counts. `make build` gives them to the compiler, which places what
is executed often together, inlines it, and makes the rest small. Counts stay valid when code
changes: a function whose branches have changed is compiled without them. They do not with another
version of the compiler or of a crate, which names its functions anew; a test notices.

Needs llvm-profdata of the compiler's LLVM (`rustc -vV`) or a later one: from `rustup component add
llvm-tools`, or a package such as llvm-22.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PACKAGES = ROOT / "python"
COUNTS = ROOT / "crates" / "jissoku-python" / "counts.profdata"
CERTIFICATE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    " -subj /CN=localhost -keyout key.pem -out cert.pem"
)
SIZES = {"1k.bin": 1 << 10, "10k.bin": 10 << 10, "1m.bin": 1 << 20, "page.html": 4 << 10}
LIMIT_S = 120

DRIVERS = ("epoll", "uring")

# More of them change no decision of the compiler: with 60,000 the same instructions are executed.
REQUESTS = 20_000


class Training:
    """Starts servers and load generators whose counters are written to a folder."""

    def __init__(self, package: Path, counters: Path, folder: Path, requests: int) -> None:
        self._folder, self._requests = folder, requests
        # A process writes its counters when it exits: servers are ended by SIGTERM.
        pattern = str(counters / "%p.profraw")
        self._environment = os.environ | {
            "PYTHONPATH": str(package), "LLVM_PROFILE_FILE": pattern,
        }  # fmt: skip

    @contextmanager
    def serving(self, words: Sequence[str], listen: str = "") -> Iterator[str]:
        """Yields HOST:PORT of a server that is ready."""
        with subprocess.Popen(
            [*self._jissoku(*words), "--listen", f"127.0.0.1:0{listen}"],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
        ) as server:
            assert server.stdout is not None
            try:
                for line in server.stdout:
                    if found := re.search(r"listening on \w+://(127\.0\.0\.1:\d+)", line):
                        yield found[1]
                        return
                raise SystemExit(f"it did not start: {' '.join(words)}")
            finally:
                server.send_signal(signal.SIGTERM)
                server.wait(LIMIT_S)

    def load(self, url: str, words: Sequence[str]) -> None:
        """Ends the program if a response is not the one that is expected."""
        limit = [] if "-n" in words else ["-n", str(self._requests)]
        command = [*self._jissoku("load"), url, *limit, *words, "--format", "quiet"]
        done = subprocess.run(
            command, cwd=self._folder, env=self._environment, timeout=LIMIT_S, check=False
        )
        if done.returncode:
            raise SystemExit(f"exit code {done.returncode} of {' '.join(command[2:])}")

    @staticmethod
    def _jissoku(*words: str) -> list[str]:
        return [sys.executable, "-m", "jissoku", *words]


def run_cases(training: Training, cases: Mapping[str, Any], places: dict[str, str]) -> None:
    """Serves and loads one case after the other, with each driver."""
    for number, case in enumerate(cases["case"], 1):
        started = time.monotonic()
        command = case.get("command") or ["serve", *case["serve"]]
        for driver in DRIVERS:
            with _upstream(training, case, places) as behind:
                here = places | {"{upstream}": behind}
                words = [*_replaced(command, here), "--driver", driver]
                (config,) = _replaced([case.get("config", "")], here)
                Path(places["{store}"], "serve.toml").write_text(config)
                with training.serving(words) as address:
                    _load(training, case, cases["usual"], here, address)
        took = time.monotonic() - started
        sys.stdout.write(f"{number} of {len(cases['case'])}: {' '.join(command)} ({took:.0f} s)\n")
        sys.stdout.flush()


def _load(
    training: Training,
    case: Mapping[str, Any],
    usual: Mapping[str, Sequence[str]],
    places: Mapping[str, str],
    address: str,
) -> None:
    scheme, more = ("https", ["--insecure"]) if case.get("tls") else ("http", [])
    for path, *words in case["loads"]:
        for own in [words] if words else usual.values():
            training.load(f"{scheme}://{address}{path}", [*_replaced(own, places), *more])


@contextmanager
def _upstream(
    training: Training, case: Mapping[str, Any], places: Mapping[str, str]
) -> Iterator[str]:
    if "upstream" not in case:
        yield ""
        return
    words = _replaced(case["upstream"], places)
    with training.serving(["serve", *words], case.get("upstream_listen", "")) as address:
        yield address


def _replaced(words: Sequence[str], places: Mapping[str, str]) -> list[str]:
    found = list(words)
    for name, value in places.items():
        found = [word.replace(name, value) for word in found]
    return found


def _compiler(*words: str) -> str:
    return subprocess.check_output([shutil.which("rustc") or "rustc", *words], text=True)


def make_places(folder: Path) -> dict[str, str]:
    """Files to be served, and the places that cases name."""
    files, store = folder / "files", folder / "store"
    files.mkdir()
    store.mkdir()
    for file, size in SIZES.items():
        (files / file).write_bytes(bytes(size))
    subprocess.run(CERTIFICATE.split(), cwd=files, check=True, capture_output=True)
    return {
        "{files}": str(files),
        "{here}": str(HERE),
        "{examples}": str(ROOT / "docs" / "examples"),
        "{store}": str(store),
    }


def build(profile: str, folder: Path) -> Path:
    """Builds the package with counters as `make build` does; returns its folder."""
    target = ROOT / "target" / "training"
    flags = f"-Cprofile-generate={target / 'unused'}"
    maturin = Path(sys.executable).with_name("maturin")
    command = [
        str(maturin),
        "build",
        "--quiet",
        "--profile",
        profile,
        "--interpreter",
        sys.executable,
    ]
    subprocess.run(
        [*command, "--target-dir", str(target), "--out", str(folder)],
        cwd=ROOT,
        env=os.environ | {"RUSTFLAGS": flags},
        check=True,
    )
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def llvm_profdata() -> str:
    """The program that adds counters up; ends this one if there is none."""
    root = Path(_compiler("--print", "sysroot").strip())
    version = _compiler("-vV")
    llvm = version.partition("LLVM version: ")[2].partition(".")[0]
    own = [str(path) for path in root.glob("lib/rustlib/*/bin/llvm-profdata")]
    for name in (*own, f"llvm-profdata-{llvm}", "llvm-profdata"):
        if found := shutil.which(name):
            return found
    raise SystemExit(
        f"llvm-profdata of LLVM {llvm} is missing: rustup component add llvm-tools,"
        f" or install the package llvm-{llvm}"
    )


def main() -> None:
    """Builds, trains, and writes the counts."""
    description, _, more = (__doc__ or "").partition("\n\n")
    words = argparse.ArgumentParser(
        prog="python -m tests.training",
        description=description,
        epilog=more,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    words.add_argument("--out", type=Path, default=COUNTS, help="file of the counts")
    words.add_argument("--profile", default="release", help="profile of Cargo, such as wheel")
    words.add_argument("--requests", type=int, default=REQUESTS, help="requests of each load")
    words.add_argument("--package", type=Path, help="folder with a package that has counters")
    given = words.parse_args()
    adds, cases = llvm_profdata(), tomllib.loads((HERE / "cases.toml").read_text())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        counters = folder / "counters"
        counters.mkdir()
        places = make_places(folder)
        package = (given.package or build(given.profile, folder / "package")).resolve()
        run_cases(Training(package, counters, folder, given.requests), cases, places)
        command = [adds, "merge", "--sparse", "--output", str(given.out), str(counters)]
        subprocess.run(command, check=True)
    sys.stdout.write(f"{given.out}: {given.out.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
