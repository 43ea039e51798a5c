"""Operators as te definitions: what is computed, not how it is scheduled."""

from compiler.topi import nn
from compiler.topi.broadcast import (
    add,
    broadcast_to,
    divide,
    equal,
    floor_divide,
    floor_mod,
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
)  # fmt: skip
from compiler.topi.conv import conv2d_nchw, pad
from compiler.topi.elemwise import (
    abs,
    cast,
    ceil,
    clip,
    cos,
    erf,
    exp,
    floor,
    full,
    identity,
    log,
    negative,
    round,
    rsqrt,
    sigmoid,
    sin,
    sqrt,
    tan,
    tanh,
    trunc,
)  # fmt: skip
from compiler.topi.matrix import batch_matmul, dense, matmul
from compiler.topi.nn import relu, softmax
from compiler.topi.reduction import max, min, prod, sum
from compiler.topi.transform import concatenate, expand_dims, reshape, transpose

__all__ = [
    "abs", "add", "batch_matmul", "broadcast_to", "cast", "ceil", "clip", "concatenate", "conv2d_nchw", "cos",
    "dense", "divide", "equal", "erf", "exp", "expand_dims", "floor", "floor_divide", "floor_mod", "full",
    "greater", "greater_equal", "identity", "less", "less_equal", "log", "matmul", "max", "maximum", "min",
    "minimum", "multiply", "negative", "nn", "not_equal", "pad", "power", "prod", "relu", "reshape", "round",
    "rsqrt", "sigmoid", "sin", "softmax", "sqrt", "subtract", "sum", "tan", "tanh", "transpose", "trunc",
]  # fmt: skip
