"""Where values live: on which device, and which of several workers has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.errors import IRError
from compiler.ir.base import RelaxExpr
from compiler.ir.vdevice import VDevice, as_vdevice
from compiler.relax.nodes import Call, Expr, ExternFunc, PrimValue, ShapeExpr, StructInfo, TensorStructInfo, Tuple
from compiler.relax.nodes.dims import int64
from compiler.relax.op.core.backward import Backward, Gradients
from compiler.relax.op.core.layout import follows, follows_first
from compiler.relax.op.core.params import TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator, refused
from compiler.relax.op.core.rules import tensor
from compiler.relax.op.core.use import Use, shown
from compiler.relax.op.core.work import nothing
from compiler.relax.op.execution.calls import call_dps_packed
from compiler.relax.op.movement.manipulate import permute_dims, reshape
from compiler.runtime.core.device import Device
from compiler.target.options import kind_for
from compiler.tir import ops
from compiler.tir.nodes import IntImm

_MACHINE = refused("the machine does it, not a kernel")


# ------------------------------------------------------------------------------------- devices


def _vdevice(op: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def complete(attrs: dict[str, Any]) -> dict[str, Any]:
        given = attrs["dst_vdevice"]
        if isinstance(given, Device):
            given = f"{kind_for(given.device_type)}:{given.device_id}"
        found = as_vdevice(given)
        if found is None:
            raise IRError(f"{op}: dst_vdevice must be a device")
        scope = attrs.get("memory_scope", found.memory_scope)
        return attrs | {"dst_vdevice": VDevice(found.target, found.vdevice_id, scope)}

    return complete


def _moved_info(use: Use) -> StructInfo:
    data = use.tensor("data")
    device = use.call.attrs["dst_vdevice"]
    if data.shape is None:
        return TensorStructInfo(None, data.dtype, device, data.ndim)
    return TensorStructInfo(data.shape, data.dtype, device)


def _back(use: Backward) -> Gradients:
    """The gradient goes back to where the data was, if that is said."""
    device = use.info(use.arg(0)).vdevice
    return (use.grad if device is None else use.to_vdevice(use.grad, device),)


@operator(
    "relax.to_vdevice", infer=_moved_info, te=_MACHINE, host=lambda data, dst_vdevice: data,
    pattern=OpPatternKind.OPAQUE, flops=nothing, layout=follows_first, gradient=_back,
    canonical=_vdevice("relax.to_vdevice"),
)  # fmt: skip
def to_vdevice(data: TensorArg, dst_vdevice: Any) -> Expr:
    """Copy a tensor to another device."""


@operator(
    "relax.hint_on_device", infer=lambda use: use.tensor("data"),
    te=refused("a hint that no pass took up says nothing"), legalize=lambda builder, call: call.args[0],
    pattern=OpPatternKind.OPAQUE, flops=nothing, bytes=nothing, layout=follows_first, gradient=lambda use: (use.grad,),
    canonical=_vdevice("relax.hint_on_device"),
)  # fmt: skip
def hint_on_device(data: TensorArg, dst_vdevice: Any, memory_scope: str = "global") -> Expr:
    """Say on which device the users of this tensor should run. A pass may copy it there."""


# ------------------------------------------------------------------------------------- workers

_REDUCTIONS = ("sum", "prod", "min", "max", "avg")
_WORKERS: dict[str, Any] = {
    "te": refused("the library that connects workers does it, not a kernel"),
    "pattern": OpPatternKind.OPAQUE,
    "flops": nothing,
    "gradient": refused("gradients are taken before a graph is shared among workers"),
}


def _same_info(use: Use) -> StructInfo:
    return use.tensor("x")


def _reduce_info(use: Use) -> StructInfo:
    if use.call.attrs["op_type"] not in _REDUCTIONS:
        use.fail(f"op_type is {use.call.attrs['op_type']!r}, it must be one of {', '.join(_REDUCTIONS)}")
    return use.tensor("x")


def _workers(use: Use) -> int:
    count: int = use.call.attrs["num_workers"]
    if count < 1:
        use.fail(f"num_workers is {count}, it must be positive")
    return count


def _library(name: str, call: Call, *more: RelaxExpr, data: RelaxExpr | None = None) -> RelaxExpr:
    """Call a function that a library will register, with a new array for its result."""
    info = call.struct_info
    args = Tuple((call.args[0] if data is None else data, *more))
    return call_dps_packed(ExternFunc(f"runtime.disco.{name}"), args, info)


def _flag(value: bool) -> PrimValue:
    return PrimValue(IntImm("bool", int(value)))


def _reduce(builder: Any, call: Call) -> RelaxExpr:
    code = ShapeExpr((int64(_REDUCTIONS.index(call.attrs["op_type"])),))
    return _library("allreduce", call, code, _flag(call.attrs["in_group"]))


@operator("relax.ccl.allreduce", infer=_reduce_info, legalize=_reduce, layout=follows, **_WORKERS)
def allreduce(x: TensorArg, op_type: str = "sum", in_group: bool = True) -> Expr:
    """Combine the tensors of all workers (of a group); each gets the result.

    `op_type` is "sum", "prod", "min", "max" or "avg".
    """


def _gather_info(use: Use) -> StructInfo:
    data, count = use.tensor("x"), _workers(use)
    if data.ndim == 0:
        use.fail("x must have dimensions")
    if data.dims is None:
        return tensor(None, data.dtype, data.ndim, data.vdevice)
    return tensor([use.simplify(data.dims[0] * count), *data.dims[1:]], data.dtype, vdevice=data.vdevice)


def _gather(builder: Any, call: Call) -> RelaxExpr:
    return _library("allgather", call, _flag(call.attrs["in_group"]))


@operator("relax.ccl.allgather", infer=_gather_info, legalize=_gather,
          layout=refused("workers' parts lie one after another along the first dimension"), **_WORKERS)  # fmt: skip
def allgather(x: TensorArg, num_workers: int, in_group: bool = True) -> Expr:
    """Join the tensors of all workers (of a group) along the first dimension; each gets the result."""


def _broadcast(builder: Any, call: Call) -> RelaxExpr:
    return _library("broadcast_from_worker0", call, _flag(False))


@operator("relax.ccl.broadcast_from_worker0", infer=_same_info, legalize=_broadcast, layout=follows, **_WORKERS)
def broadcast_from_worker0(x: TensorArg) -> Expr:
    """Give every worker the tensor of the first."""


def _scatter_info(use: Use) -> StructInfo:
    data, count = use.tensor("x"), _workers(use)
    if data.ndim == -1:
        return data
    axis = use.axis(use.call.attrs["axis"], data.ndim)
    if data.dims is None:
        return tensor(None, data.dtype, data.ndim, data.vdevice)
    size = data.dims[axis]
    if use.differ(use.simplify(size % count), int64(0)):
        use.fail(f"num_workers is {count}, which does not divide dimension {axis} of x: {shown(data)}")
    parts = [use.simplify(size // count) if d == axis else s for d, s in enumerate(data.dims)]
    return tensor(parts, data.dtype, vdevice=data.vdevice)


def _scatter(builder: Any, call: Call) -> RelaxExpr:
    """Parts are laid one after another before the library hands them out."""
    (data,) = call.args
    info, axis, count = data.struct_info, call.attrs["axis"], call.attrs["num_workers"]  # type: ignore[attr-defined]
    if info.dims is None:
        raise IRError("relax.ccl.scatter_from_worker0: the shape of x must be known")
    axis %= info.ndim
    parts = [*info.dims[:axis], int64(count), ops.floordiv(info.dims[axis], count), *info.dims[axis + 1 :]]
    order = [axis, *(d for d in range(info.ndim + 1) if d != axis)]
    return _library("scatter_from_worker0", call, _flag(False), data=permute_dims(reshape(data, parts), order))


@operator("relax.ccl.scatter_from_worker0", infer=_scatter_info, legalize=_scatter,
          layout=refused("parts are cut along a dimension as it was written"), **_WORKERS)  # fmt: skip
def scatter_from_worker0(x: TensorArg, num_workers: int, axis: int = 0) -> Expr:
    """Give each worker its part, along `axis`, of the tensor of the first."""
