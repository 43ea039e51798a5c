"""Einstein's summation."""

from __future__ import annotations

from typing import Any

from compiler.errors import IRError
from compiler.te.operation import compute, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor, shape_text
from compiler.te.where import here
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Var


def einsum(subscripts: str, *operand: Any) -> Tensor:
    """numpy's einsum of tensors: "ij,jk->ik", with "..." for dimensions that broadcast and stay.

    Without "->" the dimensions of "..." come first, then the letters that occur once, sorted. A letter may occur
    several times in a term: its diagonal. Raises IRError when letters and dimensions do not fit, or sizes of one
    letter differ.
    """
    listed = len(operand) == 1 and isinstance(operand[0], tuple | list)
    operands: tuple[Tensor, ...] = tuple(operand[0]) if listed else operand
    terms, result = _read(subscripts, operands)
    sizes: dict[str, PrimExpr] = {}
    for term, tensor in zip(terms, operands):
        for name, size in zip(term, tensor.shape):
            known, new = ops.as_int(sizes.get(name, size)), ops.as_int(size)
            if known is not None and new is not None and known != new and 1 not in (known, new):
                raise IRError(f"einsum {subscripts!r}: {name!r} is {known} and {new}" + here())
            if name not in sizes or known == 1:
                sizes[name] = size
    reduced = {name: reduce_axis((0, size), name=name) for name, size in sizes.items() if name not in result}

    def value(*indices: Var) -> PrimExpr:
        index: dict[str, PrimExpr] = dict(zip(result, indices))
        index.update({name: axis.var for name, axis in reduced.items()})
        product: PrimExpr | None = None
        for term, tensor in zip(terms, operands):
            point = [ops.const(0) if ops.as_int(s) == 1 else index[name] for name, s in zip(term, tensor.shape)]
            factor = tensor(*point)
            product = factor if product is None else product * factor
        assert product is not None
        return te_sum(product, axis=list(reduced.values())) if reduced else product

    tag = "comm_reduce" if reduced else "injective"
    made: Tensor = compute([sizes[name] for name in result], value, name="T_einsum", tag=tag)
    return made


def _read(subscripts: str, operands: tuple[Tensor, ...]) -> tuple[list[list[str]], list[str]]:
    """The name of each dimension of each operand, and of the result.
    Those that "..." stands for are digits."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    parts = left.split(",")
    fits = len(parts) == len(operands) and bool(operands)
    terms: list[list[str]] = []
    widest = 0
    for part, tensor in zip(parts, operands):
        before, dots, behind = part.partition("...")
        fits &= all(c.isalpha() and c.isascii() for c in before + behind)
        count = tensor.ndim - len(before) - len(behind)
        fits &= count >= 0 if dots else count == 0
        terms.append([*before, *(f"{-n}" for n in range(count, 0, -1) if dots), *behind])
        widest = max(widest, count if dots else 0)
    spread = [f"{-n}" for n in range(widest, 0, -1)]
    letters = [name for term in terms for name in term if name.isalpha()]
    if arrow:
        before, dots, behind = right.partition("...")
        result = [*before, *(spread if dots else []), *behind]
        named = [*before, *behind]
        fits &= len(set(named)) == len(named) and set(named) <= set(letters) and (bool(dots) or not spread)
    else:
        result = [*spread, *sorted(name for name in set(letters) if letters.count(name) == 1)]
    if not fits:
        shapes = ", ".join(shape_text(o.shape) for o in operands)
        raise IRError(f"einsum {subscripts!r} does not fit operands of shapes {shapes}" + here())
    return terms, result
