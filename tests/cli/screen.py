"""What a terminal shows after some output: lines, the cursor, and erasing."""

import re

# A control sequence, an operating system command, or one character.
TOKEN = re.compile(r"\x1b\[[?>=]?([0-9;]*)([@-~])|\x1b\][^\x07]*\x07|[\s\S]")


class Screen:
    """A terminal that wraps long lines, scrolls, and keeps what has scrolled out."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._rows: list[list[str]] = [[]]
        self._row, self._column = 0, 0
        self.has_colours = False

    @property
    def lines(self) -> list[str]:
        """All lines, those that have scrolled out too, without empty ones at the end."""
        shown = ["".join(row).rstrip() for row in self._rows]
        while shown and not shown[-1]:
            shown.pop()
        return shown

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def resize(self, width: int) -> None:
        """Makes the terminal narrower, which wraps its lines."""
        rows: list[list[str]] = []
        for index, row in enumerate(self._rows):
            if index == self._row:
                self._row = len(rows) + max(0, (max(len(row), 1) - 1) // width)
                self._column = min(self._column, width - 1)
            rows += [row[at : at + width] for at in range(0, max(len(row), 1), width)]
        self._rows, self.width = rows, width

    def feed(self, output: str) -> None:
        """Takes further output."""
        for found in TOKEN.finditer(output):
            if found[2]:
                self._control(found[2], found[1])
            elif found[0] == "\r":
                self._column = 0
            elif found[0] == "\n":
                self._down()
            elif found[0].isprintable():
                self._put(found[0])

    def _control(self, kind: str, numbers: str) -> None:
        if kind == "A":
            top = max(0, len(self._rows) - self.height)
            self._row = max(top, self._row - int(numbers or 1))
        elif kind == "K":
            assert numbers == "2"
            self._rows[self._row] = []
        elif kind == "m":
            colours = {"31", "32", "33", "34", "35", "36"}
            self.has_colours |= bool(colours & set(numbers.split(";")))
        else:
            assert kind in "hl", kind

    def _put(self, char: str) -> None:
        if self._column == self.width:
            self._column = 0
            self._down()
        row = self._rows[self._row]
        row += [" "] * (self._column + 1 - len(row))
        row[self._column] = char
        self._column += 1

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append([])
