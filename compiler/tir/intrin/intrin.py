"""Intrinsics: the operators that `Call` nodes name, and the functions that build such calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler.dtype import parse_dtype, with_lanes
from compiler.errors import IRError
from compiler.ir.base import Op, Span
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr
from compiler.tir.nodes.operators import operator


def call(name: str, dtype: str, *args: Any) -> n.Call:
    """A call of the registered operator `name`."""
    return n.Call(dtype, Op.get(name), tuple(ops.as_expr(a) for a in args))


def call_intrin(dtype: str, func_name: str | Op, *args: Any, span: Span | None = None) -> n.Call:
    """A call of the operator `func_name`, such as "tir.exp".
    Raises IRError when there is none of that name."""
    dtype = result_dtype(dtype)
    name = func_name.name if isinstance(func_name, Op) else func_name
    if name not in Op.names(""):
        raise IRError(f"call_intrin: there is no operator {name!r}", hint="functions of C: tir.call_extern")
    return n.Call(dtype, Op.get(name), tuple(map(_argument, args)), span)


def result_dtype(dtype: str) -> str:
    """The dtype of a call's result: "handle" where it is "void". Raises IRError for an unknown one."""
    return "handle" if dtype == "void" else str(parse_dtype(dtype))


def call_extern(dtype: str, func_name: str, *args: Any, span: Span | None = None) -> n.Call:
    """Call a C function.
    Kernels are linked with libc and libm only; a module that needs another function is refused when it is loaded.
    Memory is passed as `Buffer.access_ptr(...)`; a `dtype` of "handle" or "void" stands for no result."""
    dtype = result_dtype(dtype)
    if not isinstance(func_name, str) or not func_name.isidentifier():
        raise IRError(f"call_extern: {func_name!r} is no name of a C function")
    return n.Call(dtype, Op.get("tir.call_extern"), (n.StringImm(func_name), *map(_argument, args)), span)


def call_packed(name: str, *args: Any, span: Span | None = None) -> n.Call:
    """Call the registered function `name` from machine code, with numbers, texts, and buffers as arrays.

    Its result is an int32, or 0 where it returns nothing. It runs in processes with Python only, which must have
    registered the function themselves.
    """
    if not isinstance(name, str) or not name:
        raise IRError(f"call_packed: the name of a registered function is a string, not {name!r}")
    given = tuple(stack_array(arg) if isinstance(arg, n.Buffer) else ops.as_expr(arg) for arg in args)
    return n.Call("int32", Op.get("tir.tvm_call_packed"), (n.StringImm(name), *given), span)


def stack_array(buffer: n.Buffer) -> n.Call:
    """A buffer as an array that a registered function is passed."""
    shape = n.Call("handle", Op.get("tir.tvm_stack_make_shape"), buffer.shape)
    steps = n.Call("handle", Op.get("tir.tvm_stack_make_shape"), buffer.strides) if buffer.strides else ops.const(0)
    element = n.Cast(buffer.dtype, ops.const(0)) if buffer.dtype == "bool" else ops.const(0, buffer.dtype)
    args = (buffer.access_ptr("rw"), shape, steps, ops.const(len(buffer.shape)), element, ops.const(0))
    return n.Call("handle", Op.get("tir.tvm_stack_make_array"), args)


def _argument(value: Any) -> PrimExpr:
    if isinstance(value, n.Buffer):
        raise IRError(
            f"buffer {value.name!r} is given as an argument of a call", hint=f'pass {value.name}.access_ptr("r")'
        )
    return ops.as_expr(value)


FLOAT_UNARY = [
    "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "tanh", "sigmoid", "erf",
    "sin", "cos", "tan", "sinh", "cosh", "asin", "acos", "atan",
    "floor", "ceil", "round", "trunc", "nearbyint",
]  # fmt: skip
for _name in [
    *FLOAT_UNARY, "fabs", "pow", "fma", "fmod", "atan2", "hypot", "copysign", "popcount", "clz", "isnan",
    "isinf", "isfinite", "ldexp", "nextafter",
    "if_then_else", "likely", "shift_left", "shift_right", "bitwise_and", "bitwise_or", "bitwise_xor",
    "bitwise_not", "reinterpret", "vectorlow", "prefetch", "tvm_access_ptr", "tvm_tuple", "type_annotation",
]:  # fmt: skip
    Op.register(f"tir.{_name}", pure=_name != "prefetch")
