"""Tables that fit the terminal: long texts stand on lines of their own, and nothing is cut."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import zip_longest

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from tunefarm.cli.common import console

_UNLIMITED = 100_000
_GAP = 2

_Column = tuple[str, Column, list[Text]]
"""Its header, itself, its cells."""


class Fitted:
    """A table of text.
    On a terminal that is too narrow for its rows, the columns `apart` stand on lines of their own, the first of them
    above their row. If that is not enough, each cell of a row has a line."""

    def __init__(self, table: Table, apart: Collection[str] = ()) -> None:
        self._table, self._apart = table, frozenset(apart)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        free = options.update(max_width=_UNLIMITED)
        if console.measure(self._table, options=free).maximum <= options.max_width:
            yield self._table
            return
        if self._table.title:
            yield Text(str(self._table.title), style="italic")
        yield from self._narrow(options.max_width)
        if self._table.caption:
            yield self._table.caption

    def _narrow(self, width: int) -> RenderResult:
        columns = [(str(column.header), column, _cells(column)) for column in self._table.columns]
        beside = [entry for entry in columns if entry[0] not in self._apart]
        widths = [max([len(name), *map(_width, cells)]) for name, _, cells in beside]
        if sum(widths) + _GAP * len(widths) > width:
            yield from self._one_cell_a_line(columns)
            return
        first = next((at for at, entry in enumerate(columns) if entry[0] not in self._apart), len(columns))
        yield self._line(widths, beside, [Text(name, style="bold") for name, _, _ in beside])
        for row in range(self._table.row_count):
            for at, (name, _, cells) in enumerate(columns):
                if name in self._apart and at < first:
                    yield _folded(cells[row], "bold" if at == 0 else "", 0 if at == 0 else _GAP)
            line = self._line(widths, beside, [cells[row] for _, _, cells in beside])
            line.stylize(self._table.rows[row].style or "")
            yield line
            for at, (name, _, cells) in enumerate(columns):
                if name in self._apart and at > first:
                    yield _folded(cells[row], "", 2 * _GAP)

    def _line(self, widths: Sequence[int], beside: Sequence[_Column], cells: Sequence[Text]) -> Text:
        """Cells beside each other, of which each may have several lines."""
        rows = zip_longest(*(cell.split("\n") for cell in cells), fillvalue=Text(""))
        lines = [
            Text("  ").join(_padded(part, size, column) for part, size, (_, column, _) in zip(row, widths, beside))
            for row in rows
        ]
        for line in lines:
            line.rstrip()
        return Text("\n").join(lines)

    def _one_cell_a_line(self, columns: Sequence[_Column]) -> RenderResult:
        size = max(len(name) for name, _, _ in columns)
        for row in range(self._table.row_count):
            (_, _, first), *rest = columns
            yield _folded(first[row], "bold", 0)
            grid = Table.grid(padding=(0, 0, 0, _GAP))
            grid.add_column(width=size, no_wrap=True)
            grid.add_column(overflow="fold")
            for name, _, cells in rest:
                if cells[row].plain:
                    grid.add_row(Text(name, style="dim"), cells[row])
            yield grid


def _cells(column: Column) -> list[Text]:
    return [cell if isinstance(cell, Text) else Text.from_markup(str(cell)) for cell in column.cells]


def _padded(part: Text, size: int, column: Column) -> Text:
    padded = part.copy()
    room = size - part.cell_len
    padded.pad_left(room) if column.justify == "right" else padded.pad_right(room)
    return padded


def _width(cell: Text) -> int:
    return max((line.cell_len for line in cell.split("\n")), default=0)


def _folded(cell: Text, style: str, indent: int) -> Padding:
    """The cell on lines of its own, folded where it is wider than the terminal."""
    text = cell.copy()
    text.overflow = "fold"
    text.stylize(style)
    return Padding(text, (0, 0, 0, indent), expand=False)


def show_table(table: Table, *apart: str) -> None:
    """Print a table that fits the terminal; columns `apart` are those whose text is to be copied or long."""
    console().print(Fitted(table, apart))
