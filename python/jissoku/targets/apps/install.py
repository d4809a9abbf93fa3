"""Installs Python packages of exact versions into a folder of their own, unless they are there.

install.py FOLDER PACKAGE==VERSION...
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

STAMP = "installed.txt"


def main() -> None:
    folder, packages = Path(sys.argv[1]), sys.argv[2:]
    wanted = "\n".join([sys.version, *packages])
    stamp = folder / STAMP
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return
    # Beside it and then renamed, so that a half-made folder never passes for a whole one.
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--target"]
    done = subprocess.run([*command, str(fresh), *packages], check=False)
    if done.returncode:
        shutil.rmtree(fresh, ignore_errors=True)
        sys.exit(done.returncode)
    (fresh / STAMP).write_text(wanted, encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)


main()
