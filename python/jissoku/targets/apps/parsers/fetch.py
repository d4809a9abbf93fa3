"""Gets the C sources of llhttp and http-parser, as httptools publishes both, into a folder.

fetch.py FOLDER. Nothing is fetched when they are there already. pip gets the archive, and refuses
one whose hash is another.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

WANTED = (
    "httptools==0.9.0"
    " --hash=sha256:d484ebb7e3a3f3597b0f645fbd1b85633674ca808c1f5ba11c2caf7c66f5c8b6\n"
)


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: fetch.py FOLDER\n")
        return 2
    folder = Path(sys.argv[1])
    if folder.is_dir():
        return 0
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        place = Path(scratch)
        wanted = place / "wanted.txt"
        wanted.write_text(WANTED, encoding="utf-8")
        options = ["--no-deps", "--no-binary", ":all:", "--require-hashes", "--quiet"]
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            *options,
            "-d",
            scratch,
            "-r",
            str(wanted),
        ]
        done = subprocess.run(command, check=False)
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
