"""The causes of `causes.toml`; those with a kind of work are found in a profile."""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files

import msgspec

from jissoku.model.explanation import Finding, FindingScope, Observations
from jissoku.model.profile import CpuShare, Frame, ProfileObservation

# What compilers add to the name of a function that they specialise or divide.
VARIANT = re.compile(r"(\.(constprop|isra|part|cold|lto_priv|llvm)(\.\d+)?)+$")

# Below this a share of samples is too uncertain to name a cause by.
SAMPLES_MIN = 30


class Work(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of work, recognised by regular expressions of whole names on the stack.

    Attributes:
        functions: Native or interpreted functions.
        libraries: File names of libraries that do nothing else.
        files: Source files of interpreted functions.
        unnamed: File names of libraries whose functions without a symbol belong to it.
        not_functions: Functions that the other patterns match and that are other work.
        share_min: The smallest fraction of the CPU time that is reported as a cause.
        excluding: Kinds of work that use this one: what they use is part of them.
        processes_min: From this many processes started per request on, `of_processes` are of this
            kind, and the CPU time of those that ended before they were sampled; None: never.
        of_processes: What the kernel does for a process from its start to its end, as for a thread.
    """

    functions: tuple[str, ...]
    libraries: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()
    not_functions: tuple[str, ...] = ()
    share_min: float = 0.1
    excluding: tuple[str, ...] = ()
    processes_min: float | None = None
    of_processes: tuple[str, ...] = ()

    @property
    def matches(self) -> Callable[[Frame], bool]:
        """Whether a function belongs to it."""
        functions, libraries, sources = map(_any, (self.functions, self.libraries, self.files))
        unnamed, others = map(_any, (self.unnamed, self.not_functions))

        def belongs(frame: Frame) -> bool:
            function = VARIANT.sub("", frame.function)
            if others.fullmatch(function):
                return False
            return bool(
                functions.fullmatch(function)
                or libraries.fullmatch(frame.library)
                or sources.fullmatch(frame.file)
                or (not function and unnamed.fullmatch(frame.library))
            )

        return belongs


def _any(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(patterns) or "(?!)")


class Cause(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The texts of a finding, with the names of values in braces."""

    name: str
    cause: str
    falsified_by: str
    remedy: str
    effect: str = ""
    scope: FindingScope = FindingScope.SERVER
    work: Work | None = None


class _Data(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cause: tuple[Cause, ...]
    work: dict[str, Work]
    instead: dict[str, str]


_TEXT = files("jissoku.explain").joinpath("causes.toml").read_text(encoding="utf-8")
_DATA = msgspec.convert(tomllib.loads(_TEXT), _Data)

CAUSES = {cause.name: cause for cause in _DATA.cause}
WORK = _DATA.work | {cause.name: cause.work for cause in _DATA.cause if cause.work}

# System calls that a response does not need, each with an alternative.
INSTEAD = _DATA.instead


def finding(name: str, *evidence: str, **values: object) -> Finding:
    """A cause with its evidence; `values` are those of its texts."""
    cause = CAUSES[name]
    return Finding(
        name=name,
        cause=cause.cause.format(**values),
        evidence=evidence,
        falsified_by=cause.falsified_by,
        effect=cause.effect.format(**values),
        remedy=cause.remedy.format(**values),
        scope=cause.scope,
    )


def format_time(ns: float) -> str:
    """Nanoseconds as microseconds, or as milliseconds where those are easier to read."""
    return f"{ns / 1e6:,.1f} ms" if ns >= 1e6 else f"{ns / 1e3:,.1f} µs"


def format_saving(observed: Observations, ns: float) -> str:
    """An upper bound of a saving in nanoseconds per request, as text."""
    cost = observed.load.cpu_ns_per_request if observed.load is not None else None
    if not ns:
        return "not priced on this machine"
    if not cost:
        return f"at most {format_time(ns)} of CPU time per request"
    if ns >= cost:
        return f"up to all of the {format_time(cost)} of CPU time per request"
    return f"at most {format_time(ns)} of {format_part(cost, ns / cost)}"


def format_part(cost_ns: float, share: float) -> str:
    """A fraction of a request's cost, behind the words that name the part."""
    return f"the {format_time(cost_ns)} of CPU time per request ({share:.0%})"


CPU_CAUSES = tuple(cause for cause in CAUSES.values() if cause.work)


def cpu_findings(profile: ProfileObservation | None) -> list[Finding]:
    """The kinds of work that are on the stacks of enough samples; none without a profile."""
    if profile is None:
        return []
    return [found for cause in CPU_CAUSES if (found := _diagnose(cause, profile)) is not None]


def _diagnose(cause: Cause, profile: ProfileObservation) -> Finding | None:
    work = cause.work
    assert work is not None
    others = [WORK[name].matches for name in work.excluding]
    needed = work.processes_min
    is_of_processes = needed is not None and profile.processes_per_request >= needed
    # The CPU time of processes too short to be sampled.
    unsampled = profile.unsampled if is_of_processes else None
    kinds = [work.matches]
    if unsampled and work.of_processes:
        kinds.append(Work(functions=work.of_processes).matches)
    found = profile.share(
        lambda frame: any(kind(frame) for kind in kinds),
        lambda frame: any(other(frame) for other in others),
    )
    shares = (found, unsampled) if unsampled else (found,)
    share = sum(one.share for one in shares)
    if sum(one.samples for one in shares) < SAMPLES_MIN or share < work.share_min:
        return None
    ns = sum(one.ns_per_request for one in shares)
    part = format_part(profile.cpu_ns_per_request, share)
    evidence = list(_of_functions(found))
    if unsampled is not None:
        started = f"{profile.processes_per_request:.2g} processes are started per request"
        if unsampled.samples:
            started += (
                f"; {unsampled.share:.0%} of the CPU time is of those too short to be sampled"
            )
        evidence.append(started)
    return finding(cause.name, *evidence, saving=f"at most {format_time(ns)} of {part}")


def _of_functions(found: CpuShare) -> Iterator[str]:
    if found.samples:
        in_them = f"{found.share:.0%} of the CPU time is in such functions"
        yield f"{in_them} ({found.samples:,} samples)"
        yield f"most of it in {_listed(found.innermost)} per request"
    if found.callers:
        yield f"called from {_listed(found.callers)} per request"


def _listed(functions: tuple[tuple[str, float], ...]) -> str:
    return ", ".join(f"{name} {format_time(ns)}" for name, ns in functions[:3])
