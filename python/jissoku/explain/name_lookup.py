"""Names of hosts or users are looked up for each request."""

from jissoku.explain.cpu_share import Signature, Wording, cpu_cause
from jissoku.model.finding import Finding
from jissoku.model.observed import Observations

SIGNATURE = Signature(
    functions=r"getaddrinfo\w*|gethostby\w+|getnameinfo|getpw\w+|getgr\w+|_nss_\w+|__nss_\w+"
    r"|res_n?(query|search|send)\w*|__res_\w+|net\.\(\*Resolver\)\S+",
    libraries=r"lib(nss_\w+|resolv)\.so[\d.]*",
    share_min=0.05,
)

WORDING = Wording(
    name="name-lookup",
    cause="Names of hosts or users are looked up for each request.",
    falsified_by="addresses in place of names, and the same CPU time per request",
    remedy="resolve names once, at start, and log addresses instead of names",
)


def diagnose(observed: Observations) -> Finding | None:
    """Looks for resolvers on the stacks."""
    return cpu_cause(observed, SIGNATURE, WORDING)
