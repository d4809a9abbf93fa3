"""The reference of the options of other servers: the tables that `jissoku migrate` reads."""

import re

from jissoku.migrate.tables import SERVERS, Option, server
from tests.documentation.markup import escaped, table

INTRODUCTION = """# Options of other servers

What the options of other application servers are here.
[`jissoku migrate`](commands/jissoku-migrate.md) translates a command line or a file by them;
[Serve Python applications](../apps.md#coming-from-another-server) compares the servers.
"""
NAMES = {"uwsgi": "uWSGI", "hypercorn": "Hypercorn"}
# Of kinds that the translation knows without the name of an option here, or by more than that.
KINDS = {
    "callable": "`MODULE:APP`",
    "default": "the default",
    "env": "`--env-file FILE`, or the environment",
    "file": "its options are read",
    "log": "`--access-log -`",
    "module": "`MODULE:APP`",
    "nolog": "the default",
    "uwsgi-address": "`--listen HOST:PORT,uwsgi`",
    "worker-class": "`--wsgi` or `--asgi`",
    "wsgi-file": "`MODULE:APP`",
}


def pages() -> dict[str, str]:
    """One page, with a section for each server; options that are the same here share a row."""
    lines = [INTRODUCTION]
    for name in SERVERS:
        known = server(name)
        rows: dict[str, list[str]] = {}
        for option in known.option:
            rows.setdefault(here(option), []).extend(f"`{word}`" for word in option.names)
        lines += [
            f"## {NAMES.get(name, name)}\n",
            *(f"* {coded(text)}" for text in known.differs),
            "",
            table(("there", "here"), *((", ".join(names), text) for text, names in rows.items())),
        ]
    return {"reference/migration.md": "\n".join(lines)}


def here(option: Option) -> str:
    """What an option is here, and how that differs."""
    if option.kind == "absent" and not option.shown:
        return "none" if option.note.startswith("nothing") else f"none: {coded(option.note)}"
    if option.shown:
        text = coded(option.shown)
    elif option.here.startswith(","):
        text = f"`--listen HOST:PORT{option.here}`"
    else:
        text = KINDS.get(option.kind) or f"`{option.here}`"
    is_more = option.note and option.kind != "absent"
    return f"{text}; this {coded(option.note)}" if is_more else text


def coded(text: str) -> str:
    """Plain text as Markdown, with options and the names of their values as code."""
    named = re.sub(r"(--[a-z-]+(?: [A-Z][A-Z:]*(?:,[a-z-]+)?| -)?)(?![\w-])", r"`\1`", text)
    return escaped(named)
