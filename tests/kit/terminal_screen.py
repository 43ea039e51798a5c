"""A terminal small enough to read: what the bytes a program wrote to one come to."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\x1b\[(?P<args>[?0-9;]*)(?P<end>[A-Za-z])|(?P<char>[^\x1b])", re.DOTALL)


class Screen:
    """Lines of `width` columns; a longer one goes on in the next, as terminals do. Colours are dropped."""

    def __init__(self, width: int = 80) -> None:
        self.width = width
        self.cursor_shown = True
        self.wrapped = 0
        self._rows: list[list[str]] = [[]]
        self._at = (0, 0)  # row, column

    @property
    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self._rows]

    def feed(self, text: str) -> None:
        for token in _TOKEN.finditer(text):
            if token["char"] is not None:
                self._put(token["char"])
            else:
                self._control(token["end"], token["args"])

    def _put(self, char: str) -> None:
        row, column = self._at
        match char:
            case "\r":
                self._at = (row, 0)
            case "\n":
                self._at = (row + 1, 0)
            case _:
                if column == self.width:
                    self.wrapped += 1
                    row, column = row + 1, 0
                self._reach(row, column)
                self._rows[row][column] = char
                self._at = (row, column + 1)

    def _reach(self, row: int, column: int) -> None:
        self._rows += [[] for _ in range(row + 1 - len(self._rows))]
        self._rows[row] += [" "] * (column + 1 - len(self._rows[row]))

    def _control(self, end: str, args: str) -> None:
        row, column = self._at
        match end, args:
            case "A", _:
                self._at = (max(0, row - int(args or 1)), column)
            case "K", "2":
                if row < len(self._rows):
                    self._rows[row] = []
            case ("h" | "l"), "?25":
                self.cursor_shown = end == "h"
            case "m", _:
                pass
            case _:
                raise AssertionError(f"this terminal does not know \\e[{args}{end}")
