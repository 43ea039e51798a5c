"""Gradients of matrix products."""

from __future__ import annotations

from typing import Any

from compiler.relax.nodes import Tuple
from compiler.relax.op.core.backward import Backward, Gradients


def _turned(use: Backward, value: Any) -> Any:
    """The last two dimensions exchanged."""
    rank = use.rank(value)
    return use.permute_dims(value, [*range(rank - 2), rank - 1, rank - 2])


def matmul(use: Backward) -> Gradients:
    a, b = use.call.args
    grad = use.grad
    if not use.is_float(0):
        return None, None
    row, column = a, b
    if use.rank(a) == 1:
        row, grad = use.expand_dims(a, 0), use.expand_dims(grad, -2 if use.rank(b) > 1 else -1)
    if use.rank(b) == 1:
        column, grad = use.expand_dims(b, 1), use.expand_dims(grad, -1)
    dtype = use.info(a).dtype
    grad = use.astype(grad, dtype) if use.info(grad).dtype != dtype else grad
    first = use.fitted_to(use.matmul(grad, _turned(use, column)), row)
    second = use.fitted_to(use.matmul(_turned(use, row), grad), column)
    return (
        use.reshaped(first, a) if use.rank(a) == 1 else first,
        use.reshaped(second, b) if use.rank(b) == 1 else second,
    )


def outer(use: Backward) -> Gradients:
    a, b = use.call.args
    return use.matmul(use.grad, b), use.matmul(a, use.grad)


def einsum(use: Backward) -> Gradients:
    """Return the gradient of each operand.
    It is an einsum in which the operand's letters and those of the result change places."""
    text = "".join(use.attrs["subscripts"].split())
    parts, operands = text.split("->")[0].split(","), use.fields(0)
    if "." in text:
        use.fail("dimensions that stand for several (...) must be written out")
    letters = "".join(parts)
    out = text.split("->")[1] if "->" in text else "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    found = []
    for position, own in enumerate(parts):
        others = [part for n, part in enumerate(parts) if n != position]
        values = [value for n, value in enumerate(operands) if n != position]
        if len(set(own)) != len(own):
            use.fail(f"the operand {own!r} names a dimension twice")
        known = set(out).union(*others)
        reached = "".join(c for c in own if c in known)
        grad = use.einsum(Tuple((use.grad, *values)), ",".join([out, *others]) + "->" + reached)
        if reached != own:
            grad = use.expand_dims(grad, [d for d, c in enumerate(own) if c not in known])
            grad = use.spread(grad, operands[position])
        found.append(grad)
    return (Tuple(tuple(found)),)
