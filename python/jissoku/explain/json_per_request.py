"""JSON is written or read for each request."""

from jissoku.explain.cpu_share import Signature, Wording, cpu_cause
from jissoku.model.finding import Finding
from jissoku.model.observed import Observations

SIGNATURE = Signature(
    functions=r"encoder_(call|listencode_\w+)|scan_once_\w+|scanner_call|encoding/json\.\S+"
    r"|(serde_json|simd_json|sonic_rs)::\S+|cJSON_\w+|yajl_\w+|json_(dumps|loads|dump|load)\w*"
    r"|(v8::internal::)?Json(Stringifier|Parser|Stringify|Parse)\w*\S*|nlohmann::\S*json\S*"
    r"|Builtins_Json\w*|orjson\S*",
    files=r"encoder\.py|decoder\.py",
)

WORDING = Wording(
    name="json-per-request",
    cause="JSON is written or read for each request.",
    falsified_by="the same bytes kept from the first request, and the same CPU time per request",
    remedy="keep what does not change as bytes, use a faster library, or send fewer fields",
)


def diagnose(observed: Observations) -> Finding | None:
    """Looks for JSON libraries on the stacks."""
    return cpu_cause(observed, SIGNATURE, WORDING)
