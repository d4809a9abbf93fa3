"""Targets without a recipe of their own: `--cmd` and `--url`, another version, and a commit."""

import hashlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from jissoku.errors import InputError, TargetError
from jissoku.model import ListenArguments, Origin, Recipe, StartCommand, UnavailableTarget, updated
from jissoku.model.run import short_version
from jissoku.system import address
from jissoku.targets.placeholders import (
    APPS,
    BuildPaths,
    find_program,
    placeholders,
    run_program,
    search_path,
)
from jissoku.targets.prepare import PREPARE_LIMIT_S, PreparedTarget, prepare, sha256

# Text that the shell takes literally, and text in which it expands variables only.
QUOTED = re.compile(r"'[^']*'|\\.|\"(?P<expanded>(?:[^\"\\]|\\.)*)\"", re.DOTALL)
ESCAPED = re.compile(r"\\.", re.DOTALL)

OPERATOR = re.compile(r"[();<>|&]+")
EXPANSION = re.compile(r"`|\$[\w({@*#?!$-]", re.ASCII)


def plain_words(text: str, option: str) -> list[str]:
    """Splits a command line, given with `option`, by the quoting rules of a shell.

    InputError: its quotes do not match, or it has something that only a shell understands:
    operators, redirections, variables, command substitution.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"{option} {text!r} cannot be split into words: {error}") from error
    bare = QUOTED.sub(" ", text)
    quoted = [one["expanded"] or "" for one in QUOTED.finditer(text)]
    expanded = ESCAPED.sub(" ", " ".join([bare, *quoted]))
    found = OPERATOR.search(bare) or EXPANSION.search(expanded)
    if found is not None:
        raise InputError(
            f"{option} {text!r} is run without a shell, and {found[0]!r} needs one: write"
            f" {shlex.join(['sh', '-c', text])}, or put quotes around it if it is an argument"
        )
    return words


HERE = Path()

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class NamedCommand:
    """`NAME=COMMAND`, without a look at the disk; `listens` is the placeholder port or socket."""

    name: str
    words: tuple[str, ...]
    listens: str


def read_command(text: str) -> NamedCommand:
    """InputError: no name, no command, neither {port} nor {socket}, or both."""
    name, command = _split(text, "--cmd 'NAME=./my-server --port {port}'")
    words = tuple(plain_words(command, f"--cmd {name}:"))
    found = placeholders(words) & {"port", "socket"}
    if len(found) != 1:
        raise InputError(f"--cmd {name}: say once where it listens: write {{port}} or {{socket}}")
    return NamedCommand(name, words, listens=found.pop())


def from_command(text: str, place: BuildPaths, folder: Path = HERE) -> PreparedTarget:
    """Reads `NAME=COMMAND`, which is run without a shell, in `folder`.

    The provenance is a hash over the program and every file named in the command, since how
    it reports a version is unknown. InputError: as `read_command`, or there is no such program.
    """
    command = read_command(text)
    name, words = command.name, command.words
    program = find_program(str(folder.absolute() / words[0]) if "/" in words[0] else words[0])
    if program is None:
        raise InputError(f"--cmd {name}: no program {words[0]!r} was found")
    files = [program, *(folder / word for word in words[1:] if (folder / word).is_file())]
    together = hashlib.sha256("".join(map(sha256, files)).encode())
    return PreparedTarget(
        name=name,
        origin=Origin.COMMAND,
        version=f"sha256 {together.hexdigest()[:16]}",
        description="A command given on the command line; its first response is taken as the"
        " expected one.",
        binary_sha256=sha256(program),
        start=StartCommand(command=words),
        listen=ListenArguments(
            tcp=("{port}",) if command.listens == "port" else (),
            unix=("{socket}",) if command.listens == "socket" else (),
        ),
        values=place.values(name) | {"program": str(program)},
        folder=folder.absolute(),
        inherits=True,
    )


def from_url(text: str) -> PreparedTarget:
    """Reads `NAME=URL`, a server that another process started; InputError if it is none."""
    name, url = _split(text, "--url NAME=http://127.0.0.1:3000/")
    return PreparedTarget(
        name=name,
        origin=Origin.URL,
        version="unknown",
        description="An external server; its first response is taken as the expected one.",
        limitations="Unknown. It runs on the cores that it was started on.",
        address=address.parse(url),
    )


def _split(text: str, example: str) -> tuple[str, str]:
    name, equals, rest = text.partition("=")
    if not equals or not rest.strip():
        raise InputError(f"{text!r}: write {example}")
    if not NAME.fullmatch(name):
        raise InputError(f"{name!r} is not a name: use letters, digits, dots and hyphens")
    return name, rest.strip()


WHEEL = ".whl"

# A name and an exact version, as pip reads them.
PINNED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.+!_-]*")

# The folder's programs and modules take precedence over those of this Python, and over those of the
# working directory, which `python -m` would put first.
ENVIRONMENT: Mapping[str, str] = {
    "PYTHONPATH": "{site}",
    "PYTHONSAFEPATH": "1",
    "PATH": "{site}/bin:{path}",
}


def is_release(text: str) -> bool:
    return text.endswith(WHEEL) or PINNED.fullmatch(text) is not None


def check_release(release: str) -> None:
    if release.endswith(WHEEL) and not Path(release).is_file():
        raise InputError(f"--baseline {release}: there is no such wheel")


def from_release(text: str, release: str, place: BuildPaths) -> PreparedTarget:
    """Prepares `NAME=COMMAND` to be run with a wheel or a `PACKAGE==VERSION` of the index.

    InputError: there is no such wheel, or the command is malformed. TargetError: it cannot be
    installed; `stderr` is what pip reported.
    """
    site = _installed(release, place)
    prepared = from_command(text, place)
    assert prepared.start is not None, "a command starts"
    named = Path(release).name
    return replace(
        prepared,
        version=f"{named}, {prepared.version}",
        start=updated(prepared.start, environment=dict(ENVIRONMENT)),
        values=prepared.values | {"site": str(site), "path": search_path()},
        # The release is part of the program: two of them are different arms.
        source_sha256=hashlib.sha256(f"{site.name} {prepared.version}".encode()).hexdigest(),
    )


def _installed(release: str, place: BuildPaths) -> Path:
    check_release(release)
    key = release
    if release.endswith(WHEEL):
        wheel = Path(release).absolute()
        release, key = str(wheel), sha256(wheel)
    site = (place.cache / "releases" / hashlib.sha256(key.encode()).hexdigest()[:16]).absolute()
    site.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(APPS / "install.py"), str(site), release]
    try:
        code, output = run_program(command, PREPARE_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise TargetError(f"pip took longer than {PREPARE_LIMIT_S:g} s for {release}") from error
    if code:
        raise TargetError(f"{Path(release).name} cannot be installed", stderr=output[-2000:])
    return site


VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]*")


def split_version(target: str) -> tuple[str, str]:
    """The recipe's name and the version asked for, which is empty where none is named."""
    name, at, version = target.partition("@")
    if at and not VERSION.fullmatch(version):
        raise InputError(f"{target!r}: write TARGET@VERSION, such as granian-wsgi@2.7.1")
    return name, version