# Products of groups of lanes, summed: see `codegen.dot_products` and `codegen.amx`.
for _name in ["dpbusd", "dpbf16ps", "pmaddwd", "dpwssd"]:
    Op.register(f"tir.x86_{_name}", pure=True)
for _name in ["dpbf16ps", "dpbssd", "dpbsud", "dpbusd", "dpbuud", "rows", "zero", "kept", "turned"]:
    Op.register(f"tir.x86_amx_{_name}", pure=True)
for _name in ["call_extern", "tvm_storage_sync", "tvm_call_packed", "tvm_stack_make_array", "tvm_stack_make_shape"]:
    Op.register(f"tir.{_name}", pure=False)

# Calls whose dtype does not follow from their arguments, so that text says it.
TYPED_CALLS = frozenset({
    "tir.reinterpret", "tir.call_extern", "tir.call_llvm_intrin", "tir.call_llvm_pure_intrin", "tir.vectorlow",
    "tir.type_annotation", "tir.ptx_mma", "tir.ptx_ldmatrix", "tir.ptx_cp_async", "tir.graph_constant",
    "tir.graph_value", "tir.graph_copy", "tir.graph_check", "tir.ptx_cp_async_bulk", "tir.ptx_mma_sp", "tir.tvm_mfma",
    "tir.tvm_mfma_store", "tir.tvm_rdna_wmma", "tir.tvm_rdna_wmma_store", "tir.vectorcombine", "tir.vectorhigh",
})  # fmt: skip
TEXT_CALLS = frozenset({
    "tvm_call_packed", "tvm_call_cpacked", "tvm_call_packed_lowered", "tvm_call_cpacked_lowered",
})  # fmt: skip
"""Operators whose names in texts have no "tvm_" before them."""
_BOOL_CALLS = frozenset({"tir.isnan", "tir.isinf", "tir.isfinite"})
_TRUTH_CALLS = frozenset({"tir.assume", "tir.isnullptr"})
_INT_CALLS = frozenset({
    "tir.prefetch", "tir.tvm_storage_sync", "tir.tvm_tuple", "tir.tvm_call_packed", "tir.tvm_load_matrix_sync",
    "tir.tvm_mma_sync", "tir.tvm_bmma_sync", "tir.tvm_fill_fragment", "tir.tvm_store_matrix_sync",
    "tir.tvm_thread_allreduce", "tir.mma_fill", "tir.mma_store", "tir.tvm_call_cpacked", "tir.tvm_call_cpacked_lowered",
    "tir.tvm_call_packed_lowered", "tir.anylist_resetitem", "tir.anylist_setitem_call_cpacked",
    "tir.anylist_setitem_call_packed", "tir.tvm_check_return", "tir.tvm_struct_set", "tir.tvm_thread_invariant",
    "tir.TVMBackendFreeWorkspace", "tir.create_barriers", "tir.ptx_arrive_barrier", "tir.ptx_arrive_barrier_expect_tx",
    "tir.ptx_cp_async_barrier", "tir.ptx_init_barrier_thread_count", "tir.ptx_wait_barrier", "tir.q_multiply_shift",
    "tir.q_multiply_shift_per_axis",
})  # fmt: skip
_HANDLE_CALLS = frozenset({
    "tir.tvm_access_ptr", "tir.tvm_stack_make_array", "tir.tvm_stack_make_shape", "tir.lookup_param",
    "tir.tvm_stack_alloca", "tir.tvm_throw_last_error", "tir.TVMBackendAllocWorkspace", "tir.anylist_getitem",
    "tir.start_profile_intrinsic", "tir.end_profile_intrinsic",
})  # fmt: skip


def usual_dtype(name: str, args: Sequence[PrimExpr]) -> str:
    """The dtype that a call of operator `name` has when nothing else is said."""
    if name in _HANDLE_CALLS:
        return "handle"
    if name in _TRUTH_CALLS:
        return "bool"
    if name == "tir.tvm_warp_activemask":
        return "uint32"
    if name in _INT_CALLS or not args:
        return "int32"
    if name.startswith("tir.tvm_warp_shuffle"):  # its first argument says which threads take part
        return args[1].dtype
    if name == "tir.if_then_else" and len(args) > 1:
        return args[1].dtype
    if name in _BOOL_CALLS:
        return with_lanes("bool", parse_dtype(args[0].dtype).lanes)
    return args[0].dtype


