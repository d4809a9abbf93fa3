"""The reference of the commands: their manual pages as Markdown."""

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from jissoku import _native
from jissoku.cli import completions
from tests.documentation.markup import escaped

ESCAPES = {
    "\\-": "-",
    "\\*(Aq": "'",
    "\\(bu": "",
    "\\&": "",
    "\\e": "\\",
    "\\\\": "\\",
    **dict.fromkeys(("\\fB", "\\fI", "\\fR"), ""),
}
ESCAPE = re.compile(r"\\(?:f[BIR]|\*\(Aq|\(bu|[-&e\\])")


def manual() -> dict[str, str]:
    """The manual pages by name, in the language of `man`."""
    with tempfile.TemporaryDirectory() as folder:
        assert _native.run(["jissoku", "man", folder, "--more", completions.definitions()]) == 0
        return {path.stem: path.read_text() for path in sorted(Path(folder).glob("*.1"))}


def pages(manual: Mapping[str, str]) -> dict[str, str]:
    """A page for each command, and one that lists them."""
    found = {name: text for name, text in manual.items() if name != "jissoku"}
    abouts = {name: text.partition("\\- ")[2].partition("\n")[0] for name, text in found.items()}
    rows = [
        f"* [{title(name)}]({name}.md): {escaped(plain(about).rstrip('.'))}"
        for name, about in abouts.items()
    ]
    listed = "\n".join(found)
    index = [
        "# Commands\n",
        "All commands with all their options, from the definitions that parse the command line.\n",
        *rows,
        f"\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n",
    ]
    texts = {f"reference/commands/{name}.md": page(name, text) for name, text in found.items()}
    return texts | {"reference/commands/index.md": "\n".join(index)}


def title(name: str) -> str:
    """`jissoku self-test`, and `jissoku floor serve`."""
    words = name.replace("jissoku-", "jissoku ")
    return re.sub(r" (floor|lab)-", r" \1 ", words)


def page(name: str, roff: str) -> str:
    """A manual page as Markdown."""
    lines = [f"# {title(name)}\n", f"```{{program}} {title(name)}\n```\n"]
    description = re.search(r"^\.SH DESCRIPTION\n((?:(?!\.SH).*\n)*)", roff, re.MULTILINE)
    lines.append(paragraphs(description[1] if description else ""))
    for heading, options in sections(roff):
        lines.append(f"## {heading}\n")
        for words, default, text in options:
            body = f"{text}\nDefault: `{default}`.\n" if default else text
            lines.append(f"````{{option}} {words}\n\n{body}````\n")
    return "\n".join(lines)


def sections(roff: str) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """The groups of options of a manual page: words, default and Markdown of each option.

    A positional argument is an option without hyphens.
    """
    groups = []
    _, *parts = re.split(r"^\.SH (.*)\n", roff, flags=re.MULTILINE)
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        if heading in {"NAME", "SYNOPSIS", "DESCRIPTION", "VERSION", "SUBCOMMANDS"}:
            continue
        options = []
        for text in re.split(r"^\.TP\n", body, flags=re.MULTILINE)[1:]:
            words, _, rest = text.partition("\n")
            # Native options have their default behind the words, or as others in the text.
            words, _, default = plain(words).partition(" [default: ")
            if found := re.search(r" \[default: (.*)\]$", rest, re.MULTILINE):
                default, rest = found[1], rest.replace(found[0], "")
            options.append((words, plain(default).removesuffix("]"), paragraphs(rest)))
        groups.append((heading.strip('"').capitalize().replace("Tls", "TLS"), options))
    return groups


def paragraphs(roff: str) -> str:
    """Text between macros, of which those that are used here begin paragraphs and items."""
    found = [""]
    for line in roff.splitlines():
        if line.startswith((".PP", ".br", ".RS", ".RE")) or not line:
            found.append("")
        elif line.startswith(".IP"):
            found.append("* ")
        else:
            found[-1] += plain(line) + " "
    texts = [text.strip() for text in found if text.strip()]
    return (
        "\n\n".join(
            "* " + escaped(text[2:]) if text.startswith("* ") else escaped(text) for text in texts
        )
        + "\n"
    )


def plain(roff: str) -> str:
    return ESCAPE.sub(lambda found: ESCAPES[found[0]], roff).strip()