def prepare_version(
    recipe: Recipe, version: str, place: BuildPaths
) -> PreparedTarget | UnavailableTarget:
    """As `prepare`, in this version; one that does not exist fails to install."""
    other = pinned(recipe, version)
    apart = replace(place, cache=place.cache / f"{recipe.name}@{version}")
    found = prepare(recipe, place) if other is None else prepare(other, apart)
    if isinstance(found, UnavailableTarget) or short_version(found.version) == version:
        return found
    return UnavailableTarget(
        name=f"{recipe.name}@{version}",
        reason=f"its recipe uses the installed version, which is {found.version}",
        install_hint=f"--cmd '{recipe.name}-{version}=...' with a command that starts that version",
    )


def pinned(recipe: Recipe, version: str) -> Recipe | None:
    """The recipe with another version of the package that its first step installs.

    None where no step names a version: the recipe uses the installed program.
    """
    words = [word for step in recipe.build for word in step.command]
    package, equals, given = next((w for w in words if "==" in w), "").partition("==")
    if not equals:
        return None

    def other(word: str) -> str:
        word = f"{package}=={version}" if word == f"{package}=={given}" else word
        return word.replace(f"-{given}.dist-info", f"-{version}.dist-info")

    steps = (updated(step, command=tuple(map(other, step.command))) for step in recipe.build)
    return updated(recipe, binary=other(recipe.binary), build=tuple(steps))


