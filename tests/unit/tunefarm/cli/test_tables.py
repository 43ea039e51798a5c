"""Tables on terminals of every width: nothing is cut, no line is wider, and names stay whole."""

from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tunefarm.cli.tables import Fitted

CELL = st.text("abz0:,-é [", max_size=24).map(str.strip)


def shown(table: Table, width: int, *apart: str) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(Fitted(table, apart))
    return console.file.getvalue().splitlines()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.text("abz:", min_size=1, max_size=70), CELL, CELL, CELL), min_size=1, max_size=4),
    st.integers(30, 160),
)
def test_no_cell_is_cut_and_no_line_is_too_wide(rows: list[tuple[str, ...]], width: int) -> None:
    table = Table("name", "first", "second", "note")
    for row in rows:
        table.add_row(*map(Text, row))
    lines = shown(table, width, "name", "note")
    assert max(map(len, lines)) <= width
    joined = "".join("".join(lines).split())
    for row in rows:
        for cell in row:
            if len(cell) <= width - 4:
                assert "".join(cell.split()) in joined
        if len(row[0]) <= width:
            assert any(row[0] in line for line in lines)


def test_a_table_that_fits_is_a_table_and_one_that_does_not_has_names_above_its_rows() -> None:
    table = Table("workload", "trials", "target", title="Run 7")
    table.add_row("matmul:512,512,512:float32", "40", "llvm -mcpu=znver4")
    assert any("│" in line for line in shown(table, 80, "workload", "target"))
    assert [line.rstrip() for line in shown(table, 40, "workload", "target")] == [
        "Run 7",
        "trials",
        "matmul:512,512,512:float32",
        "40",
        "    llvm -mcpu=znver4",
    ]
    assert [line.rstrip() for line in shown(table, 27)] == [
        "Run 7",
        "matmul:512,512,512:float32",
        "trials    40",
        "target    llvm -mcpu=znver4",
    ]
