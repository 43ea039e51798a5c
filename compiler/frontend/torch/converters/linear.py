"""Matrix products."""

from __future__ import annotations

from typing import Any

from compiler.frontend.torch.conversion import Conversion
from compiler.frontend.torch.table import converts
from compiler.relax import op


@converts("aten.linear.default")
def linear(c: Conversion, input: Any, weight: Any, bias: Any) -> Any:
    product = op.matmul(input, weight if c.ndim(weight) == 1 else op.permute_dims(weight))
    return product if bias is None else op.add(product, bias)


def _product(name: str, second: str) -> None:
    source = f"aten.{name}.default"
    if second == "mat2":

        @converts(source)
        def of_mat2(c: Conversion, self: Any, mat2: Any) -> Any:
            return op.matmul(self, mat2)
    elif second == "vec":

        @converts(source)
        def of_vec(c: Conversion, self: Any, vec: Any) -> Any:
            return op.matmul(self, vec)
    else:

        @converts(source)
        def of_other(c: Conversion, self: Any, other: Any) -> Any:
            return op.matmul(self, other)


for _name, _second in (("mm", "mat2"), ("bmm", "mat2"), ("mv", "vec"), ("matmul", "other")):
    _product(_name, _second)


@converts("aten.dot.default")
def dot(c: Conversion, self: Any, tensor: Any) -> Any:
    return op.sum(op.multiply(self, tensor))


@converts("aten.outer.default", "aten.ger.default")
def outer(c: Conversion, self: Any, vec2: Any) -> Any:
    return op.outer(self, vec2)


def _sum(c: Conversion, start: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """beta * start + alpha * product."""
    held = c.emit(product)
    dtype = c.dtype(held)
    scaled = held if alpha == 1 else op.multiply(held, c.tensor(alpha, dtype))
    if beta == 0:
        return scaled
    return op.add(scaled, start if beta == 1 else op.multiply(start, c.tensor(beta, dtype)))


@converts("aten.addmm.default")
def addmm(c: Conversion, self: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any) -> Any:
    return _sum(c, self, op.matmul(mat1, mat2), beta, alpha)


@converts("aten.baddbmm.default")
def baddbmm(c: Conversion, self: Any, batch1: Any, batch2: Any, beta: Any, alpha: Any) -> Any:
    return _sum(c, self, op.matmul(batch1, batch2), beta, alpha)


@converts("aten.addbmm.default")
def addbmm(c: Conversion, self: Any, batch1: Any, batch2: Any, beta: Any, alpha: Any) -> Any:
    return _sum(c, self, op.sum(op.matmul(batch1, batch2), 0), beta, alpha)


@converts("aten.addmv.default")
def addmv(c: Conversion, self: Any, mat: Any, vec: Any, beta: Any, alpha: Any) -> Any:
    return _sum(c, self, op.matmul(mat, vec), beta, alpha)


@converts("aten.einsum.default")
def einsum(c: Conversion, equation: Any, tensors: Any) -> Any:
    return op.einsum(tuple(tensors), equation.replace(" ", ""))
