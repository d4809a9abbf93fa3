"""What a page shows as text, Markdown, JSON or CSV: sentences, tables and values."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from jissoku.report.json import rounded
from jissoku.report.markdown import escape, table_lines
from jissoku.report.sanitize import clean
from jissoku.report.tables import Table

# A spreadsheet takes a text that begins so for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")

Cell = str | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a document; an empty title is left out, and so is a table without rows."""

    title: str = ""
    sentences: tuple[str, ...] = ()
    table: Table | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a page shows, in order."""

    title: str
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """Rows of values, not rounded for people; a row has a value for each column."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def document_text(document: Document) -> str:
    """For a terminal; columns of tables are aligned."""
    lines = [clean(document.title)]
    for section in document.sections:
        lines.append("")
        if section.title:
            lines.append(clean(section.title))
        lines += (clean(sentence) for sentence in section.sentences)
        if section.table is not None and section.table.rows:
            lines += _aligned(section.table)
    return "\n".join(lines) + "\n"


def document_markdown(document: Document) -> str:
    """In GitHub's syntax."""
    return "\n".join(_markdown(document)) + "\n"


def sheet_csv(sheet: Sheet) -> str:
    """With a header (RFC 4180). A text that would be a formula begins with an apostrophe."""
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(sheet.columns)
    writer.writerows([_plain(cell) for cell in row] for row in sheet.rows)
    return written.getvalue()


def value_json(value: Mapping[str, object]) -> str:
    """One object, indented, its keys sorted; numbers have 9 digits, and a missing one is null."""
    plain = _cleaned(rounded(msgspec.to_builtins(value)))
    text = msgspec.json.format(msgspec.json.encode(plain, order="deterministic"), indent=2)
    return text.decode() + "\n"


def records_sheet(columns: Sequence[str], records: Sequence[Mapping[str, Cell]]) -> Sheet:
    """Some fields of records as a sheet; a missing field is empty."""
    rows = tuple(tuple(record.get(name) for name in columns) for record in records)
    return Sheet(columns=tuple(columns), rows=rows)


def _cleaned(value: object) -> object:
    """With every text in it sanitized: a folder's name may be no text."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: _cleaned(inner) for key, inner in value.items()}
    return [_cleaned(inner) for inner in value] if isinstance(value, list) else value


def _markdown(document: Document) -> Iterator[str]:
    yield f"# {escape(document.title)}"
    yield ""
    for section in document.sections:
        if section.title:
            yield f"## {escape(section.title)}"
            yield ""
        if section.sentences:
            yield from (f"- {escape(sentence)}" for sentence in section.sentences)
            yield ""
        if section.table is not None and section.table.rows:
            yield from table_lines(section.table)


def _aligned(table: Table) -> Iterator[str]:
    rows = [tuple(clean(cell) for cell in row) for row in (table.header, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _plain(cell: Cell) -> object:
    if isinstance(cell, float):
        return rounded(cell)
    if isinstance(cell, str):
        text = clean(cell)
        return f"'{text}" if text.startswith(FORMULA) else text
    return cell
