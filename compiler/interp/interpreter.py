"""Running a function at any stage of lowering on numpy arrays.

The oracle for schedules, passes and codegen.

The function is turned into Python source once and executed. Every access is checked against its buffer's
shape and every block's iteration against its domain. Temporaries start out as NaN (or an odd pattern); floats are
rounded in their own type, integers wrap. Loops run one iteration after another, whatever their kind.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from compiler.dtype import element_of, parse_dtype
from compiler.errors import ArgumentError, LoweringError
from compiler.interp import math_functions as interp_math
from compiler.interp.extern import c_address, c_call
from compiler.interp.memory import allocate, reinterpreted, storage
from compiler.interp.stmt import StmtWriter
from compiler.ir.visit import walk
from compiler.lower.gpu.thread_axes import is_bound
from compiler.lower.loops.bf16_compute_legalize import bf16_compute_legalize
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

Array = np.ndarray[Any, Any]


class OutOfBounds(LoweringError, kind="out_of_bounds"):
    """An access outside its buffer, or a block run outside its domain."""


class AssertionFailed(LoweringError, kind="assertion_failed"):
    """An assertion of the function that did not hold."""


def run(func: n.PrimFunc, *args: Any) -> None:
    """Execute `func` on numpy arrays (for buffers) and numbers (for scalars), in the order of its params.

    Arrays are written in place. A bfloat16 buffer takes its bits (uint16), ml_dtypes' bfloat16, or a float32
    array of values. Raises ArgumentError for arguments that don't fit, OutOfBounds, AssertionFailed, and
    LoweringError for what has no meaning here.
    """
    compile_func(func)(*args)


@lru_cache(maxsize=64)
def compile_func(func: n.PrimFunc) -> Callable[..., None]:
    """`func` as a Python function over the same arguments as `run`."""
    func = func if is_bound(func) else bf16_compute_legalize(func)  # as machine code does
    return compile_with(func, StmtWriter(func.body), {})


def compile_with(func: n.PrimFunc, writer: StmtWriter, names: Mapping[str, Any]) -> Callable[..., None]:
    """Compile the source that `writer` writes for a function.
    It may use `names` besides the interpreter's own."""
    source, labels = _source(func, writer)
    scope = {**_SCOPE, **names}
    exec(compile(source, "<interpreted function>", "exec"), scope)  # source is our own output
    body = scope["body"]

    def call(*args: Any) -> None:
        values, finish = _bind(func, args)
        try:
            body(*values)
        except (LoweringError, IndexError, ZeroDivisionError) as error:
            raise _placed(error, labels) from None
        for step in finish:
            step()

    return call


def _source(func: n.PrimFunc, w: StmtWriter) -> tuple[str, dict[str, str]]:
    params: list[str] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            params.append(w.define(param, 0 if isinstance(param, n.SizeVar) else None, None))
        else:
            name = w.fresh("m")
            params.append(name)
            w.data(buffer.data, name, storage(buffer.dtype))
    params.extend(w.define(var, 0, None) for var in _shape_vars(func))
    w.stmt(func.body)
    w.line("return")
    params.append("CELL=CELL")  # a local name is found faster
    return "\n".join([f"def body({', '.join(params)}):", *w.lines]), w.labels


def _shape_vars(func: n.PrimFunc) -> list[n.Var]:
    """Variables of the parameters' layouts that are no parameters themselves."""
    found: dict[n.Var, None] = {}
    for buffer in func.buffer_map.values():
        offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
        for expr in (*buffer.shape, *buffer.strides, *offset):
            found.update(dict.fromkeys(v for v in walk(expr) if isinstance(v, n.Var)))
    return [var for var in found if var not in func.params]


# ----------------------------------------------------------------------------------- arguments


def _bind(func: n.PrimFunc, args: tuple[Any, ...]) -> tuple[list[Any], list[Callable[[], None]]]:
    """Return the values of the Python function's parameters, and what to do after it ran."""
    if len(args) != len(func.params):
        raise ArgumentError(f"the function takes {len(func.params)} arguments, got {len(args)}")
    known: dict[n.Var, int] = {}
    values: list[Any] = []
    finish: list[Callable[[], None]] = []
    for param, arg in zip(func.params, args):
        if param not in func.buffer_map:
            known[param] = _scalar(param, arg)
    for param, arg in zip(func.params, args):
        if param in func.buffer_map:
            _learn_extents(func.buffer_map[param], arg, known)
    for position, (param, arg) in enumerate(zip(func.params, args)):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            values.append(known[param])
            continue
        label = f"argument {position} ({buffer.name})"
        array = _checked(label, buffer, arg)
        _match_shape(label, buffer, array, known)
        values.append(_flat(array, buffer, known, finish))
    values.extend(known[var] for var in _shape_vars(func))
    return values, finish