def _float_unary(name: str) -> Callable[[Any], PrimExpr]:
    def build(x: Any) -> PrimExpr:
        expr = ops.as_expr(x)
        if not parse_dtype(expr.dtype).is_float:
            expr = ops.cast(with_lanes("float32", parse_dtype(expr.dtype).lanes), expr)
        return call(f"tir.{name}", expr.dtype, expr)

    build.__name__ = name
    build.__doc__ = f"Elementwise {name}; an integer argument is converted to float32 first."
    return build


exp, exp2, exp10, log, log2, log10, log1p = map(_float_unary, FLOAT_UNARY[:7])
sqrt, rsqrt, tanh, sigmoid, erf = map(_float_unary, FLOAT_UNARY[7:12])
sin, cos, tan, sinh, cosh, asin, acos, atan = map(_float_unary, FLOAT_UNARY[12:20])


def _rounding(name: str) -> Callable[[Any], PrimExpr]:
    of_float = _float_unary(name)

    def build(x: Any) -> PrimExpr:
        expr = ops.as_expr(x)
        return of_float(expr) if parse_dtype(expr.dtype).is_float else expr

    build.__name__ = name
    build.__doc__ = f"Elementwise {name}; an integer is what it is."
    return build


floor, ceil, round, trunc, nearbyint = map(_rounding, FLOAT_UNARY[20:25])


def abs(x: Any) -> PrimExpr:
    """Absolute value."""
    expr = ops.as_expr(x)
    parsed = parse_dtype(expr.dtype)
    if parsed.is_float:
        return call("tir.fabs", expr.dtype, expr)
    return expr if not parsed.is_signed else n.Select(expr >= 0, expr, ops.neg(expr))


def power(x: Any, y: Any) -> PrimExpr:
    """x to the power y, of floats."""
    a, b = ops.match_types(x, y)
    if not parse_dtype(a.dtype).is_float:
        raise IRError(f"power needs floats, got {a!r} of {a.dtype}", hint='convert it: .astype("float32")')
    return call("tir.pow", a.dtype, a, b)


def fma(a: Any, b: Any, c: Any) -> PrimExpr:
    """a * b + c rounded once."""
    x, y = ops.match_types(a, b)
    return call("tir.fma", x.dtype, x, y, ops.cast(x.dtype, c))


def _float_binary(name: str, doc: str) -> Callable[[Any, Any], PrimExpr]:
    def build(x1: Any, x2: Any) -> PrimExpr:
        a, b = ops.match_types(x1, x2)
        if not parse_dtype(a.dtype).is_float:
            single = with_lanes("float32", parse_dtype(a.dtype).lanes)
            a, b = ops.cast(single, a), ops.cast(single, b)
        return call(f"tir.{name}", a.dtype, a, b)

    build.__name__ = name
    build.__doc__ = doc
    return build


_fmod = _float_binary("fmod", "")
atan2 = _float_binary("atan2", "The angle of the point (y=x1, x=x2), -pi to pi.")
hypot = _float_binary("hypot", "sqrt(x1² + x2²) without overflow on the way.")
copysign = _float_binary("copysign", "The size of x1 with the sign of x2.")
nextafter = _float_binary("nextafter", "The value of the dtype that follows x1 in the direction of x2.")


def fmod(x: Any, y: Any) -> PrimExpr:
    """The remainder of x / y rounded towards zero; it has the sign of x."""
    return _fmod(x, y)


def ldexp(x1: Any, x2: Any) -> PrimExpr:
    """x1 * 2^x2; the exponent is an integer, taken as int32."""
    a, power = ops.as_expr(x1), ops.as_expr(x2)
    parsed = parse_dtype(a.dtype)
    if not parsed.is_float:
        a = ops.cast(with_lanes("float32", parsed.lanes), a)
    if not parse_dtype(power.dtype).is_int:
        raise IRError(f"ldexp needs an integer exponent, got {power.dtype}")
    return call("tir.ldexp", a.dtype, a, ops.cast(with_lanes("int32", parsed.lanes), power))


