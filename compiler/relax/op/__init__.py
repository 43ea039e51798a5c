"""The operators of graphs. Importing this package declares all of them."""

from compiler.relax.op import nn as nn
from compiler.relax.op.arithmetic import (
    add,
    divide,
    equal,
    floor_divide,
    greater,
    greater_equal,
    less,
    less_equal,
    maximum,
    minimum,
    multiply,
    not_equal,
    power,
    subtract,
)
from compiler.relax.op.calls import (
    assert_op,
    call_builtin_with_ctx,
    call_dps_packed,
    call_inplace_packed,
    call_pure_packed,
    call_tir,
    call_tir_inplace,
    call_tir_with_grad,
    get_shape_of,
    print,
    shape_of,
)
from compiler.relax.op.linear_algebra import matmul
from compiler.relax.op.manipulate import astype, permute_dims, reshape

__all__ = [
    "add", "assert_op", "astype", "call_builtin_with_ctx", "call_dps_packed", "call_inplace_packed",
    "call_pure_packed", "call_tir", "call_tir_inplace", "call_tir_with_grad", "divide", "equal", "floor_divide",
    "get_shape_of", "greater", "greater_equal", "less", "less_equal", "matmul", "maximum", "minimum", "multiply",
    "not_equal", "permute_dims", "power", "print", "reshape", "shape_of", "subtract",
]  # fmt: skip
