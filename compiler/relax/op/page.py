"""The page of operators: `python -m compiler.relax.op.page > docs/relax-operators.md` writes it anew."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

import compiler.relax.op  # noqa: F401 - declares the operators
from compiler.relax.op.core.layout import as_written
from compiler.relax.op.core.params import REQUIRED, Param
from compiler.relax.op.core.registry import OPERATORS, Operator, RefusedPart

_HEAD = """\
# Operators of graphs

This page is generated from the declarations in `compiler/relax/op`. Do not edit it; run
`python -m compiler.relax.op.page > docs/relax-operators.md`.

There are {count} operators. `relax.op.add(x1, x2)` makes a call of `relax.add`; scripts write it `R.add(x1, x2)`.
The columns:

* **Fusion**: how the operator may be fused with others. An opaque one is a kernel of its own.
* **Runs as**: a kernel (made by `topi`), calls of other operators, or on the host.
* **Layout**: "moves" where layout conversion may change how its tensors lie; "as written" where it may not.
* **Gradient**: whether it is there, or why not.
"""
_GROUPS = {
    "": "Tensors",
    "builtin": "Runtime",
    "ccl": "Workers",
    "grad": "Gradients",
    "image": "Images",
    "memory": "Memory",
    "nn": "Neural networks",
    "vision": "Object detection",
    "vm": "Virtual machine",
}


def page() -> str:
    """The whole page, in Markdown."""
    parts = [_HEAD.format(count=len(OPERATORS))]
    ordered = sorted(OPERATORS.values(), key=lambda entry: (_group(entry), entry.name))
    for group, entries in groupby(ordered, _group):
        title = _GROUPS.get(group, group.capitalize())
        parts.append(
            f"\n## {title}\n\n| Operator | | Fusion | Runs as | Layout | Gradient |\n|---|---|---|---|---|---|\n"
        )
        parts += [_row(entry) for entry in entries]
    return "".join(parts)


def _group(entry: Operator) -> str:
    """The name between "relax." and the operator's own; "" for most."""
    return entry.name.removeprefix("relax.").rpartition(".")[0]


def _row(entry: Operator) -> str:
    called = f"{entry.name.removeprefix('relax.')}({', '.join(map(_param, entry.params))})"
    summary = entry.doc.splitlines()[0]
    layout = entry.layout.reason if isinstance(entry.layout, RefusedPart) else "as written"
    if not isinstance(entry.layout, RefusedPart) and entry.layout is not as_written:
        layout = "moves"
    gradient = entry.gradient.reason if isinstance(entry.gradient, RefusedPart) else "yes"
    fusion = entry.pattern.name.lower().replace("_", " ")
    cells = (f"`{called}`", summary, fusion, _runs_as(entry), layout, gradient)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"


def _param(param: Param) -> str:
    if param.variadic:
        return f"*{param.name}"
    return param.name if param.default is REQUIRED else f"{param.name}={param.default!r}"


def _runs_as(entry: Operator) -> str:
    forms: list[tuple[Callable[..., object] | RefusedPart, str]] = [
        (entry.te, "kernel"), (entry.legalize, "other calls"), (entry.host, "host"),
    ]  # fmt: skip
    return next(name for form, name in forms if not isinstance(form, RefusedPart))


if __name__ == "__main__":
    print(page(), end="")
