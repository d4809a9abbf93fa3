"""Numbers as people write them: 20k."""

import re

import click

SCALES = {"": 1, "k": 1000, "m": 1_000_000}


class Rate(click.ParamType[int]):
    """A rate in requests per second: `20000` or `20k`."""

    name = "rate"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Reads the rate, or refuses it in one sentence."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([km]?)", str(value).lower())
        rate = round(float(found[1]) * SCALES[found[2]]) if found else 0
        if rate < 1:
            self.fail(
                f"{value!r} is no rate: write requests per second, as in 20000 or 20k", param, ctx
            )
        return rate


class Field(click.ParamType[tuple[str, str]]):
    """A header field: `Name: value` (RFC 9110 section 5)."""

    name = "field"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Reads the field, or refuses it in one sentence."""
        if isinstance(value, tuple):
            return value
        name, colon, rest = str(value).partition(":")
        if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or "\n" in rest:
            self.fail(f"{value!r} is no header field: write 'Name: value'", param, ctx)
        return name, rest.strip()