def _classify(name: str, doc: str) -> Callable[[Any], PrimExpr]:
    def build(x: Any) -> PrimExpr:
        expr = ops.as_expr(x)
        parsed = parse_dtype(expr.dtype)
        if not parsed.is_float:
            return ops.const(name == "isfinite", with_lanes("bool", parsed.lanes))
        return call(f"tir.{name}", with_lanes("bool", parsed.lanes), expr)

    build.__name__ = name
    build.__doc__ = doc
    return build


isnan = _classify("isnan", "Whether x is not a number.")
isinf = _classify("isinf", "Whether x is infinite, of either sign.")
isfinite = _classify("isfinite", "Whether x is neither infinite nor NaN.")


def _count(name: str, doc: str) -> Callable[[Any], PrimExpr]:
    def build(x: Any) -> PrimExpr:
        expr = ops.as_expr(x)
        if not parse_dtype(expr.dtype).is_int:
            raise IRError(f"{name} needs an integer, got {expr.dtype}")
        return call(f"tir.{name}", expr.dtype, expr)

    build.__name__ = name
    build.__doc__ = doc
    return build


popcount = _count("popcount", "The number of bits that are 1, in the dtype of x.")
clz = _count("clz", "The number of zero bits before the first 1, in the dtype of x; all its bits for 0.")


def reinterpret(dtype: str, value: Any) -> PrimExpr:
    """The bits of a value as a value of `dtype`, which is as wide."""
    expr = ops.as_expr(value)
    source, target = parse_dtype(expr.dtype), parse_dtype(dtype)
    if source.bits * source.lanes != target.bits * target.lanes or "bool" in (source.code, target.code):
        raise IRError(f"cannot reinterpret {expr.dtype} as {dtype}", hint="both must have as many bits; no bool")
    return expr if expr.dtype == dtype else call("tir.reinterpret", dtype, expr)


def if_then_else(cond: Any, t: Any, f: Any) -> PrimExpr:
    """`t` where `cond`, else `f`; only the taken side is evaluated."""
    t, f = ops.match_types(t, f)
    condition = ops.as_condition(cond, "if_then_else")
    if isinstance(condition, n.IntImm):
        chosen: PrimExpr = t if condition.value else f
        return chosen
    return call("tir.if_then_else", t.dtype, condition, t, f)


def select(condition: Any, true_value: Any, false_value: Any) -> PrimExpr:
    """`true_value` where `condition`, else `false_value`; both sides may be evaluated."""
    t, f = ops.match_types(true_value, false_value)
    cond = ops.as_expr(condition)
    if isinstance(cond, n.IntImm):
        return t if cond.value else f
    return n.Select(cond, t, f)


def likely(cond: Any) -> PrimExpr:
    """A hint that `cond` is nearly always true."""
    condition = ops.as_expr(cond)
    return condition if isinstance(condition, n.IntImm) else call("tir.likely", condition.dtype, condition)


def _bitwise(name: str) -> Callable[[Any, Any], PrimExpr]:
    def build(x: Any, y: Any) -> PrimExpr:
        x, y = ops.match_types(x, y)
        parsed = parse_dtype(x.dtype)
        if parsed.is_float or parsed.code == "handle":
            raise IRError(f"{name} needs integers, got {x.dtype}")
        if name.startswith("shift") and isinstance(y, n.IntImm) and not 0 <= y.value < parsed.bits:
            raise IRError(f"{name} of {x!r} by {y.value} bits: {x.dtype} has {parsed.bits}")
        if parsed.code == "bool" and name in ("bitwise_and", "bitwise_or"):
            return ops.binary(n.And if name == "bitwise_and" else n.Or, x, y)
        return call(f"tir.{name}", x.dtype, x, y)

    return build


left_shift = operator(_bitwise("shift_left"), "left_shift")
right_shift = operator(_bitwise("shift_right"), "right_shift")
bitwise_and = operator(_bitwise("bitwise_and"), "bitwise_and")
bitwise_or = operator(_bitwise("bitwise_or"), "bitwise_or")
bitwise_xor = operator(_bitwise("bitwise_xor"), "bitwise_xor")


@operator
def bitwise_not(x: Any) -> PrimExpr:
    expr = ops.as_expr(x)
    if parse_dtype(expr.dtype).is_float:
        raise IRError(f"the operator ~ needs an integer, got {expr!r} of {expr.dtype}")
    return ops.logical_not(expr) if expr.dtype == "bool" else call("tir.bitwise_not", expr.dtype, expr)
