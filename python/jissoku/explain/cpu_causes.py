"""Causes found in a profile: those of `causes.toml` with a kind of work."""

from jissoku.explain.causes import (
    CAUSES,
    SAMPLES_MIN,
    WORK,
    Cause,
    Work,
    finding,
    format_part,
    format_time,
)
from jissoku.model.explanation import Finding
from jissoku.model.profile_observation import CpuShare, ProfileObservation

FUNCTIONS_SHOWN = 3

CPU_CAUSES = tuple(cause for cause in CAUSES.values() if cause.work)


def cpu_findings(profile: ProfileObservation | None) -> list[Finding]:
    """The kinds of work with enough of the CPU time; none without a profile.

    A sample counts if such a function is anywhere on its stack.
    """
    if profile is None:
        return []
    return [found for cause in CPU_CAUSES if (found := _diagnose(cause, profile)) is not None]


def _diagnose(cause: Cause, profile: ProfileObservation) -> Finding | None:
    work = cause.work
    assert work is not None
    others = [WORK[name].matches for name in work.excluding]
    unsampled = _unsampled(work, profile)
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
    evidence = (*_of_functions(found), *_of_processes(profile, unsampled))
    return finding(cause.name, *evidence, saving=f"at most {format_time(ns)} of {part}")


def _unsampled(work: Work, profile: ProfileObservation) -> CpuShare | None:
    """The CPU time of processes too short to be sampled, if it is of this kind."""
    needed = work.processes_min
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
