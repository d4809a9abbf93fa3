"""Prints the installed versions of Python packages, and Python's own: the servers' provenance.

versions.py PACKAGE...
"""

import platform
import sys
from importlib import metadata


def version(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"no {package}"


said = [*map(version, sys.argv[1:]), f"Python {platform.python_version()}"]
sys.stdout.write(", ".join(said) + "\n")
