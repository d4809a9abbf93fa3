"""The program is built or started for debugging."""

from pathlib import PurePosixPath

from jissoku.explain.cpu_share import SAMPLES_MIN, Signature
from jissoku.model.explanation import Finding, Observations, ProcessInfo

SANITIZERS = ("libasan.so", "libtsan.so", "libubsan.so", "liblsan.so", "vgpreload")
FLAGS = frozenset(["--inspect", "--debug", "--reload", "-Xdev", "--dev"])

# Checks that compilers and runtimes leave out of what they build for speed.
CHECKS = Signature(
    functions=r"__(asan|tsan|msan|ubsan|hwasan|sanitizer)_\w+|___interceptor_\w+|runtime\.race\w+"
    r"|__interceptor_\w+|\S*::precondition_check|core::ub_checks::\S+|__gnu_debug::\S+"
    r"|_PyObject_CheckConsistency|_PyMem_Debug\w+|_Py_CheckSlotResult",
    share_min=0.02,
)


def diagnose(observed: Observations) -> Finding | None:
    """Looks at paths, flags and libraries of the processes, and for checks on the stacks."""
    programs = observed.load.processes if observed.load is not None else ()
    signs = sorted({sign for program in programs for sign in _signs(program)})
    signs += _checks(observed)
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


def _checks(observed: Observations) -> list[str]:
    if observed.profile is None:
        return []
    found = observed.profile.share(CHECKS.matches)
    if found.samples < SAMPLES_MIN or found.share < CHECKS.share_min:
        return []
    name, _ = found.innermost[0]
    return [f"{found.share:.0%} of the CPU time is in checks of a debug build, mostly in {name}"]
