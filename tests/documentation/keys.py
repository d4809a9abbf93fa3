"""The reference of the configuration file: what `jissoku check` answers about each of its keys.

A key that does not exist is refused with a list of those that do, and a value of a wrong type with
the type that is wanted. So the server itself says which keys there are, and what they take.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.documentation.commands import sections
from tests.documentation.markup import escaped, table

UNKNOWN = "no-key-has-this-name"
# No key takes a date.
WRONG = "1979-05-27"
# By what is wanted in its place: a value that is refused with more detail.
REFUSED = {"a string": '"?"', "a whole number": "-1", "a size": '"999999GiB"'}

SERVER = "127.0.0.1:9"
OTHER = f'[upstream.other]\nservers = ["{SERVER}"]\n'
# A table and, for keys that only have a meaning with others, what else it says.
UPSTREAM = ({"servers": f'["{SERVER}"]', "balance": '"hash"', "protocol": '"https"'},)
ROUTE = (
    {"path": '"/"', "redirect": '"/there"'},
    {"path": '"/"', "gather": '{ a = "other:/" }'},
    {"path": '"/"', "to": '"other"'},
)

Values = dict[str, str]
DOCUMENT = Path(__file__).parents[2] / "docs" / "gateway.md"
# What describes keys of other tables.
DOCUMENTS = {"store": DOCUMENT.with_name("store.md")}


INTRODUCTION = """# Configuration file

Every key of a file for `jissoku serve --config FILE`, which is TOML, as the server itself lists
them. The keys of the whole file are the long names of the
[options of `jissoku serve`](commands/jissoku-serve.md), which say the same on the command line;
`app` is another name of `folder`. [Proxy](../gateway.md) explains upstreams and routes, and has a
whole file as an example; [Store](../store.md) explains stores. `jissoku check FILE` reports what is
wrong with a file, with its line.
"""


def pages(serve: str) -> dict[str, str]:
    """One page, with the options of `serve` from its manual page."""
    options = {
        found[1]: option
        for _, group in sections(serve)
        for option in group
        if (found := re.search(r"--([\w-]+)", option[0]))
    }
    rows: list[tuple[str, ...]] = [("key", "value", "meaning")]
    for key, kind in top_level().items():
        # The positional argument has no option.
        words, default, text = options.get(key) or sections(serve)[0][1][-1]
        metavar = re.search(r"<(.*)>|^\[(.*)\]$", words)
        name = f"`{metavar[1] or metavar[2]}`" if metavar else "a string"
        value = re.sub("a string(?: or a number)?", name, kind)
        text = (
            text.replace("\n\nPossible values:\n\n* ", ". Values: ").replace("\n\n* ", "; ").strip()
        )
        if default:
            text += f"; default: `{default}`"
        rows.append((f"`{key}`", value, text))
    lines = [INTRODUCTION, "## Keys of the whole file\n", table(*rows)]
    for title, header, contexts in (
        ("upstream", "[upstream.NAME]", UPSTREAM),
        ("route", "[[route]]", ROUTE),
        ("store", "[store.NAME]", ({},)),
    ):
        described = meanings_of(title)
        rows = [
            ("key", "value", "meaning"),
            *(
                (f"`{key}`", escaped(value), described.get(key) or mentioned(key))
                for key, value in keys(header, contexts).items()
            ),
        ]
        lines += [f"## `{header}`\n", table(*rows)]
    return {"reference/configuration.md": "\n".join(lines)}


def top_level() -> Values:
    """The keys of the whole file and their values."""
    names = listed(refusals(f"{UNKNOWN} = 1\n")[1])
    names = [name for name in names if name not in {"upstream", "route", "store"}]
    found = refusals("".join(f"{name} = {{}}\n" for name in names))
    return {name: wanted(found[line]) for line, name in enumerate(names, 1)}


def keys(header: str, contexts: Sequence[Values]) -> Values:
    """The keys of a table and of those within, and their values."""
    known: dict[str, Values] = {}
    for context in contexts:
        (refusal,) = refusals_of(header, [context | {UNKNOWN: "1"}])
        known |= {key: context for key in listed(refusal) if key not in known}
    found = {}
    for key, value in values(header, {key: (known[key], "%s") for key in known}).items():
        found[key] = f"a whole number, {value}" if re.match(r"\d", value) else value
        form = {"a table": "{ %s }", "a list": "[{ %s }]"}.get(value)
        if form is None:
            continue
        (refusal,) = refusals_of(header, [known[key] | {key: form % f"{UNKNOWN} = 1"}])
        within = {name: (known[key], form % f"{name} = %s") for name in listed(refusal)}
        inner = values(header, within, key)
        if inner:
            found[key] += ": " + "; ".join(f"`{name}` {value}" for name, value in inner.items())
    return found


def values(header: str, known: Mapping[str, tuple[Values, str]], outer: str = "") -> Values:
    """What each key takes, in the table of its context and in the form of its value."""

    def ask(given: Mapping[str, str]) -> dict[str, str]:
        tables = [
            known[key][0] | {outer or key: known[key][1] % value} for key, value in given.items()
        ]
        return dict(zip(given, refusals_of(header, tables), strict=True))

    found = {key: wanted(refusal) for key, refusal in ask(dict.fromkeys(known, WRONG)).items()}
    more = {
        key: value
        for key, text in found.items()
        for start, value in REFUSED.items()
        if text.startswith(start)
    }
    for key, refusal in ask(more).items():
        detail = re.match(rf"{key} is (.*), not ", refusal)
        found[key] = detail[1] if detail else found[key]
    return found


def listed(refusal: str) -> list[str]:
    """The keys that there are, from the refusal of another one."""
    _, _, names = refusal.partition("; there are ")
    return names.split(", ") if names else []


def wanted(refusal: str) -> str:
    """What a key takes, from the refusal of a value of another type."""
    found = re.search(r" (?:must be|is) (.*), not a value of type", refusal)
    return found[1].replace(" in quotes", "") if found else ""


def refusals_of(header: str, tables: Sequence[Values]) -> list[str]:
    """What is wrong with each of several tables; empty if nothing is."""
    text, places = OTHER if header == "[[route]]" else "", []
    for index, values_of in enumerate(tables):
        text += header.replace("NAME", f"u{index}") + "\n"
        first = text.count("\n")
        text += "".join(f"{key} = {value}\n" for key, value in values_of.items())
        places.append(range(first, text.count("\n") + 1))
    found = refusals(text)
    return [next((found[line] for line in place if line in found), "") for place in places]


def refusals(text: str) -> dict[int, str]:
    """What is wrong with a configuration file, by line."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        command = [sys.executable, "-m", "jissoku", "check", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.findall(r"\.toml, line (\d+): (.*)", done.stderr)
    return {int(line): why for line, why in found}


