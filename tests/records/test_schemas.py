"""The published JSON Schemas are those of the types, and every kind of record is described."""

from pathlib import Path

import msgspec
import pytest

from jissoku.records.schemas import RECORDS, json_schema

DOCS = Path(__file__).parents[2] / "docs"
VERSIONED = [kind for kind, record in RECORDS.items() if isinstance(record, type)]


@pytest.mark.parametrize("kind", RECORDS)
def test_a_published_schema_is_that_of_its_type(kind: str) -> None:
    path = DOCS / "schemas" / f"{kind}.json"
    assert path.read_text() == json_schema(kind), "run `make schemas`, and look at the difference"


def test_no_schema_is_left_of_a_kind_that_is_gone() -> None:
    assert {path.stem for path in (DOCS / "schemas").glob("*.json")} == set(RECORDS)


@pytest.mark.parametrize("kind", RECORDS)
def test_every_kind_is_described(kind: str) -> None:
    assert f"(schemas/{kind}.json)" in (DOCS / "FORMAT.md").read_text()


@pytest.mark.parametrize("kind", VERSIONED)
def test_a_record_names_the_schema_that_the_document_names(kind: str) -> None:
    fields = {field.name: field.default for field in msgspec.structs.fields(RECORDS[kind])}
    schema = fields["schema"]
    assert str(schema).startswith(f"jissoku.{kind}/")
    assert f"`{schema}`" in (DOCS / "FORMAT.md").read_text()
