"""The rules of how a program is built and started, and of what it is not asked for."""

from itertools import pairwise
from pathlib import PurePosixPath

from jissoku.explain.causes import SAMPLES_MIN, WORK, finding
from jissoku.model.explanation import Finding, Observations, ProcessInfo

# Signs of a program that is built or started for debugging.
SANITIZERS = ("libasan.so", "libtsan.so", "libubsan.so", "liblsan.so", "vgpreload")
FLAGS = frozenset(["--inspect", "--debug", "-Xdev", "--dev"])

# Servers of frameworks for development, by what they call themselves, and by how they are started.
SERVERS = {
    "Werkzeug/": "Flask's development server (flask run, app.run())",
    "WSGIServer/": "wsgiref's server (runserver of Django)",
}
RELOADING = {"runserver": "Django's development server", "--reload": "a server that reloads"}

# What variables of the environment are set to in such a program.
DEBUG_VARIABLES = frozenset(
    (
        *("FLASK_DEBUG=1", "WERKZEUG_RUN_MAIN=true", "PYTHONASYNCIODEBUG=1", "PYTHONDEVMODE=1"),
        "NODE_ENV=development",
    )
)


def debug_build(observed: Observations) -> Finding | None:
    """Looks at paths, flags and libraries of the processes, and for checks on the stacks."""
    programs = observed.load.processes if observed.load is not None else ()
    signs = sorted({sign for program in programs for sign in _debug_signs(program)})
    if observed.profile is not None:
        checks = WORK["checks-of-a-debug-build"]
        found = observed.profile.share(checks.matches)
        if found.samples >= SAMPLES_MIN and found.share >= checks.share_min:
            signs.append(
                f"{found.share:.0%} of the CPU time is in checks of a debug build, mostly in"
                f" {found.innermost[0][0]}"
            )
    return finding("debug-build", *signs) if signs else None


def _debug_signs(program: ProcessInfo) -> list[str]:
    path = PurePosixPath(program.executable)
    signs = []
    if "debug" in path.parts[:-1]:
        signs.append(f"{path.name} comes from a folder called debug")
    names = (PurePosixPath(library).name for library in program.libraries)
    signs += [f"{name} is loaded" for name in names if name.startswith(SANITIZERS)]
    words = program.arguments[1:]
    # `-X dev` may be two words.
    words += tuple(f"-X{word}" for flag, word in pairwise(words) if flag == "-X")
    signs += [
        f"{path.name} was started with {word}" for word in words if word.partition("=")[0] in FLAGS
    ]
    settings = (f"{name}={value}" for name, value in program.variables.items())
    signs += [f"{path.name} has {one}" for one in settings if one in DEBUG_VARIABLES]
    return signs


def development_server(observed: Observations) -> Finding | None:
    """Looks at what the server calls itself, and at command lines.

    Express is in its development mode unless NODE_ENV says otherwise.
    """
    wire, programs = observed.wire, observed.load.processes if observed.load is not None else ()
    which = [name for sign, name in SERVERS.items() if wire and wire.server.startswith(sign)]
    signs = [f"its answers have the field Server: {wire.server}"] if wire and which else []
    for program in programs:
        name = PurePosixPath(program.executable).name
        for word in program.arguments[1:]:
            if word in RELOADING:
                which.append(RELOADING[word])
                signs.append(f"{name} was started with {word}")
    modes = [one.variables.get("NODE_ENV") for one in programs]
    if wire and wire.powered_by == "Express" and programs and "production" not in modes:
        which.append("Express in its development mode")
        signs.append("NODE_ENV is not production: templates are read anew, and errors have stacks")
    if not signs:
        return None
    return finding("development-server", *dict.fromkeys(signs), which=which[0])


def compression_unasked(observed: Observations) -> Finding | None:
    """Compares an answer with that to a client which accepts compressed ones."""
    coding = observed.wire.compresses if observed.wire is not None else ""
    if not coding:
        return None
    return finding(
        "compression-unasked",
        f"an answer to a client that accepts it has Content-Encoding: {coding}",
        coding=coding,
    )
