"""Messages of the schedule engine in the user's words: loops by the names of their axes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from compiler.ir.visit import walk
from compiler.tir import nodes as n

_LOOP = re.compile(r"^(\s*for )(\S+)( in .*)$")


def in_axis_names(message: str, func: n.PrimFunc, names: Mapping[n.Var, str]) -> str:
    """`message`, about `func`, and the loop nest under it, with loops called as `names` says.

    The nest is drawn in the order of the loops in `func`; where it is only a part of them its names stay.
    """
    first, newline, nest = message.partition("\n")
    loops = [node.loop_var for node in walk(func.body) if isinstance(node, n.For)]
    for name in {var.name for var in loops}:
        meant = {names.get(var, var.name) for var in loops if var.name == name}
        if len(meant) == 1:
            first = first.replace(f"{name!r}", f"{meant.pop()!r}")
    lines = nest.split("\n")
    drawn = [at for at, line in enumerate(lines) if _LOOP.match(line)]
    if len(drawn) == len(loops):
        for at, var in zip(drawn, loops):
            lines[at] = _renamed(lines[at], names.get(var, var.name))
    return first + newline + "\n".join(lines)


def _renamed(line: str, name: str) -> str:
    """A drawn loop under another name, its arrow in the same column."""
    found = _LOOP.match(line)
    assert found is not None
    text = f"{found[1]}{name}{found[3]}"
    body, arrow, _ = text.partition("<--")
    return text if not arrow else body.rstrip().ljust(line.index("<--") - 1) + " <--"
