"""Placeholders: `{port}` in a command, a file or an environment, and paths of this machine.

Only the names below are placeholders; other braces stay, because nginx's configuration has them.
"""

import grp
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from jissoku.errors import InputError

# What each of them stands for.
MEANINGS: dict[str, str] = tomllib.loads(
    files("jissoku.targets").joinpath("placeholders.toml").read_text(encoding="utf-8")
)

# Values of placeholders, by name.
Values = dict[str, str | tuple[str, ...]]

PLACEHOLDER = re.compile(r"\{([a-z][a-z_]*)\}")


def fill(words: Iterable[str], values: Mapping[str, str | tuple[str, ...]]) -> tuple[str, ...]:
    """Fills every placeholder that has a value.

    A value of several words replaces a word that consists of its placeholder alone, and is joined
    by spaces elsewhere. Placeholders without a value stay unchanged.
    """
    filled: list[str] = []
    for word in words:
        alone = PLACEHOLDER.fullmatch(word)
        value = values.get(alone[1]) if alone else None
        if isinstance(value, tuple):
            filled.extend(fill(value, values))
        else:
            filled.append(fill_text(word, values))
    return tuple(filled)


def fill_text(text: str, values: Mapping[str, str | tuple[str, ...]]) -> str:
    def one(placeholder: re.Match[str]) -> str:
        value = values.get(placeholder[1], placeholder[0])
        return value if isinstance(value, str) else " ".join(fill(value, values))

    return PLACEHOLDER.sub(one, text)


def placeholders(words: Iterable[str]) -> set[str]:
    return {placeholder[1] for word in words for placeholder in PLACEHOLDER.finditer(word)}


def require_no_placeholder(file: Path, text: str) -> None:
    """Rejects a user's text that has one of our placeholders, which would be filled by mistake."""
    if strange := placeholders([text]) & set(MEANINGS):
        name = min(strange)
        raise InputError(f"{file}: {{{name}}} means something here, and cannot be run as it is")


# Debian installs servers here, and these folders are not on an ordinary user's PATH.
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")

APPS = Path(__file__).parent / "apps"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPaths:
    """Folders of what was built for recipes, kept between runs, and of the contract's files."""

    cache: Path
    files: Path

    def values(self, recipe: str) -> Values:
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
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *SBIN])


def find_program(name: str) -> Path | None:
    found = shutil.which(name, path=search_path())
    return Path(found).absolute() if found else None


def find_module(name: str) -> Path | None:
    """The file of a Python module, which is not imported (packages above it are)."""
    with suppress(ImportError, ValueError):
        if (spec := importlib.util.find_spec(name)) is not None and spec.origin:
            return Path(spec.origin)
    return None


def find_header(name: str) -> bool:
    """Whether the C compiler finds a header, also in CPATH and the like.

    The compiler is run, not pkg-config: libev and POCO install no file for pkg-config.
    """
    compiler = find_program("cc")
    if compiler is None:
        return False
    text = f"#if !__has_include(<{name}>)\n#error\n#endif\n".encode()
    words = [str(compiler), "-E", "-x", "c", "-"]
    return subprocess.run(words, input=text, capture_output=True, check=False).returncode == 0


def run_program(
    command: Sequence[str],
    limit_s: float,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Runs a program to its end, without input. Returns its exit code, and all that it wrote."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=limit_s,
        check=False,
    )
    return done.returncode, done.stdout.decode(errors="replace")


def _name(look_up: Callable[[], str], number: int) -> str:
    try:
        return look_up()
    except KeyError:  # a container may run as a number without a name
        return str(number)
