"""Exceptions are thrown for each request."""

from jissoku.explain.cpu_share import Signature, Wording, cpu_cause
from jissoku.model.finding import Finding
from jissoku.model.observed import Observations

SIGNATURE = Signature(
    functions=r"_Unwind_\w+|__cxa_(throw|rethrow|allocate_exception)|__gxx_personality_v0"
    r"|(std|core)::panicking::\S+|runtime\.(gopanic|recovery|Callers)"
    r"|(v8::internal::)?(Isolate::(Throw|CaptureSimpleStackTrace)\S*|ErrorUtils::Construct\S*)"
    r"|format_exc|format_exception|print_exc|walk_stack|_extract_from_extended_frame_gen"
    r"|java\.lang\.Throwable\.fillInStackTrace|fillInStackTrace",
    share_min=0.05,
)

WORDING = Wording(
    name="exceptions",
    cause="Exceptions are thrown, or stacks walked for them, for each request.",
    falsified_by="the same answer without an exception, and the same CPU time per request",
    remedy="return a value where something is expected to happen, and keep exceptions for what is"
    " not; do not format stacks that are not read",
)


def diagnose(observed: Observations) -> Finding | None:
    """Looks for unwinders on the stacks."""
    return cpu_cause(observed, SIGNATURE, WORDING)
