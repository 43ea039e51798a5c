"""Products with what often comes behind them."""

from collections.abc import Callable, Sequence
from typing import Any

from compiler.ir.module import IRModule
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import ShapeExpr, TensorStructInfo, Var


def get_relax_matmul_module(
    x_shape: Sequence[Any], y_shape: Sequence[Any], in_dtype: str, out_dtype: str | None = None,
    transposed_y: bool = False, bias_shape: Sequence[Any] | None = None, activation: Callable[[Any], Any] | None = None,
    residual_bin_op: Callable[[Any, Any], Any] | None = None, residual_activation: Callable[[Any], Any] | None = None,
) -> IRModule:  # fmt: skip
    """Return a function `main(x, y[, bias])`: the product, biased, activated, joined with x.

    It is joined by `residual_bin_op`. `transposed_y`: the last two axes of y are swapped first. `out_dtype`: of the
    product and of the bias.
    """
    out_dtype = out_dtype or in_dtype
    x, y = _tensor("x", x_shape, in_dtype), _tensor("y", y_shape, in_dtype)
    bias = None if bias_shape is None else _tensor("bias", bias_shape, out_dtype)
    bb = BlockBuilder()
    with bb.function("main", [x, y] if bias is None else [x, y, bias]):
        with bb.dataflow():
            right: Any = y
            if transposed_y:
                outer = len(y_shape) - 2
                right = bb.emit(op.permute_dims(y, axes=[*range(outer), outer + 1, outer]))
            result: Any = op.matmul(x, right, out_dtype=out_dtype)
            if bias is not None:
                result = op.add(bb.emit(result), bias)
            if activation is not None:
                result = activation(bb.emit(result))
            if residual_bin_op is not None:
                result = residual_bin_op(bb.emit(result), x)
                if residual_activation is not None:
                    result = residual_activation(bb.emit(result))
            output = bb.emit_output(result)
        bb.emit_func_output(output)
    return bb.get()


def _tensor(name: str, shape: Sequence[Any], dtype: str) -> Var:
    return Var(name, TensorStructInfo(ShapeExpr(tuple(shape)), dtype))