def _scalar(param: n.Var, value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim:
        raise ArgumentError(f"{param.name} is a scalar, got an array of shape {value.shape}")
    parsed = parse_dtype(param.dtype)
    if parsed.is_float:
        return interp_math.ROUND[param.dtype](float(value))
    return bool(value) if parsed.code == "bool" else ops.wrap_int(int(value), param.dtype)


def _checked(label: str, buffer: n.Buffer, arg: Any) -> Array:
    element = element_of(buffer.dtype)
    allowed = ("uint16", "bfloat16", "float32") if element == "bfloat16" else (element,)
    if not isinstance(arg, np.ndarray):
        raise ArgumentError(f"{label} must be a numpy array, got {type(arg).__name__}")
    if arg.dtype.name not in allowed:
        raise ArgumentError(f"{label} is {arg.dtype.name}, wanted {' or '.join(allowed)}")
    return arg


def _learn_extents(buffer: n.Buffer, array: Any, known: dict[n.Var, int]) -> None:
    """A variable that stands as a whole extent has that dimension's size."""
    for dim, size in zip(buffer.shape, np.shape(array)):
        if isinstance(dim, n.Var):
            known.setdefault(dim, size)


def _match_shape(label: str, buffer: n.Buffer, array: Array, known: dict[n.Var, int]) -> None:
    """Check the shape, and take the values of symbolic strides from it."""
    if array.ndim != len(buffer.shape):
        raise ArgumentError(f"{label} has {array.ndim} dimensions, wanted {len(buffer.shape)}")
    for axis, (dim, size) in enumerate(zip(buffer.shape, array.shape)):
        wanted = _known_value(dim, known)
        if wanted != size:
            raise ArgumentError(f"{label} has size {size} in dimension {axis}, wanted {wanted}")
    compact = np.cumprod([1, *array.shape[:0:-1]])[::-1]
    for stride, step in zip(buffer.strides, compact):
        if isinstance(stride, n.Var):
            known.setdefault(stride, int(step))
    if isinstance(buffer.elem_offset, n.Var):
        known.setdefault(buffer.elem_offset, 0)


def _known_value(expr: PrimExpr, known: dict[n.Var, int]) -> int:
    w = StmtWriter(n.Evaluate(expr))
    names = [w.define(var, None, None) for var in known]
    code = w.index(expr).code
    scope = {**_SCOPE, **dict(zip(names, known.values()))}
    if w.lines:  # a maximum and the like name their operands first; lines are indented as in a function
        exec("\n".join(["if True:", *w.lines]), scope)  # source is our own output
    return int(eval(code, scope))


def _flat(array: Array, buffer: n.Buffer, known: dict[n.Var, int], finish: list[Callable[[], None]]) -> memoryview:
    """The memory of an argument.
    An array that is laid out otherwise than the buffer is copied in, and back after the run."""
    code = storage(buffer.dtype)
    if element_of(buffer.dtype) == "bfloat16" and array.dtype == np.float32:
        bits = np.array([interp_math.bfloat16_bits(x) for x in array.ravel().tolist()], np.uint16)
        finish.append(lambda: np.copyto(array, _bfloat16_values(bits).reshape(array.shape)))
        return bits.data
    strides = [_known_value(s, known) for s in buffer.strides]
    offset = 0 if buffer.elem_offset is None else _known_value(buffer.elem_offset, known)
    compact = not strides or strides == [s // array.itemsize for s in array.strides]
    if compact and not offset and array.flags.c_contiguous:
        return array.reshape(-1).view(np.dtype(code)).data
    if not strides:
        strides = [int(s) for s in np.cumprod([1, *array.shape[:0:-1]])[::-1]]
    span = offset + 1 + sum((d - 1) * s for d, s in zip(array.shape, strides))
    flat = np.zeros(max(span, 0), np.dtype(code))
    steps = tuple(s * flat.itemsize for s in strides)
    window = np.lib.stride_tricks.as_strided(flat[offset:], array.shape, steps)
    window[...] = array.view(np.dtype(code))
    if array.flags.writeable:
        finish.append(lambda: np.copyto(array.view(np.dtype(code)), window))
    return flat.data


def _bfloat16_values(bits: Array) -> Array:
    return (bits.astype(np.uint32) << 16).view(np.float32)


# ------------------------------------------------------------------------------------ failures


def _outside(name: str, index: tuple[int, ...], shape: tuple[int, ...]) -> None:
    raise OutOfBounds(f"{name}[{', '.join(map(str, index))}] is outside its shape {shape}")


def _outside_domain(block: str, name: str, value: int, start: int, end: int) -> None:
    raise OutOfBounds(f"block {block}: {name} = {value} is outside its domain [{start}, {end})")


def _failed(message: str) -> None:
    raise AssertionFailed(message)


def _placed(error: Exception, labels: dict[str, str]) -> LoweringError:
    """The error, with the values of the loop variables where it happened."""
    values: dict[str, int] = {}
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == "<interpreted function>":
            values.update({labels[k]: v for k, v in frame.f_locals.items() if k in labels})
    where = ", ".join(f"{name}={value}" for name, value in values.items()) or "no loop"
    match error:
        case LoweringError():
            return type(error)(f"{error.message} (at {where})", hint=error.hint, detail=values)
        case ZeroDivisionError():
            return LoweringError(f"integer division by zero (at {where})", detail=values)
    return OutOfBounds(f"an access outside the memory of its buffer (at {where})", detail=values)


_SCOPE: dict[str, Any] = {
    "CELL": np.zeros(1, np.float32).data,
    "NAN": float("nan"),
    "INF": float("inf"),
    "allocate": allocate,
    "reinterpreted": reinterpreted,
    "outside": _outside,
    "outside_domain": _outside_domain,
    "failed": _failed,
    "c_address": c_address,
    "c_call": c_call,
    "float16_values": interp_math.FLOAT16_VALUES,
    "bfloat16_values": interp_math.BFLOAT16_VALUES,
    **{f"round_{dtype}": f for dtype, f in interp_math.ROUND.items()},
    **{f"intrinsic_{name}": f for name, f in interp_math.FLOAT_INTRINSICS.items()},
    **{
        name: getattr(interp_math, name)
        for name in (
            "bfloat16_bits", "clz", "float16_bits", "float_div", "float_floor", "float_floormod", "float_mod",
            "float_to_int", "floor_div", "floor_mod", "fma", "int_to_float", "nextafter", "popcount", "reinterpret",
            "shift_left", "shift_right", "tile_product", "trunc_div", "trunc_mod",
        )
    },
}  # fmt: skip
