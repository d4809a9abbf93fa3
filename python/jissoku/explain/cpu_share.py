"""Causes found in profiles: a kind of work, named by its functions and libraries."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from jissoku.explain.phrasing import format_time
from jissoku.model.explanation import Finding, Observations, SuggestedDirective
from jissoku.model.profile import Frame
from jissoku.model.profile_observation import CpuShare, ProfileObservation

# Below this a share of samples is too uncertain to name a cause by.
SAMPLES_MIN = 30

FUNCTIONS_SHOWN = 3

# What compilers add to the name of a function that they specialise or divide.
VARIANT = re.compile(r"(\.(constprop|isra|part|cold|lto_priv|llvm)(\.\d+)?)+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A kind of work, recognised by the names of its functions.

    Attributes:
        functions: Whole names of native or interpreted functions.
        libraries: Whole file names of libraries that do nothing else.
        files: Whole names of source files of interpreted functions.
        unnamed: Whole file names of libraries whose functions without a symbol belong to it.
        not_functions: Whole names that the other patterns match and that are other work.
        share_min: The smallest fraction of the CPU time that is reported as a cause.
    """

    functions: str
    libraries: str = ""
    files: str = ""
    unnamed: str = ""
    not_functions: str = ""
    share_min: float = 0.1

    @property
    def matches(self) -> Callable[[Frame], bool]:
        """Whether a function belongs to it."""
        functions, libraries, files, unnamed, others = (
            re.compile(pattern) if pattern else None
            for pattern in (
                self.functions,
                self.libraries,
                self.files,
                self.unnamed,
                self.not_functions,
            )
        )

        def belongs(frame: Frame) -> bool:
            function = VARIANT.sub("", frame.function)
            if others is not None and others.fullmatch(function):
                return False
            return bool(
                (functions is not None and functions.fullmatch(function))
                or (libraries is not None and libraries.fullmatch(frame.library))
                or (files is not None and frame.file and files.fullmatch(frame.file))
                or (unnamed is not None and not function and unnamed.fullmatch(frame.library))
            )

        return belongs


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuCause:
    """A cause that a profile shows; the other fields are those of a finding.

    Attributes:
        signature: The kind of work.
        excluding: Kinds of work that use this one: what they use is part of them.
        processes_min: From this many processes started per request on, `of_processes` is of this
            kind, and the CPU time of those that ended before they were sampled; None: never.
        of_processes: What the kernel does for a process from its start to its end, as for a thread.
    """

    signature: Signature
    name: str
    cause: str
    falsified_by: str
    remedy: str
    directives: tuple[SuggestedDirective, ...] = ()
    excluding: tuple[Signature, ...] = ()
    processes_min: float | None = None
    of_processes: Signature | None = None

    def diagnose(self, observed: Observations) -> Finding | None:
        """A finding if enough of the CPU time is in functions of this kind; None without a profile.

        A sample counts if such a function is anywhere on its stack.
        """
        if observed.profile is None:
            return None
        others = [one.matches for one in self.excluding]
        unsampled = self._unsampled(observed.profile)
        kinds = [self.signature.matches]
        if unsampled and self.of_processes:
            kinds.append(self.of_processes.matches)
        found = observed.profile.share(
            lambda frame: any(kind(frame) for kind in kinds),
            lambda frame: any(other(frame) for other in others),
        )
        shares = (found, unsampled) if unsampled else (found,)
        share = sum(one.share for one in shares)
        if sum(one.samples for one in shares) < SAMPLES_MIN or share < self.signature.share_min:
            return None
        total = observed.profile.cpu_ns_per_request
        ns = sum(one.ns_per_request for one in shares)
        return Finding(
            name=self.name,
            cause=self.cause,
            evidence=(*_of_functions(found), *_of_processes(observed.profile, unsampled)),
            falsified_by=self.falsified_by,
            effect=f"at most {format_time(ns)} of the {format_time(total)} of CPU"
            f" time per request ({share:.0%})",
            remedy=self.remedy,
            directives=self.directives,
        )

    def _unsampled(self, profile: ProfileObservation) -> CpuShare | None:
        """The CPU time of processes too short to be sampled, if it is of this kind."""
        needed = self.processes_min
        if needed is None or profile.processes_per_request < needed:
            return None
        return profile.unsampled


def _of_functions(found: CpuShare) -> tuple[str, ...]:
    if not found.samples:
        return ()
    in_them = f"{found.share:.0%} of the CPU time is in such functions"
    callers = (f"called from {_listed(found.callers)} per request",) if found.callers else ()
    return (
        f"{in_them} ({found.samples:,} samples)",
        f"most of it in {_listed(found.innermost)} per request",
        *callers,
    )


def _of_processes(profile: ProfileObservation, unsampled: CpuShare | None) -> tuple[str, ...]:
    if unsampled is None:
        return ()
    started = f"{profile.processes_per_request:.2g} processes are started per request"
    if not unsampled.samples:
        return (started,)
    return (
        f"{started}; {unsampled.share:.0%} of the CPU time is of those too short to be sampled",
    )


def _listed(functions: tuple[tuple[str, float], ...]) -> str:
    return ", ".join(f"{name} {format_time(ns)}" for name, ns in functions[:FUNCTIONS_SHOWN])
