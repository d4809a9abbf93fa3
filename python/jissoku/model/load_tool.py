"""A load generator: its installation, its command line, and the patterns of its report."""

from collections.abc import Mapping
from typing import Any

import msgspec

from jissoku.model.calibration import ToolOptions


class FigurePattern(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The place of a value in a report.

    Attributes:
        pattern: The first group is a number, a second one its unit. Every match is added up.
        path: Names and numbers through JSON, as in `targets/0/errors/timeout`; several are added
            up, and so are the numbers of an object or of a list. `name=p99` finds it in a list of
            objects.
        highest: Of several paths, the highest counts instead of their sum.
        quantile: The value at `path` is a histogram (HdrHistogram V2, base64); its quantile, or -1
            for its number of samples.
        scale: Factor of the number.
        absent: The value if it is missing, because some tools print no line for zero.
    """

    pattern: str = ""
    path: str | tuple[str, ...] = ""
    quantile: float | None = None
    highest: bool = False
    scale: float = 1.0
    absent: float | None = None


class Samples(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool's log of requests, and its columns.

    Attributes:
        file: A file of comma-separated values in the run's folder, with a line of names on top.
        start: The column from which a latency counts, in nanoseconds.
        end: The column up to which.
        due: The column with the time at which a request was due, even if it failed.
        where: Columns that must have these values; other lines are not answered requests.
    """

    file: str
    start: str
    end: str
    due: str = ""
    where: dict[str, str] = {}


class Installation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The installation of a tool.

    Attributes:
        program: Its name on the search path, or its path in the folder of tools.
        how: The command that installs it.
        version: The command that prints its version, which shows that it runs.
        pattern: Finds the version, as its first group.
    """

    program: str
    how: str
    version: tuple[str, ...]
    pattern: str


class CommandLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The command line of a tool.

    Attributes:
        always: The command's beginning.
        say: Words for each parameter, in this order; `reuse` applies unless each request has a
            new connection (`one_shot`).
        last: The command's end.
        then: A second command whose output is the report.
        requires: Parameters that it cannot do without.
        excludes: Pairs of parameters that it does not support together.
        files: Written into the run's folder before it starts.
    """

    always: tuple[str, ...]
    say: dict[str, tuple[str, ...]]
    last: tuple[str, ...]
    then: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    excludes: tuple[tuple[str, str], ...] = ()
    files: dict[str, str] = {}


class Tool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One load generator.

    Attributes:
        about: A description of the tool.
        read: The place of each value in its report.
        samples: Its log of all requests, if it can write one.
        lacks: Why a parameter or a value is missing.
        deviates: Deviations that its documentation names: a sentence by a check's id. Such a
            failure is graded B.
    """

    name: str
    about: str
    get: Installation
    ask: CommandLine
    read: dict[str, FigurePattern]
    samples: Samples | None = None
    lacks: dict[str, str] = {}
    deviates: dict[str, str] = {}

    def unsupported_reason(self, ask: ToolOptions) -> str | None:
        """Why the tool does not support these parameters; None if it does."""
        for thing in ask:
            if thing not in self.ask.say and thing not in ("about_s", "unix"):
                return self.lacks.get(thing, f"{self.name} does not support {thing}")
        if "unix" in ask and "unix" not in self.ask.say:
            return self.lacks.get("unix", f"{self.name} has no Unix sockets")
        for thing in self.ask.requires:
            if thing not in ask:
                return self.lacks.get(f"without {thing}", f"{self.name} requires {thing}")
        for one, other in self.ask.excludes:
            if one in ask and other in ask:
                return f"{self.name} does not support {one} and {other} together"
        return None

    def command(self, ask: ToolOptions, values: Mapping[str, str]) -> list[str]:
        """The command line for these parameters; `values` replace the placeholders."""
        everything = dict(values) | _option_values(ask)
        if "one_shot" not in ask:
            ask = ask | {"reuse": True}
        words = list(self.ask.always)
        for thing, spelling in self.ask.say.items():
            if thing in ask:
                words += spelling
        words += self.ask.last
        return [word.format_map(everything) for word in words]


class InstalledTool(msgspec.Struct, frozen=True, kw_only=True):
    """An installed tool."""

    tool: Tool
    program: str
    version: str


def _option_values(ask: ToolOptions) -> dict[str, Any]:
    """The parameters of a load, in the units that tools use."""
    words = dict(ask)
    for thing in ("duration_s", "timeout_s"):
        if thing in ask:
            words[thing] = _plain(float(ask[thing]))
            words[thing.replace("_s", "_whole_s")] = max(1, round(float(ask[thing])))
            words[thing.replace("_s", "_ms")] = round(float(ask[thing]) * 1000)
    if "rate" in ask:
        words["rate"] = round(float(ask["rate"]))
        words["rate_per_connection"] = _plain(float(ask["rate"]) / ask.get("connections", 1))
        if "duration_s" in ask:
            words["rate_times_duration"] = round(float(ask["rate"]) * float(ask["duration_s"]))
    return words


def _plain(number: float) -> str:
    """A number without a zero fraction, because some tools reject `3.0`."""
    return f"{number:g}"
