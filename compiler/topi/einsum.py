"""Einstein's summation."""

from __future__ import annotations

from typing import Any

from compiler.errors import IRError
from compiler.te.operation import compute, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor, shape_text
from compiler.te.where import at, caller_span
from compiler.tir import ops
from compiler.tir.nodes import IterVar, PrimExpr, Var


def einsum(subscripts: str, *operand: Any) -> Tensor:
    """numpy's einsum of tensors: "ij,jk->ik". Without "->" the letters that occur once, sorted, are the result's.

    Raises IRError when letters and dimensions do not fit, or sizes of one letter differ.
    """
    listed = len(operand) == 1 and isinstance(operand[0], tuple | list)
    operands: tuple[Tensor, ...] = tuple(operand[0]) if listed else operand
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    letters = "".join(terms)
    result = right if arrow else "".join(sorted(name for name in set(letters) if letters.count(name) == 1))
    fits = len(terms) == len(operands) and [len(t) for t in terms] == [o.ndim for o in operands]
    if not fits or not (letters + result).isalpha() or len(set(result)) != len(result) or set(result) - set(letters):
        shapes = ", ".join(shape_text(o.shape) for o in operands)
        raise IRError(f"einsum {subscripts!r} does not fit operands of shapes {shapes}" + at(caller_span()))
    sizes: dict[str, PrimExpr] = {}
    for term, tensor in zip(terms, operands):
        for name, size in zip(term, tensor.shape):
            known, new = ops.as_int(sizes.setdefault(name, size)), ops.as_int(size)
            if known is not None and new is not None and known != new:
                raise IRError(f"einsum {subscripts!r}: {name!r} is {known} and {new}" + at(caller_span()))
    reduced = {name: reduce_axis((0, size), name=name) for name, size in sizes.items() if name not in result}
    return _einsum(terms, operands, result, sizes, reduced)


def _einsum(
    terms: list[str],
    operands: tuple[Tensor, ...],
    result: str,
    sizes: dict[str, PrimExpr],
    reduced: dict[str, IterVar],
) -> Tensor:
    def value(*indices: Var) -> PrimExpr:
        index: dict[str, PrimExpr] = dict(zip(result, indices))
        index.update({name: axis.var for name, axis in reduced.items()})
        product: PrimExpr | None = None
        for term, tensor in zip(terms, operands):
            factor = tensor(*(index[name] for name in term))
            product = factor if product is None else product * factor
        assert product is not None
        return te_sum(product, axis=list(reduced.values())) if reduced else product

    tag = "comm_reduce" if reduced else "injective"
    made: Tensor = compute([sizes[name] for name in result], value, name="T_einsum", tag=tag)
    return made
