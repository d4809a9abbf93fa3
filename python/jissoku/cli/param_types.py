"""Types of option values, such as `20k`."""

import re

import click

from jissoku.model import LoadLevel, Method
from jissoku.observe.capacity import Objective

TCHARS = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"

SCALES = {"": 1, "k": 1000, "m": 1_000_000}


class Rate(click.ParamType[int]):
    """A rate in requests per second: `20000` or `20k`."""

    name = "rate"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([km]?)", str(value).lower())
        rate = round(float(found[1]) * SCALES[found[2]]) if found else 0
        if rate < 1:
            self.fail(
                f"{value!r} is not a rate: write requests per second, as in 20000 or 20k",
                param,
                ctx,
            )
        return rate


class Seconds(click.ParamType[float]):
    """A duration: `90s`, `2m` or `90`, in seconds."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|min|h)?", str(value))
        scale = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}
        seconds = float(found[1]) * scale[found[2] or ""] if found else 0.0
        if seconds <= 0:
            self.fail(f"{value!r} is not a time: write 90s or 2m", param, ctx)
        return seconds


class Percentage(click.ParamType[float]):
    """A part: `1%` or `0.01`."""

    name = "percentage"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s?(%?)", str(value))
        part = float(found[1]) / (100 if found[2] else 1) if found else 0.0
        if not 0 < part < 1:
            self.fail(f"{value!r} is not a precision: write 1% or 0.01", param, ctx)
        return part


class RequestPath(click.ParamType[str]):
    """The target of a request in origin form (RFC 9112 section 3.2.1)."""

    name = "path"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        if not str(value).startswith("/"):
            self.fail(f"{value!r} is not a path: it begins with /, as in /42", param, ctx)
        if found := re.search(r"[^!-~]|#", str(value)):
            code = "".join(f"%{byte:02X}" for byte in found[0].encode(errors="replace"))
            self.fail(f"{value!r}: a path contains no {found[0]!r}: write {code}", param, ctx)
        return str(value)


class MethodToken(click.ParamType[str]):
    """An HTTP method, which is a token (RFC 9110 section 9.1)."""

    name = "method"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        if not re.fullmatch(TCHARS, str(value)):
            self.fail(f"{value!r} is not a method: write one word, as in POST", param, ctx)
        return str(value)


class Field(click.ParamType[tuple[str, str]]):
    """A header field: `Name: value` (RFC 9110 section 5)."""

    name = "field"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, colon, rest = str(value).partition(":")
        if not colon or not re.fullmatch(TCHARS, name) or "\n" in rest:
            self.fail(f"{value!r} is not a header field: write 'Name: value'", param, ctx)
        return name, rest.strip()


class Label(click.ParamType[tuple[str, str]]):
    """A label of a run: `NAME=TEXT`."""

    name = "label"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not equals or not re.fullmatch(r"[a-z][a-z0-9_-]{0,39}", name) or len(text) > 200:
            self.fail(f"{value!r} is not a label: write NAME=TEXT, such as commit=1234", param, ctx)
        return name, text


class LatencyObjective(click.ParamType[Objective]):
    """A bound on a percentile of latency: `p99<10ms`, `p95<500us`."""

    name = "objective"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Objective:
        if isinstance(value, Objective):
            return value
        found = re.fullmatch(r"p(\d{2}(?:\.\d+)?)\s*<\s*(\d+(?:\.\d+)?)(us|ms|s)", str(value))
        if not found or not 50 <= float(found[1]) < 100:
            self.fail(f"{value!r} is not an objective: write for example p99<10ms", param, ctx)
        scale = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}[found[3]]
        return Objective(
            limit_ns=round(float(found[2]) * scale),
            fraction_above=round(1 - float(found[1]) / 100, 6),
        )


class MethodName(click.Choice[str]):
    """How targets are compared."""

    def __init__(self) -> None:
        super().__init__([str(Method.TIME_SLICED), str(Method.PAIRED)])

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Method:
        return Method(super().convert(value, param, ctx))


class LoadLevels(click.ParamType[tuple[LoadLevel, ...]]):
    """Loads of the grid by name: `light,medium`."""

    name = "loads"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[LoadLevel, ...]:
        if isinstance(value, tuple):
            return value
        known = {
            str(level): level for level in (LoadLevel.LIGHT, LoadLevel.MEDIUM, LoadLevel.HEAVY)
        }
        names = [word.strip() for word in str(value).split(",")]
        for name in names:
            if name not in known:
                self.fail(f"{name!r} is not a load: there are {', '.join(known)}", param, ctx)
        return tuple(known[name] for name in known if name in names)
