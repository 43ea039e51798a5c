"""Memory: operators for allocations and their ends, which passes make explicit."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.errors import ArgumentError
from compiler.ir.base import RelaxExpr
from compiler.relax import nodes as r
from compiler.relax.nodes.dims import int64
from compiler.relax.op.core.backward import Backward, Gradients
from compiler.relax.op.core.layout import follows_first
from compiler.relax.op.core.params import Dtype, DtypeArg, ExprArg, ScalarArg, ShapeArg, TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator, refused
from compiler.relax.op.core.rules import tensor, with_dtype
from compiler.relax.op.core.use import Use
from compiler.relax.op.core.work import nothing
from compiler.relax.op.gradients import elementwise as slopes
from compiler.relax.op.movement.manipulate import astype
from compiler.runtime.core.dtypes import storage_dtype
from compiler.runtime.vm.data_builtins import view_of
from compiler.tir import ops

Array = npt.NDArray[Any]
_ON_HOST = refused("the machine does it, not a kernel")
_NOT_THERE = refused("layouts are chosen before memory is")
_NO_GRADIENT = refused("gradients are made before memory is")
_MEMORY: dict[str, Any] = {
    "te": _ON_HOST, "pattern": OpPatternKind.OPAQUE, "flops": nothing, "bytes": nothing, "layout": _NOT_THERE,
    "gradient": _NO_GRADIENT, "pure": False,
}  # fmt: skip
"""The parts that all operators of memory share."""


def _tensor_info(use: Use) -> r.StructInfo:
    shape, dtype = use.shape("shape"), use.arg("dtype")
    if not isinstance(dtype, r.DataTypeImm):
        use.fail("dtype must be the name of an element type")
    if shape.values is None:
        return r.TensorStructInfo(use.arg("shape"), dtype.value)  # type: ignore[arg-type]
    return tensor(shape.values, dtype.value)


def _object(use: Use) -> r.StructInfo:
    return r.ObjectStructInfo()


def _nothing(use: Use) -> r.StructInfo:
    return r.TupleStructInfo(())


def _new(shape: tuple[int, ...], dtype: str, device: int, scope: str) -> Array:
    return np.zeros(shape, storage_dtype(dtype))


def _storage(size: tuple[int, ...], device: int, scope: str, dtype: str) -> Array:
    return np.zeros(int(np.prod(size, dtype=np.int64)) * storage_dtype(dtype).itemsize, "uint8")


def _part(storage: Array, offset: int, shape: tuple[int, ...], dtype: str) -> Array:
    count = int(np.prod(shape, dtype=np.int64)) * storage_dtype(dtype).itemsize
    if offset < 0 or offset + count > storage.size:
        raise ArgumentError(f"{dtype}{list(shape)} from byte {offset} on leaves a storage of {storage.size} bytes")
    return storage[offset : offset + count].view(storage_dtype(dtype)).reshape(shape)


@operator("relax.builtin.alloc_tensor", infer=_tensor_info, host=_new, **_MEMORY)
def builtin_alloc_tensor(
    shape: ShapeArg,
    dtype: DtypeArg,
    runtime_device_index: ScalarArg,
    storage_scope: ExprArg = "global",  # type: ignore[assignment]
) -> r.Expr:
    """Make an array whose memory is planned later."""


@operator("relax.memory.alloc_storage", infer=_object, host=_storage, **_MEMORY)
def memory_alloc_storage(
    size: ShapeArg, virtual_device_index: ScalarArg, storage_scope: ExprArg, dtype: DtypeArg
) -> r.Expr:
    """Make memory for `size` elements of `dtype`, in which arrays are laid."""


@operator("relax.memory.alloc_tensor", infer=_tensor_info, host=_part, **_MEMORY)
def memory_alloc_tensor(storage: ExprArg, offset: ScalarArg, shape: ShapeArg, dtype: DtypeArg) -> r.Expr:
    """Lay an array into memory, from byte `offset` on."""


@operator("relax.memory.kill_storage", infer=_nothing, host=lambda storage: (), **_MEMORY)
def memory_kill_storage(storage: ExprArg) -> r.Expr:
    """Say that memory is used no more."""


@operator("relax.memory.kill_tensor", infer=_nothing, host=lambda tensor: (), **_MEMORY)
def memory_kill_tensor(tensor: ExprArg) -> r.Expr:
    """Say that an array is used no more."""


@operator("relax.vm.kill_object", infer=_nothing, host=lambda obj: (), **_MEMORY)
def vm_kill_object(obj: ExprArg) -> r.Expr:
    """Have the machine forget a value."""


# --------------------------------------------------------------------------------------- views

def _pass_on(use: Backward) -> Gradients:
    return (use.grad,)


def _view_info(use: Use) -> r.StructInfo:
    data, shape, dtype = use.tensor("data"), use.arg("shape"), use.arg("dtype")
    kept_shape, kept_dtype = isinstance(shape, r.Tuple), isinstance(dtype, r.Tuple)
    element = data.dtype if kept_dtype else dtype.value if isinstance(dtype, r.DataTypeImm) else ""
    if kept_shape:
        made = r.TensorStructInfo(data.shape, element, data.vdevice) if data.shape is not None else tensor(
            None, element, data.ndim, data.vdevice
        )  # fmt: skip
    else:
        wanted = use.shape("shape")
        made = r.TensorStructInfo(shape, element, data.vdevice) if wanted.values is None else tensor(  # type: ignore[arg-type]
            wanted.values, element, vdevice=data.vdevice
        )  # fmt: skip
    _check_reach(use, data, made)
    return made


def _check_reach(use: Use, data: r.TensorStructInfo, made: r.TensorStructInfo) -> None:
    """Fail where a view is known to reach beyond the data."""
    offset = use.arg("relative_byte_offset")
    start = 0 if isinstance(offset, r.Tuple) else ops.as_int(offset.value) if isinstance(offset, r.PrimValue) else None
    sizes = []
    for info in (data, made):
        known = None if info.dims is None or not info.dtype else [ops.as_int(size) for size in info.dims]
        if known is None or None in known:
            return
        sizes.append(prod(s for s in known if s is not None) * storage_dtype(info.dtype).itemsize)
    if start is not None and (start < 0 or start + sizes[1] > sizes[0]):
        use.fail(f"the view of {sizes[1]} bytes from byte {start} on leaves the {sizes[0]} bytes of data")


def _viewed(data: Array, shape: Any, dtype: Any, relative_byte_offset: Any) -> Array:
    wanted = data.shape if shape == () and data.ndim else shape
    element = str(data.dtype) if isinstance(dtype, tuple) else dtype
    return view_of(data, wanted, element, 0 if isinstance(relative_byte_offset, tuple) else relative_byte_offset)


@operator(
    "relax.memory.view", infer=_view_info, te=_ON_HOST, host=_viewed, pattern=OpPatternKind.OPAQUE, flops=nothing,
    bytes=nothing, layout=refused("it reads memory as it lies"), gradient=refused("it reads memory, not numbers"),
)  # fmt: skip
def _view_call(data: TensorArg, shape: ExprArg, dtype: ExprArg, relative_byte_offset: ExprArg) -> r.Expr:
    """Read the memory of a tensor in another shape and element type, from a byte on."""


def view(data: Any, shape: Any = None, dtype: Any = None, relative_byte_offset: Any = None) -> r.Call:
    """Read the memory of a tensor in another shape and element type, from a byte on.
    None keeps the present one."""
    none = r.Tuple(())
    if not isinstance(shape, RelaxExpr):
        shape = none if shape is None else r.ShapeExpr(shape if isinstance(shape, tuple | list) else (shape,))  # type: ignore[arg-type]
    element = none if dtype is None else r.DataTypeImm(dtype) if isinstance(dtype, str) else dtype
    start: Any = none if relative_byte_offset is None else relative_byte_offset
    return _view_call(data, shape, element, start if isinstance(start, RelaxExpr) else r.PrimValue(int64(start)))


@operator(
    "relax.memory.ensure_zero_offset", infer=lambda use: use.tensor("data"), te=_ON_HOST, host=lambda data: data,
    pattern=OpPatternKind.OPAQUE, flops=nothing, bytes=nothing, layout=follows_first, gradient=_pass_on,
)  # fmt: skip
def ensure_zero_offset(data: TensorArg) -> r.Expr:
    """Give a tensor that begins where its memory begins. Arrays of the machine always do."""


@operator(
    "relax.builtin.stop_lift_params", infer=lambda use: use.tensor("x"),
    te=refused("it is a mark, which nothing is left of"), legalize=lambda builder, call: call.args[0],
    pattern=OpPatternKind.ELEMWISE, flops=nothing, bytes=nothing, layout=follows_first, gradient=_pass_on,
)  # fmt: skip
def stop_lift_params(x: TensorArg) -> r.Expr:
    """Mark a value that is not to be computed ahead of time, when parameters are prepared."""


@operator(
    "relax.null_value", infer=_object, te=_ON_HOST, host=lambda: None, pattern=OpPatternKind.OPAQUE, flops=nothing,
    bytes=nothing, layout=_NOT_THERE, gradient=refused("it has no value"),
)  # fmt: skip
def null_value() -> r.Expr:
    """Give the value that stands for none."""


def _wrapped_info(use: Use) -> r.StructInfo:
    data = use.tensor("data")
    return data if data.dtype == use.call.attrs["dtype"] else with_dtype(data, use.call.attrs["dtype"])


def _wrapped(builder: Any, call: r.Call) -> RelaxExpr:
    (data,) = call.args
    return data if data.struct_info.dtype == call.attrs["dtype"] else astype(data, call.attrs["dtype"])  # type: ignore[attr-defined]


@operator(
    "relax.wrap_param", infer=_wrapped_info, te=refused("it is a conversion, or nothing"), legalize=_wrapped,
    pattern=OpPatternKind.ELEMWISE, flops=nothing, layout=follows_first, gradient=slopes.astype,
)  # fmt: skip
def wrap_param(data: TensorArg, dtype: Dtype = "float32") -> r.Expr:
    """Give a parameter of a model as elements of `dtype`."""