def meanings_of(kind: str) -> dict[str, str]:
    """What the tables of the documents say about keys of an `upstream`, a `route` or a `store`."""
    found: dict[str, str] = {}
    for rows in re.findall(
        r"(?:^\|.*\n)+", DOCUMENTS.get(kind, DOCUMENT).read_text(), re.MULTILINE
    ):
        head, _, *body = [
            [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
            for row in rows.splitlines()
        ]
        column = next((at for at, cell in enumerate(head) if cell.startswith("key")), None)
        if column is None or ("upstream" in head[column]) != (kind == "upstream"):
            continue
        for cells in body:
            others = [cell for at, cell in enumerate(cells) if at != column and cell]
            meaning = "; default: ".join(others[: len(head) - 1])
            found |= dict.fromkeys(re.findall(r"`([a-z-]+)", cells[column]), moved(meaning))
    return found


def mentioned(key: str) -> str:
    """A link to the first section of docs/gateway.md from that of routes on that has a key."""
    heading = ""
    _, _, text = DOCUMENT.read_text().partition("\n## Routes\n")
    for line in ("## Routes\n" + text).splitlines():
        heading = line.lstrip("# ") if line.startswith("## ") else heading
        if re.search(rf"`{key}(?: = [^`]*)?`", line) and heading:
            anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
            return moved(f"[{heading}](#{anchor})")
    return ""


def moved(text: str) -> str:
    """Links of docs/gateway.md as they are in the reference."""
    return re.sub(r"\]\((#?)", lambda found: f"](../{'gateway.md#' if found[1] else ''}", text)
