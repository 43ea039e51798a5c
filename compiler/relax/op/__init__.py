"""The operators of graphs. Importing this package declares all of them."""

from compiler.relax.op import builtin as builtin
from compiler.relax.op import ccl as ccl
from compiler.relax.op import grad as grad
from compiler.relax.op import image as image
from compiler.relax.op import memory as memory
from compiler.relax.op import nn as nn
from compiler.relax.op import vision as vision
from compiler.relax.op.elementwise.binary import (
    add,
    atan2,
    divide,
    floor_divide,
    floor_mod,
    log_add_exp,
    maximum,
    minimum,
    mod,
    multiply,
    power,
    subtract,
)
from compiler.relax.op.elementwise.bitwise import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    left_shift,
    right_shift,
)
from compiler.relax.op.elementwise.comparison import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_or,
    logical_xor,
    not_equal,
)
from compiler.relax.op.elementwise.qdq import dequantize, quantize
from compiler.relax.op.elementwise.ternary import ewise_fma
from compiler.relax.op.elementwise.unary import (
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    ceil,
    clip,
    cos,
    cosh,
    erf,
    exp,
    floor,
    isfinite,
    isinf,
    isnan,
    log,
    logical_not,
    negative,
    round,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    tan,
    tanh,
    trunc,
)
from compiler.relax.op.execution.calls import (
    assert_op,
    call_builtin_with_ctx,
    call_dps_packed,
    call_inplace_packed,
    call_pure_packed,
    call_tir,
    call_tir_inplace,
    call_tir_with_grad,
    print,
)
from compiler.relax.op.execution.closures import invoke_closure, invoke_pure_closure, make_closure
from compiler.relax.op.execution.devices import hint_on_device, to_vdevice
from compiler.relax.op.execution.memory import null_value, wrap_param
from compiler.relax.op.execution.shapes import get_shape_of, shape_of, shape_to_tensor, size, tensor_to_shape
from compiler.relax.op.linear_algebra import einsum, linear, matmul, outer
from compiler.relax.op.movement.create import (
    arange,
    eye,
    eye_like,
    full,
    full_like,
    hamming_window,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from compiler.relax.op.movement.dimensions import (
    broadcast_to,
    collapse_sum_like,
    collapse_sum_to,
    expand_dims,
    flatten,
    flip,
    repeat,
    reverse_sequence,
    squeeze,
    tile,
)
from compiler.relax.op.movement.index import dynamic_strided_slice, strided_slice, take
from compiler.relax.op.movement.joining import concat, meshgrid, split, stack
from compiler.relax.op.movement.layout_transform import layout_transform
from compiler.relax.op.movement.manipulate import astype, permute_dims, reshape
from compiler.relax.op.movement.mask import masked_fill
from compiler.relax.op.movement.positions import (
    gather_elements,
    gather_nd,
    index_put,
    index_tensor,
    one_hot,
    scatter_elements,
    scatter_nd,
    slice_scatter,
)
from compiler.relax.op.reduction.sampling import multinomial_from_uniform
from compiler.relax.op.reduction.search import argmax, argmin, bucketize, where
from compiler.relax.op.reduction.set import nonzero, unique
from compiler.relax.op.reduction.sorting import argsort, sort, topk
from compiler.relax.op.reduction.statistical import cumprod, cumsum, max, mean, median, min, prod, std, sum, variance
from compiler.relax.op.vision import (
    all_class_non_max_suppression,
    get_valid_counts,
    multibox_transform_loc,
    non_max_suppression,
    roi_align,
    roi_pool,
)

__all__ = [
    "abs", "acos", "acosh", "add", "all_class_non_max_suppression", "arange", "argmax", "argmin", "argsort", "asin",
    "asinh", "assert_op", "astype", "atan", "atan2", "atanh", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor",
    "broadcast_to", "bucketize", "call_builtin_with_ctx", "call_dps_packed", "call_inplace_packed", "call_pure_packed",
    "call_tir", "call_tir_inplace", "call_tir_with_grad", "ceil", "clip", "collapse_sum_like", "collapse_sum_to",
    "concat", "cos", "cosh", "cumprod", "cumsum", "dequantize", "divide", "dynamic_strided_slice", "einsum", "equal",
    "erf", "ewise_fma", "exp", "expand_dims", "eye", "eye_like", "flatten", "flip", "floor", "floor_divide",
    "floor_mod", "full", "full_like", "gather_elements", "gather_nd", "get_shape_of", "get_valid_counts", "greater",
    "greater_equal", "hamming_window", "hint_on_device", "index_put", "index_tensor", "invoke_closure",
    "invoke_pure_closure", "isfinite", "isinf", "isnan", "layout_transform", "left_shift", "less", "less_equal",
    "linear", "log", "log_add_exp", "logical_and", "logical_not", "logical_or", "logical_xor", "make_closure",
    "masked_fill", "matmul", "max", "maximum", "mean", "median", "meshgrid", "min", "minimum", "mod",
    "multibox_transform_loc", "multinomial_from_uniform", "multiply", "negative", "non_max_suppression", "nonzero",
    "not_equal", "null_value", "one_hot", "ones", "ones_like", "outer", "permute_dims", "power", "print", "prod",
    "quantize", "repeat", "reshape", "reverse_sequence", "right_shift", "roi_align", "roi_pool", "round", "rsqrt",
    "scatter_elements", "scatter_nd", "shape_of", "shape_to_tensor", "sigmoid", "sign", "sin", "sinh", "size",
    "slice_scatter", "sort", "split", "sqrt", "square", "squeeze", "stack", "std", "strided_slice", "subtract", "sum",
    "take", "tan", "tanh", "tensor_to_shape", "tile", "to_vdevice", "topk", "tril", "triu", "trunc", "unique",
    "variance", "where", "wrap_param", "zeros", "zeros_like",
]  # fmt: skip
