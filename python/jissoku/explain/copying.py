"""Much of the time is spent in copying memory in user space."""

from jissoku.explain import compression_per_request, json_per_request, tls_handshakes
from jissoku.explain.cpu_share import Signature, Wording, cpu_cause
from jissoku.model.finding import Finding
from jissoku.model.observed import Observations

SIGNATURE = Signature(
    functions=r"_*(mem(cpy|move|set)|bcopy)(_\w+)?|__mem(cpy|move)_\w+|runtime\.memmove",
    share_min=0.15,
)

USERS = (
    compression_per_request.SIGNATURE,
    json_per_request.SIGNATURE,
    tls_handshakes.SIGNATURE,
)

WORDING = Wording(
    name="copying",
    cause="Much of the CPU time goes into copying memory in user space.",
    falsified_by="an answer of a hundredth of the size at the same CPU time per request",
    remedy="send from where the bytes are (writev, sendfile, slices), and make buffers large enough"
    " once instead of growing them",
)


def diagnose(observed: Observations) -> Finding | None:
    """Looks for copies on the stacks; the kernel's own are of every server."""
    return cpu_cause(observed, SIGNATURE, WORDING, excluding=USERS)
