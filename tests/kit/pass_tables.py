"""Write the tables of docs/passes.md anew, from passes' docstrings and options: `python -m tests.kit.pass_tables`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from compiler.driver import tir_passes as _tir_passes  # noqa: F401 - registers the passes over functions
from compiler.driver.pipeline import GPU, PIPELINE, PassRow
from compiler.ir.transform.config import list_options
from compiler.relax.transform import pipeline as _graph_passes  # noqa: F401 - registers those over graphs
from compiler.relax.transform.passes import relax_passes
from compiler.tir.transform import find_pass, pass_of
from tests.kit.places import DOCS
from tunefarm.pass_options import IGNORED

PAGE = DOCS / "passes.md"
_ON_REQUEST = ("DefaultGPUSchedule", "BF16ComputeLegalize")
"""Passes over TensorIR that the list of lowering does not run."""


def with_tables(text: str) -> str:
    """The page with the rows of its tables as the code has them. The text around them stays as it is."""
    text = _replaced(text, "Options, levels, leaving passes out", _options())
    text = _replaced(text, "The passes", _rows_of_tir_passes())
    text = _replaced(text, "Passes over graphs", _rows_of_graph_passes())
    return _replaced(text, "Watching", (f"| `{name}` |\n" for name in IGNORED))


def _replaced(text: str, heading: str, rows: Iterable[str]) -> str:
    """Replace the rows of the table that follows a heading."""
    table = rf"(\n## {re.escape(heading)}\n(?:(?!\n## ).)*?\n\|(?:---\|)+\n)(?:\|[^\n]*\n)+"
    made, count = re.subn(table, lambda found: found[1] + "".join(rows), text, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"{PAGE.name} has no table under {heading!r}")
    return made


def _options() -> Iterable[str]:
    known = list_options().values()
    return (f"| `{each.name}` | {each.type_name} | {each.help} |\n" for each in known if each.name not in IGNORED)


def _rows_of_tir_passes() -> Iterable[str]:
    ordered = [pass_of(row.function) for row in (*PIPELINE, *GPU) if isinstance(row, PassRow)]
    ordered += [find_pass(title) for title in _ON_REQUEST]
    return (f"| `tir.{each.title}` | {each.opt_level} | {each.description} |\n" for each in ordered)


def _rows_of_graph_passes() -> Iterable[str]:
    return (f"| `{title}` | {each.opt_level} | {each.description} |\n" for title, each in relax_passes().items())


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
