"""Much of the time is spent in allocating and freeing memory."""

from jissoku.explain import compression_per_request, json_per_request, logging_format
from jissoku.explain.cpu_share import Signature, Wording, cpu_cause
from jissoku.model.finding import Finding
from jissoku.model.observed import Observations

SIGNATURE = Signature(
    functions=r"(__libc_|_int_|__GI___libc_)?(malloc|free|calloc|realloc|memalign)"
    r"|malloc_consolidate|sysmalloc|systrim\w*|unlink_chunk\w*|(je|mi|tc)_\w*(alloc|free)\w*"
    r"|operator (new|delete)(\[\])?(\(.*)?",
    libraries=r"lib(jemalloc|mimalloc|tcmalloc\w*)\.so[\d.]*",
    share_min=0.2,
)

# An allocator calls neither sockets nor epoll: a stack with both was unwound wrongly, as happens
# where a function keeps no frame pointer.
SOCKETS = Signature(
    functions=r"(__x64_|__arm64_)?(__)?sys_(send|recv|accept|epoll|read|write|connect)\w*"
    r"|(tcp|inet|inet6|sock|unix|ep|eventpoll|do_epoll)_\w+",
)

# Work that allocates: its part is its own.
USERS = (
    SOCKETS,
    compression_per_request.SIGNATURE,
    json_per_request.SIGNATURE,
    logging_format.SIGNATURE,
)

WORDING = Wording(
    name="allocation",
    cause="Much of the CPU time goes into allocating and freeing memory.",
    falsified_by="buffers that are kept from request to request, and the same CPU time",
    remedy="keep buffers and objects from request to request, or try another allocator"
    " (LD_PRELOAD of jemalloc or mimalloc shows within a minute what it would save)",
)


def diagnose(observed: Observations) -> Finding | None:
    """Looks for native allocators on the stacks; runtimes have collectors instead."""
    return cpu_cause(observed, SIGNATURE, WORDING, excluding=USERS)
