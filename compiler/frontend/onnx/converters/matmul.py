"""Products of matrices."""

from __future__ import annotations

import numpy as np

from compiler import topi
from compiler.frontend.onnx.element_types import AnyArray
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.kernels import determinant as kernel
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import MICROSOFT, Result, converter
from compiler.frontend.onnx.values import TensorValue
from compiler.ir.base import RelaxExpr
from compiler.relax import op


@converter("MatMul")
def matmul(g: GraphBuilder, node: Node) -> Result:
    """Multiply matrices by numpy's rules."""
    return product(g, g.expr(node.value(0)), g.expr(node.value(1)))


def product(g: GraphBuilder, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
    """The product of matrices. Sums of 16-bit floats are float32, rounded once in the end."""
    dtype = g.info(a).dtype
    if dtype in ("float16", "bfloat16"):
        return g.emit(op.astype(g.emit(op.matmul(a, b, out_dtype="float32")), dtype))
    return g.emit(op.matmul(a, b))


def turned(matrix: AnyArray) -> AnyArray:
    """Transpose a matrix stripe by stripe, which is five times as fast as at once."""
    made = np.empty(matrix.shape[::-1], matrix.dtype)
    for start in range(0, matrix.shape[0], 64):
        made[:, start : start + 64] = matrix[start : start + 64].T
    return made


def transposed(g: GraphBuilder, value: TensorValue) -> RelaxExpr:
    """Transpose a matrix; a constant one is transposed during the import."""
    if value.is_constant:
        assert value.array is not None
        return g.expr(g.known(turned(value.array), value.elem))
    return g.emit(op.permute_dims(g.expr(value), [1, 0]))


@converter("Gemm")
def gemm(g: GraphBuilder, node: Node) -> Result:
    """Take alpha * A B + beta * C."""
    a, b, c = node.value(0), node.value(1), node.optional(2)
    left = transposed(g, a) if node.int("transA", 0) else g.expr(a)
    right = transposed(g, b) if node.int("transB", 0) else g.expr(b)
    made = product(g, left, right)
    alpha, beta = node.float("alpha", 1.0), node.float("beta", 1.0)
    if alpha != 1.0:
        made = g.emit(op.multiply(made, g.full(alpha, a.dtype)))
    if c is None or beta == 0.0:
        return made
    bias = g.expr(c)
    if beta != 1.0:
        bias = g.emit(op.multiply(bias, g.full(beta, a.dtype)))
    return op.add(made, bias)


@converter("FusedMatMul", domain=MICROSOFT)
def fused_matmul(g: GraphBuilder, node: Node) -> Result:
    """Multiply matrices and scale. The last two dimensions of an operand may be transposed."""
    sides = []
    for index, name in enumerate(("transA", "transB")):
        value = g.expr(node.value(index))
        if node.int(name, 0):
            rank = g.rank(value)
            value = g.emit(op.permute_dims(value, [*range(rank - 2), rank - 1, rank - 2]))
        sides.append(value)
    made = product(g, sides[0], sides[1])
    alpha = node.float("alpha", 1.0)
    return made if alpha == 1.0 else op.multiply(made, g.full(alpha, node.value(0).dtype))


@converter("Einsum")
def einsum(g: GraphBuilder, node: Node) -> Result:
    """Sum products of elements, as an equation says."""
    equation = str(node.required("equation")).replace(" ", "")
    operands = [g.expr(node.value(k)) for k in range(len(node.inputs))]
    dtype = node.value(0).dtype
    short = dtype in ("float16", "bfloat16")
    if short:
        operands = [g.emit(op.astype(x, "float32")) for x in operands]
    if "." in equation:
        equation = _without_ellipsis(node, equation, [g.rank(x) for x in operands])
    made = g.te(_einsum, equation, operands, name="einsum")
    return op.astype(made, dtype) if short else made


def _einsum(equation: str, operands: list[object]) -> object:
    return topi.einsum(equation, *operands)


def _without_ellipsis(node: Node, equation: str, ranks: list[int]) -> str:
    """An equation with letters for the dimensions that "..." stands for."""
    inputs, arrow, output = equation.partition("->")
    terms = inputs.split(",")
    free = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in equation]
    missing = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks) if "..." in term]
    most = max(missing, default=0)
    if most < 0 or most > len(free):
        node.fail(f"the equation {equation!r} does not fit tensors of {ranks} dimensions")
    letters = free[:most]
    made = []
    for term, rank in zip(terms, ranks):
        count = rank - len(term.replace("...", ""))
        made.append(term.replace("...", "".join(letters[most - count :] if count else [])))
    if not arrow:
        seen = "".join(terms).replace(".", "")
        output = "..." + "".join(sorted(letter for letter in set(seen) if seen.count(letter) == 1))
    return ",".join(made) + "->" + output.replace("...", "".join(letters))


@converter("Det")
def determinant(g: GraphBuilder, node: Node) -> Result:
    """Take the determinants of square matrices."""
    return g.te(kernel, node.value(0), name="determinant")
