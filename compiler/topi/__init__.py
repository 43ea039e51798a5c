"""Operators as te definitions, and schedules for them by kind of target."""

from compiler.te.broadcast import add, divide, floor_divide, floor_mod, mod, multiply, subtract
from compiler.topi import image, nn, vision
from compiler.topi.broadcast import (
    atan2,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    broadcast_to,
    equal,
    fmod,
    greater,
    greater_equal,
    ldexp,
    left_shift,
    less,
    less_equal,
    log_add_exp,
    logical_and,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    not_equal,
    power,
    right_shift,
    trunc_divide,
    trunc_mod,
    where,
)
from compiler.topi.create import (
    arange,
    arange_extent,
    blackman_window,
    eye,
    full,
    full_like,
    hamming_window,
    hann_window,
    linspace,
    meshgrid,
    ndarray_size,
    ones,
    shape,
    zeros,
)
from compiler.topi.einsum import einsum
from compiler.topi.elemwise import (
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    bitwise_not,
    cast,
    ceil,
    clip,
    cos,
    cosh,
    elemwise_sum,
    erf,
    exp,
    exp2,
    exp10,
    floor,
    identity,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    logical_not,
    nearbyint,
    negative,
    reinterpret,
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
from compiler.topi.fast_math import fast_erf, fast_exp, fast_tanh
from compiler.topi.index import adv_index, gather, gather_nd, index_tensor, one_hot, take, unravel_index
from compiler.topi.mask import matrix_set_diag, reverse_sequence, roll, sequence_mask, sliding_window, tril, trilu, triu
from compiler.topi.matrix import batch_matmul, dense, matmul, tensordot
from compiler.topi.nn.activation import relu
from compiler.topi.nn.conv import conv2d_nchw
from compiler.topi.nn.norm import softmax
from compiler.topi.nn.pad import pad
from compiler.topi.rearrange import flip, layout_transform, repeat, squeeze, stack, tile
from compiler.topi.reduction import all, any, argmax, argmin, max, min, prod, sum
from compiler.topi.sampling import multinomial_from_uniform
from compiler.topi.scan import cumprod, cumsum
from compiler.topi.scatter import index_put, scatter_elements, scatter_nd, sparse_to_dense, take_backward
from compiler.topi.schedules import arm_cpu, cuda, generic, x86
from compiler.topi.signal import dft, stft
from compiler.topi.slicing import dynamic_strided_slice, slice_scatter, split, strided_set, strided_slice
from compiler.topi.sort import argsort, bucketize, median, searchsorted, sort, topk
from compiler.topi.statistics import logsumexp, mean, std, variance
from compiler.topi.transform import concatenate, expand_dims, reshape, transpose
from compiler.topi.unique import argwhere, nonzero, unique

__all__ = [
    "abs", "acos", "acosh", "add", "adv_index", "all", "any", "arange", "arange_extent", "argmax", "argmin", "argsort",
    "argwhere", "arm_cpu", "asin", "asinh", "atan", "atan2", "atanh", "batch_matmul", "bitwise_and", "bitwise_not",
    "bitwise_or", "bitwise_xor", "blackman_window", "broadcast_to", "bucketize", "cast", "ceil", "clip", "concatenate",
    "conv2d_nchw", "cos", "cosh", "cuda", "cumprod", "cumsum", "dense", "dft", "divide", "dynamic_strided_slice",
    "einsum", "elemwise_sum", "equal", "erf", "exp", "exp2", "exp10", "expand_dims", "eye", "fast_erf", "fast_exp",
    "fast_tanh", "flip", "floor", "floor_divide", "floor_mod", "fmod", "full", "full_like", "gather", "gather_nd",
    "generic", "greater", "greater_equal", "hamming_window", "hann_window", "identity", "image", "index_put",
    "index_tensor", "isfinite", "isinf", "isnan", "layout_transform", "ldexp", "left_shift", "less", "less_equal",
    "linspace", "log", "log1p", "log2", "log10", "log_add_exp", "logical_and", "logical_not", "logical_or",
    "logical_xor", "logsumexp", "matmul", "matrix_set_diag", "max", "maximum", "mean", "median", "meshgrid", "min",
    "minimum", "mod", "multinomial_from_uniform", "multiply", "ndarray_size", "nearbyint", "negative", "nn", "nonzero",
    "not_equal", "one_hot", "ones", "pad", "power", "prod", "reinterpret", "relu", "repeat", "reshape",
    "reverse_sequence", "right_shift", "roll", "round", "rsqrt", "scatter_elements", "scatter_nd", "searchsorted",
    "sequence_mask", "shape", "sigmoid", "sign", "sin", "sinh", "slice_scatter", "sliding_window", "softmax", "sort",
    "sparse_to_dense", "split", "sqrt", "square", "squeeze", "stack", "std", "stft", "strided_set", "strided_slice",
    "subtract", "sum", "take", "take_backward", "tan", "tanh", "tensordot", "tile", "topk", "transpose", "tril",
    "trilu", "triu", "trunc", "trunc_divide", "trunc_mod", "unique", "unravel_index", "variance", "vision", "where",
    "x86", "zeros",
]  # fmt: skip
