"""Dates are formatted or time zones looked up for each request."""

from jissoku.explain.cpu_share import Signature, Wording, cpu_cause
from jissoku.explain.logging_format import SIGNATURE as LOGGING
from jissoku.model.finding import Finding
from jissoku.model.observed import Observations

SIGNATURE = Signature(
    functions=r"_*strftime\w*|_*(localtime|gmtime)(64)?(_r)?|__tz_convert|__tzfile_\w+|tzset\w*"
    r"|_*mktime\w*|time\.Time\.(Format|AppendFormat|appendFormat\w*)|time\.\(\*Location\)\S+"
    r"|formatdate|format_datetime|(chrono|time|httpdate)::\S*format\S*|(v8::internal::)?DateCache\S*",
    share_min=0.05,
)

WORDING = Wording(
    name="date-formatting",
    cause="Dates are formatted, or time zones looked up, for each request.",
    falsified_by="a date that is made once a second, and the same CPU time per request",
    remedy="make the text once a second and use it again; set TZ, so that no file is asked for",
)


def diagnose(observed: Observations) -> Finding | None:
    """Looks for dates on the stacks; those of log lines are the log's."""
    return cpu_cause(observed, SIGNATURE, WORDING, excluding=(LOGGING,))
