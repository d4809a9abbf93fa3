"""The reference of the records: every field of their JSON Schemas."""

import json
import re
from inspect import cleandoc
from pathlib import Path
from typing import Any

from tests.documentation.markup import escaped, table

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


def pages() -> dict[str, str]:
    """A page for each kind of record, and one that lists them."""
    kinds = {path.stem: json.loads(path.read_text()) for path in sorted(SCHEMAS.glob("*.json"))}
    texts = {f"reference/records/{kind}.md": page(kind, schema) for kind, schema in kinds.items()}
    listed = "\n".join(kinds)
    texts["reference/records/index.md"] = (
        "# Records\n\nEvery field of every kind of record, from the JSON Schemas. [File formats]"
        "(../../FORMAT.md) says which file is of which kind, and what all have in common.\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"
    )
    return texts


def page(kind: str, schema: dict[str, Any]) -> str:
    """The types of one kind, that of the record first and without a heading of its own."""
    types = dict(schema["$defs"])
    first = types.pop(schema.get("$ref", "").rpartition("/")[2], None)
    top = section(first) if first else f"Each record is a {type_of(schema)}.\n"
    others = (f"## {name}\n\n{section(types[name])}" for name in sorted(types))
    return "\n".join([f"# {kind}\n", top, *others])


def section(schema: dict[str, Any]) -> str:
    """One type: its description and its fields."""
    text, meanings = described(schema.get("description", ""))
    lines = [f"{escaped(text)}\n"]
    if "enum" in schema:
        lines.append(
            "One of " + ", ".join(f"`{json.dumps(one)}`" for one in schema["enum"]) + ".\n"
        )
    if fields := schema.get("properties"):
        required = schema.get("required", [])
        rows = [
            (
                f"`{field}`",
                type_of(spec) + default_of(field, spec, required),
                escaped(meanings.get(field, "")),
            )
            for field, spec in fields.items()
        ]
        lines.append(table(("field", "type", "meaning"), *rows))
    return "\n".join(lines)


def described(docstring: str) -> tuple[str, dict[str, str]]:
    """The text of a docstring, and the meanings below `Attributes:`."""
    text, _, attributes = cleandoc(docstring).partition("\nAttributes:\n")
    found = re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", attributes, re.MULTILINE)
    return text.strip(), {name: " ".join(meaning.split()) for name, meaning in found}


def default_of(field: str, spec: dict[str, Any], required: list[str]) -> str:
    is_optional = field not in required and "default" in spec
    return f"; default `{json.dumps(spec['default'])}`" if is_optional else ""


def type_of(spec: dict[str, Any]) -> str:
    """A type in words, with links to those of the same page."""
    kind = str(spec.get("type", "any value"))
    if "$ref" in spec:
        name = spec["$ref"].rpartition("/")[2]
        kind = f"[{name}](#{name.lower()})"
    elif one_of := spec.get("anyOf"):
        kind = " or ".join(map(type_of, one_of))
    elif "enum" in spec:
        kind = " or ".join(f"`{json.dumps(one)}`" for one in spec["enum"])
    elif parts := spec.get("prefixItems"):
        kind = f"({', '.join(map(type_of, parts))})"
    elif kind == "array":
        kind = f"list of {type_of(spec.get('items', {}))}"
    elif kind == "object":
        kind = f"table of {type_of(spec.get('additionalProperties', {}))}"
    elif "contentEncoding" in spec:
        kind += f" in {spec['contentEncoding']}"
    return kind
