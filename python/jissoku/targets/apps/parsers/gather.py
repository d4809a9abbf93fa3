"""Gathers everything that the parsers are built from in one folder, so that Cargo finds it there.

gather.py FOLDER. The sources of our own parser and the request heads come with an installed
jissoku; in its repository they are those of the crates. The C sources of llhttp and http-parser are
fetched, as httptools publishes both, unless they are in the folder: pip gets the archive, and
refuses one whose hash is another.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

APP = Path(__file__).parent

WANTED = (
    "httptools==0.9.0"
    " --hash=sha256:d484ebb7e3a3f3597b0f645fbd1b85633674ca808c1f5ba11c2caf7c66f5c8b6\n"
)


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: gather.py FOLDER\n")
        return 2
    folder = Path(sys.argv[1])
    crates = APP.parents[4] / "crates"
    gathered = {"http/src": crates / "jissoku-http/src", "shapes": crates / "jissoku-load/shapes"}
    # The times of the files are kept, so that Cargo builds only what has changed.
    shutil.copytree(APP, folder, dirs_exist_ok=True)
    for name, source in gathered.items():
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(source if source.is_dir() else APP / name, folder / name)
    return 0 if (folder / "vendor").is_dir() else fetch(folder / "vendor")


def fetch(folder: Path) -> int:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        place = Path(scratch)
        wanted = place / "wanted.txt"
        wanted.write_text(WANTED, encoding="utf-8")
        options = ["--no-deps", "--no-binary", ":all:", "--require-hashes", "--quiet"]
        pip = [sys.executable, "-m", "pip", "download", *options]
        done = subprocess.run([*pip, "-d", scratch, "-r", str(wanted)], check=False)
        if done.returncode:
            sys.stderr.write("pip could not fetch the sources of llhttp and http-parser\n")
            return 1
        (archive,) = place.glob("httptools-*.tar.gz")
        with tarfile.open(archive) as tar:
            tar.extractall(place, filter="data")
        (vendor,) = place.glob("httptools-*/vendor")
        shutil.move(vendor, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