BUILD_LIMIT_S = 1800.0
GIT_LIMIT_S = 300.0

HOOK_VARIABLES = ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE")


@dataclass(frozen=True, slots=True)
class Checkout:
    """A commit on disk; `folder` is the one in it that corresponds to the user's."""

    commit: str
    folder: Path


def resolve(ref: str) -> str:
    words = ("--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    return _git("rev-parse", *words, what=ref)


def commits_between(good: str, bad: str) -> tuple[str, ...]:
    """Commits after `good` up to `bad`, oldest first, along the first parents."""
    if good == bad:
        return ()
    span = f"{good}..{bad}"
    found = tuple(_git("rev-list", "--first-parent", "--reverse", span, what=span).split())
    parents = _git("log", "-1", "--format=%P", found[0], what=span).split() if found else []
    if parents[:1] != [good]:
        reason = f"{good[:12]} is no ancestor of {bad[:12]} along the first parents"
        raise InputError(f"{reason}{_shallow_hint()}")
    return found


def subject(commit: str) -> str:
    return _git("log", "-1", "--format=%s", commit, what=commit)


def subjects(good: str, bad: str) -> dict[str, str]:
    """The subjects of both commits and those between, by their full names."""
    words = ("--first-parent", "--format=%H %s")
    lines = _git("log", *words, f"{good}..{bad}", what=f"{good}..{bad}").splitlines()
    lines += _git("log", "-1", *words, good, what=good).splitlines()
    found = (line.partition(" ") for line in lines)
    return {commit: text for commit, _, text in found}


@contextmanager
def checkout(ref: str, build: str) -> Iterator[Checkout]:
    """Yields a ref that is built in a worktree of its own; TargetError if the build fails."""
    commit = resolve(ref)
    inside = _git("rev-parse", "--show-prefix", what=ref)
    with tempfile.TemporaryDirectory(prefix="jissoku-worktree-") as scratch:
        folder = Path(scratch) / "tree"
        try:
            _git("worktree", "add", "--quiet", "--detach", str(folder), commit, what=ref)
            found = Checkout(commit, folder / inside)
            run_build(build, found.folder)
            yield found
        finally:
            with suppress(InputError):  # Interrupted before the worktree existed.
                _git("worktree", "remove", "--force", str(folder), what=ref)


def build_words(build: str) -> list[str]:
    return plain_words(build, "--build")


def run_build(build: str, folder: Path) -> None:
    """TargetError: it failed; `stderr` has its output."""
    words = build_words(build)
    if not words:
        return
    code, output = _run_in(folder, words, BUILD_LIMIT_S)
    if code:
        raise TargetError(f"the build {build!r} exited with {code}", stderr=output[-2000:])


def _git(*words: str, what: str) -> str:
    code, output = _run_in(Path(), ["git", *words], GIT_LIMIT_S)
    output = output.strip()
    if code:
        reason = output.splitlines()[0] if output else "no such commit"
        raise InputError(f"git {words[0]} {what} failed: {reason}{_shallow_hint()}")
    return output


def _shallow_hint() -> str:
    """What to do if the repository around the working directory has only a part of its history."""
    words = ["git", "rev-parse", "--is-shallow-repository"]
    if _run_in(Path(), words, GIT_LIMIT_S) != (0, "true\n"):
        return ""
    return (
        ". This clone is shallow: fetch the whole history with `git fetch --unshallow`, or in a"
        " GitHub workflow with `fetch-depth: 0` of actions/checkout"
    )


def _run_in(folder: Path, words: Sequence[str], limit_s: float) -> tuple[int, str]:
    # A hook that runs us has set these for its own repository.
    environment = {name: text for name, text in os.environ.items() if name not in HOOK_VARIABLES}
    try:
        return run_program(words, limit_s, folder=folder, environment=environment)
    except OSError as error:
        raise TargetError(f"{words[0]} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise TargetError(f"{words[0]} took longer than {limit_s:g} s") from error
