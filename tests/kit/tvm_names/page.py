"""Write the table of Apache TVM's names: `python -m tests.kit.tvm_names.page > docs/tvm-compatibility.md`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby

from tests.kit.tvm_names.collect import SPACES
from tests.kit.tvm_names.documented import documented
from tests.kit.tvm_names.standing import Standing, field, standings

_HEAD = """\
# Names of Apache TVM

`import tunefarm as tvm` gives programs the names that Apache TVM gives them. This page lists every public name of
TVM {older} and {newer} and what stands under it here. The namespaces are `te`, `tir`, `script`, `target`, `runtime`,
`rpc`, `autotvm`, `auto_scheduler`, `meta_schedule` and `dlight`.
(TVM {newer} keeps `tir` in `tirx` and `s_tir`; a name that both versions have stands under the older path.)

* **works**: the name is here, and takes what TVM's takes. A class has all the members of TVM's.
* **differs**: the name is here without the parameters or members that its row names.
* **refuses**: the name is not here; its row says why, and what to use instead. A program that asks
  for it reads the same text.
* **not yet**: the name is not here.

Graphs have their own pages: [operators](relax-operators.md), [Relay](relay.md).

This page is generated from the code. Do not edit it; run
`python -m tests.kit.tvm_names.page > docs/tvm-compatibility.md`.

| Namespace | works | differs | refuses | not yet |
|---|---:|---:|---:|---:|
"""
_STATES = ["works", "differs", "refuses", "missing"]


def page() -> str:
    """The whole page, in Markdown."""
    rows = sorted(standings(), key=lambda row: (SPACES.index(_space(row)), row.name))
    older, newer = field()["versions"]
    parts = [_HEAD.format(older=older, newer=newer)]
    spaces = {space: list(inside) for space, inside in groupby(rows, _space)}
    for space, inside in spaces.items():
        parts.append(_counted(f"[`{space}`](#{space})", inside))
    parts.append(_counted("all", rows))
    parts += _more_parameters()
    for space, inside in spaces.items():
        parts.append(f"\n## {space}\n")
        parts += _section(inside)
    return "".join(parts)


_MORE = """
## Parameters that are more here

{count} signatures are those of TVM's documents (`tests/data/documented_signatures.txt`): names, order and defaults.
These take more, and need none of it. A program written for TVM never sees the difference.

| Name | More here |
|---|---|
"""


def _more_parameters() -> Iterable[str]:
    rows = documented()
    yield _MORE.format(count=len(rows))
    yield from (f"| `{row.name}` | `{row.more}` |\n" for row in rows if row.more)


def _space(row: Standing) -> str:
    return row.name.partition(".")[0]


def _counted(title: str, rows: list[Standing]) -> str:
    count = Counter(row.state for row in rows)
    return f"| {title} | " + " | ".join(str(count[state]) for state in _STATES) + " |\n"


def _section(rows: list[Standing]) -> Iterable[str]:
    by_state = {state: [row for row in rows if row.state == state] for state in _STATES}
    if by_state["works"]:
        yield "\n**Works**\n\n"
        yield from _by_module(by_state["works"])
    if by_state["differs"]:
        yield "\n**Differs**\n\n| Name | How |\n|---|---|\n"
        yield from (f"| `{row.name}` | {row.note} |\n" for row in by_state["differs"])
    if by_state["refuses"]:
        yield "\n**Refuses**\n\n| Why | Names |\n|---|---|\n"
        reasons = dict.fromkeys(row.note for row in by_state["refuses"])
        for reason in reasons:
            names = ", ".join(f"`{row.name}`" for row in by_state["refuses"] if row.note == reason)
            yield f"| {reason} | {names} |\n"
    if by_state["missing"]:
        yield "\n**Not yet**\n\n"
        yield from _by_module(by_state["missing"])


def _by_module(rows: list[Standing]) -> Iterable[str]:
    for module, inside in groupby(rows, lambda row: row.name.rpartition(".")[0]):
        yield f"* `{module}`: " + ", ".join(f"`{row.name.rpartition('.')[2]}`" for row in inside) + "\n"


if __name__ == "__main__":
    print(page(), end="")
