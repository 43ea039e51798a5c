"""Tensor expressions: computations described a tensor at a time, and their schedules."""

from compiler.faces.hybrid.script import HybridOp
from compiler.faces.te_schedule import verify_compute
from compiler.faces.tir_ops import (
    abs,
    all,
    any,
    ceil,
    ceildiv,
    const,
    div,
    floor,
    floordiv,
    floormod,
    if_then_else,
    indexdiv,
    indexmod,
    isfinite,
    isinf,
    isnan,
    likely,
    max_value,
    min_value,
    nearbyint,
    power,
    round,
    trunc,
    truncdiv,
    truncmod,
)
from compiler.te.extern import ExternOp, extern
from compiler.te.gradient import gradient
from compiler.te.operation import compute, size_var, thread_axis, var
from compiler.te.reduction import comm_reducer, max, min, prod, reduce_axis, sum
from compiler.te.scan import ScanOp, scan
from compiler.te.schedule.schedule import Schedule, create_schedule
from compiler.te.schedule.stage import Stage
from compiler.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, TensorSlice, placeholder
from compiler.te.tensor_intrin import TensorIntrin, decl_tensor_intrin
from compiler.tir.composed import acosh, asinh, atanh, logaddexp
from compiler.tir.intrin.intrin import (
    acos,
    asin,
    atan,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    exp10,
    fma,
    fmod,
    log,
    log1p,
    log2,
    log10,
    popcount,
    rsqrt,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
)
from compiler.tir.nodes import CommReducer, Reduce
from compiler.tir.ops import add
from compiler.tir.ops import mul as multiply
from compiler.tir.ops import sub as subtract
from tunefarm.compatibility import refuse_other_names
from tunefarm.te import hybrid, operation, schedule, tag, tensor, tensor_intrin
from tunefarm.te.prim_func import create_prim_func
from tunefarm.te.tag import tag_scope

__all__ = [
    "CommReducer", "ComputeOp", "ExternOp", "HybridOp", "Operation", "PlaceholderOp", "Reduce", "ScanOp", "Schedule",
    "Stage", "Tensor", "TensorIntrin", "TensorSlice", "abs", "acos", "acosh", "add", "all", "any", "asin", "asinh",
    "atan", "atanh", "ceil", "ceildiv", "comm_reducer", "compute", "const", "cos", "cosh", "create_prim_func",
    "create_schedule", "decl_tensor_intrin", "div", "erf", "exp", "exp2", "exp10", "extern", "floor", "floordiv",
    "floormod", "fma", "fmod", "gradient", "hybrid", "if_then_else", "indexdiv", "indexmod", "isfinite", "isinf",
    "isnan", "likely", "log", "log1p", "log2", "log10", "logaddexp", "max", "max_value", "min", "min_value", "multiply",
    "nearbyint", "operation", "placeholder", "popcount", "power", "prod", "reduce_axis", "round", "rsqrt", "scan",
    "schedule", "sigmoid", "sin", "sinh", "size_var", "sqrt", "subtract", "sum", "tag", "tag_scope", "tan", "tanh",
    "tensor", "tensor_intrin", "thread_axis", "trunc", "truncdiv", "truncmod", "var", "verify_compute",
]  # fmt: skip

refuse_other_names(__name__)
