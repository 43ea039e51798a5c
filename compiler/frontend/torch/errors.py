"""Errors of imported torch models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.errors import CompileError


class UnsupportedOperatorError(CompileError, NotImplementedError, kind="unsupported_operator"):
    """Operators of a model that have no counterpart; all of them, with the nodes that call them."""


class RefusedNode(Exception):
    """One node cannot be converted; the text says why. Collected, never seen by users."""


def unsupported(found: Mapping[str, Sequence[str]], model: str) -> UnsupportedOperatorError:
    """The error for operators (or operators with a reason), each with the names of its nodes."""
    count = sum(map(len, found.values()))
    lines = [f"{model} has {count} node{'s' * (count != 1)} that cannot be imported:"]
    for name, nodes in sorted(found.items()):
        shown = ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")
        lines.append(f"  {name}: {shown}")
    return UnsupportedOperatorError(
        "\n".join(lines),
        hint="give a converter in custom_convert_map, or use torch.compile, which leaves such nodes to torch",
        detail={"operators": {name: list(nodes) for name, nodes in found.items()}},
    )
