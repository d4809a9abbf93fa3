"""Servers that burn a part of a request's CPU time in a named function, and measure how much."""

import importlib.util
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "profiles" / "injected"

# The name of the function in each language.
NAMES = {
    "c": "injected_burn",
    "rust": "injected_burn",
    "go": "main.injectedBurn",
    "java": "Server.injectedBurn",
    "node": "injectedBurn",
    "express": "injectedBurn",
    "python": "injected_burn",
}

COMPILERS = {
    "c": "cc",
    "rust": "rustc",
    "go": "go",
    "java": "javac",
    "node": "node",
    "express": "npm",
    "python": sys.executable,
}

# What V8 inlines counts as its caller.
NOT_INLINED = "--no-turbo-inlining"

# Without its registry npm waits for minutes.
INSTALL_LIMIT_S = 100

# Servers of frameworks.py, each with the package that it needs.
FRAMEWORKS = {
    "http.server": "http",
    "asyncio": "asyncio",
    "gunicorn": "gunicorn",
    "uvicorn": "uvicorn",
    "flask": "flask",
    "django": "django",
    "tornado": "tornado",
}
NAMES |= dict.fromkeys(FRAMEWORKS, "injected_burn")


class ToolMissing(Exception):  # noqa: N818 - a reason to skip
    """The language's compiler or interpreter is not installed."""


def server(language: str, folder: Path) -> list[str]:
    """Builds a server, and returns its command without port and shares.

    Raises:
        ToolMissing: It cannot be built here.
    """
    if language in FRAMEWORKS:
        if importlib.util.find_spec(FRAMEWORKS[language]) is None:
            raise ToolMissing(language)
        return [sys.executable, str(SOURCES / "frameworks.py"), language]
    tool = shutil.which(COMPILERS[language])
    if tool is None:
        raise ToolMissing(COMPILERS[language])
    # By the name of Rust's crate, which is part of its functions' names.
    program = folder / f"injected-{language}"
    source = next(SOURCES.glob(f"server.{_suffix(language)}"))
    build: list[str] = []
    command = [str(program)]
    match language:
        case "c":
            # As distributions compile: without frame pointers.
            build = [tool, "-O2", "-g", "-fomit-frame-pointer", "-o", str(program), str(source)]
        case "rust":
            build = [tool, "-O", "-g", "--edition", "2024", "-o", str(program), str(source)]
        case "go":
            build = [tool, "build", "-o", str(program), str(source)]
        case "java":
            build = [tool, "-d", str(folder), str(source)]
            java = str(Path(tool).resolve().with_name("java"))
            kept = "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Server.*"
            command = [java, *kept, "-cp", str(folder), "Server"]
        case "node" | "express":
            return _node(language, source, folder)
        case _:
            command = [tool, str(source)]
    if build:
        subprocess.run(build, check=True, cwd=folder)
    return command


def _node(language: str, source: Path, folder: Path) -> list[str]:
    command = ["node", NOT_INLINED, str(source)]
    if language == "node":
        return command
    install = ["npm", "install", "--silent", "--no-audit", "--prefix", ".", "express@5"]
    try:
        subprocess.run(install, check=True, cwd=folder, timeout=INSTALL_LIMIT_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise ToolMissing("the package express") from error
    return ["env", f"NODE_PATH={folder / 'node_modules'}", "INJECTED_EXPRESS=1", *command]


def compiled(source: str, folder: Path) -> str:
    """The program of a C file, compiled as distributions do: without frame pointers.

    Raises:
        ToolMissing: There is no compiler.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise ToolMissing("cc")
    program = folder / Path(source).stem
    words = [compiler, "-O2", "-fomit-frame-pointer", "-o", str(program), str(SOURCES / source)]
    subprocess.run(words, check=True)
    return str(program)


def _suffix(language: str) -> str:
    names = {"rust": "rs", "node": "js", "express": "js", "python": "py"}
    return names.get(language, language)


@dataclass(frozen=True, slots=True)
class Truth:
    """What a server measured of itself by the end of its load."""

    requests: int
    burnt_ns_per_request: float


def read_truth(file: Path, window_ns: int) -> Truth:
    """The CPU time of the injected function per request in the last `window_ns`."""
    lines = [tuple(map(int, line.split())) for line in file.read_text().splitlines()]
    last = lines[-1]
    first = next(line for line in lines if line[0] >= last[0] - window_ns)
    requests = last[1] - first[1]
    return Truth(requests, (last[2] - first[2]) / requests)
