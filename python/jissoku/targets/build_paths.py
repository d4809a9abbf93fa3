"""The paths on this machine that replace the placeholders of recipes."""

import grp
import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Debian installs servers here, and these folders are not on an ordinary user's PATH.
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")

APPS = Path(__file__).parent / "apps"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPaths:
    """The folders targets are built in and served from.

    Attributes:
        cache: Has a folder for each recipe that has to be built; kept between runs, and created
            when needed.
        files: The contract's files, as `files.make` leaves them.
    """

    cache: Path
    files: Path

    def values(self, recipe: str) -> dict[str, str | tuple[str, ...]]:
        """Values of the placeholders that do not depend on a start."""
        return {
            "apps": str(APPS),
            "cache": str((self.cache / recipe).absolute()),
            "files": str(self.files.absolute()),
            "group": _name(lambda: grp.getgrgid(os.getgid()).gr_name, os.getgid()),
            "jissoku": str(Path(sys.executable).with_name("jissoku")),
            "python": sys.executable,
            "user": _name(lambda: pwd.getpwuid(os.getuid()).pw_name, os.getuid()),
        }


def default_cache() -> Path:
    """The user's folder for built targets (XDG base directory specification)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(base) if Path(base).is_absolute() else Path("~/.cache").expanduser()
    return home / "jissoku"


def search_path() -> str:
    """The user's PATH, and Debian's folders for servers after it."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *SBIN])


def find_program(name: str) -> Path | None:
    """Finds a program by its name on the search path, or by its path; None if not found."""
    found = shutil.which(name, path=search_path())
    return Path(found).absolute() if found else None


def find_module(name: str) -> Path | None:
    """Finds the file of a Python module without importing it (packages above it are imported)."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin else None


def find_header(name: str) -> bool:
    """Whether the C compiler finds a header, also in CPATH and the like.

    The compiler is run, not pkg-config: libev and POCO install no file for pkg-config.
    """
    compiler = find_program("cc")
    if compiler is None:
        return False
    asked = subprocess.run(
        [compiler, "-E", "-x", "c", "-"],
        input=f"#if !__has_include(<{name}>)\n#error\n#endif\n".encode(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return asked.returncode == 0


def _name(look_up: Callable[[], str], number: int) -> str:
    try:
        return look_up()
    except KeyError:  # a container may run as a number without a name
        return str(number)
