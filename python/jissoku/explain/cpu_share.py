"""Causes from profiles: which functions and libraries belong to one kind of work."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from jissoku.explain.phrasing import format_time
from jissoku.model.finding import Finding, SuggestedDirective
from jissoku.model.observed import Observations
from jissoku.model.profile import Frame

# Below this a share of samples is too uncertain to name a cause by.
SAMPLES_MIN = 30

FUNCTIONS_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A kind of work, by the names of its functions.

    Attributes:
        functions: Whole names, of native functions as of interpreted ones.
        libraries: Whole file names of libraries that do nothing else.
        files: Whole names of source files of interpreted functions.
        not_functions: Names that are something else after all.
        share_min: The smallest part of the CPU time that is called a cause.
    """

    functions: str
    libraries: str = ""
    files: str = ""
    not_functions: str = ""
    share_min: float = 0.1

    @property
    def matches(self) -> Callable[[Frame], bool]:
        """Whether a function belongs to it."""
        functions, libraries, files, others = (
            re.compile(pattern) if pattern else None
            for pattern in (self.functions, self.libraries, self.files, self.not_functions)
        )

        def is_of_it(frame: Frame) -> bool:
            if others is not None and others.fullmatch(frame.function):
                return False
            return bool(
                (functions is not None and functions.fullmatch(frame.function))
                or (libraries is not None and libraries.fullmatch(frame.library))
                or (files is not None and frame.file and files.fullmatch(frame.file))
            )

        return is_of_it


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """What is said of a cause; fields are those of a finding."""

    name: str
    cause: str
    falsified_by: str
    remedy: str
    directives: tuple[SuggestedDirective, ...] = ()


def cpu_cause(
    observed: Observations,
    signature: Signature,
    wording: Wording,
    excluding: tuple[Signature, ...] = (),
) -> Finding | None:
    """A finding, if enough of the CPU time is in functions of a kind.

    Args:
        observed: Without a profile there is no finding.
        signature: The kind of work.
        wording: What is said of it.
        excluding: Kinds that use this one: their part is theirs.
    """
    if observed.profile is None:
        return None
    others = [one.matches for one in excluding]
    found = observed.profile.share(
        signature.matches, lambda frame: any(other(frame) for other in others)
    )
    if found.samples < SAMPLES_MIN or found.share < signature.share_min:
        return None
    whole = observed.profile.cpu_ns_per_request
    functions = ", ".join(
        f"{name} {format_time(ns)}" for name, ns in found.innermost[:FUNCTIONS_SHOWN]
    )
    return Finding(
        name=wording.name,
        cause=wording.cause,
        evidence=(
            f"{found.share:.0%} of the CPU time is in such functions ({found.samples:,} samples)",
            f"most of it in {functions} per request",
        ),
        falsified_by=wording.falsified_by,
        effect=f"at most {format_time(found.ns_per_request)} of the {format_time(whole)} of CPU"
        f" time per request ({found.share:.0%})",
        remedy=wording.remedy,
        directives=wording.directives,
    )
