"""The program is built or started for debugging."""

from pathlib import PurePosixPath

from jissoku.model.finding import Finding
from jissoku.model.observed import Observations, ProcessInfo

SANITIZERS = ("libasan.so", "libtsan.so", "libubsan.so", "liblsan.so", "vgpreload")
FLAGS = frozenset(["--inspect", "--debug", "--reload", "-Xdev", "--dev"])


def diagnose(observed: Observations) -> Finding | None:
    """Looks at paths, flags and libraries of the processes."""
    if observed.load is None:
        return None
    signs = sorted({sign for program in observed.load.processes for sign in _signs(program)})
    if not signs:
        return None
    return Finding(
        name="debug-build",
        cause="The program is built or started for finding errors, not for speed.",
        evidence=tuple(signs),
        falsified_by="a release build that takes as much CPU time per request",
        effect="often several times the speed; compare the two builds",
        remedy="build with optimisation (-O2, cargo build --release), and start without such flags",
    )


def _signs(program: ProcessInfo) -> list[str]:
    path = PurePosixPath(program.executable)
    signs = []
    if "debug" in path.parts[:-1]:
        signs.append(f"{path.name} comes from a folder called debug")
    names = (PurePosixPath(library).name for library in program.libraries)
    signs += [f"{name} is loaded" for name in names if name.startswith(SANITIZERS)]
    signs += [
        f"{path.name} was started with {word}"
        for word in program.arguments[1:]
        if word.partition("=")[0] in FLAGS
    ]
    return signs
