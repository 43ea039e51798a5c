"""Convolutions of 8-bit integers read images with channels last, where the target multiplies groups of neighbours."""

from __future__ import annotations

from typing import Any

from compiler.ir.base import Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes import Call, Constant, Function, TensorStructInfo, info_of
from compiler.relax.op.nn.shape import pad
from compiler.relax.transform.layout.convert_layout import Desired, convert_layout
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.target.target import Target
from compiler.tir import ops

_CONV = "relax.nn.conv2d"
_BYTES = ("int8", "uint8")
_FEATURES = ("avx512vnni", "avxvnni")
"""One of them has an instruction for groups of bytes along the channels."""
_GROUP = 4
_LAYOUTS: Desired = {_CONV: ["NHWC", "HWIO"]}


@relax_pass("ChannelsLastIntegers")
def channels_last_integers(mod: IRModule, context: PassContext) -> IRModule:
    """Have convolutions of 8-bit integers, and what stands between them, work on channels last.

    lv = R.nn.conv2d(x, w, out_dtype="int32")    →    lv = R.permute_dims(x, [0, 2, 3, 1])
                                                      lv1 = R.nn.conv2d(lv, w1, data_layout="NHWC", …)
                                                      lv2 = R.permute_dims(lv1, [0, 3, 1, 2])

    It changes nothing for targets without an instruction that adds up the products of four neighbouring bytes. Images
    of so few channels that they fill no group get zeros beside them, as the first ones of a network do.
    """
    target = Target.current(allow_none=True)
    features = () if target is None or not target.is_cpu else target.features
    if not any(feature in features for feature in _FEATURES) or not _has_integers(mod):
        return mod
    filled = rewritten(mod, _Fill)
    return convert_layout(filled, context, desired_layouts={}, layout_cb=_wanted)


def _has_integers(mod: IRModule) -> bool:
    functions = [func for func in mod.values() if isinstance(func, Function) and func.body is not None]
    return any(isinstance(node, Call) and _wanted(node) for func in functions for node in walk(func.body))


def _wanted(call: Call) -> Desired | None:
    """The layouts for a convolution of 8-bit images with 8-bit filters that are known, in the usual layouts."""
    if not isinstance(call.op, Op) or call.op.name != _CONV:
        return None
    image, filters = info_of(call.args[0]), info_of(call.args[1])
    plain = (call.attrs["data_layout"], call.attrs["kernel_layout"]) == ("NCHW", "OIHW")
    bytes_ = all(isinstance(info, TensorStructInfo) and info.dtype in _BYTES for info in (image, filters))
    return _LAYOUTS if plain and bytes_ and call.attrs["out_dtype"] == "int32" else None


class _Fill(PyExprMutator):
    """Gives images channels that make whole groups; their filters have zeros there."""

    def visit_call_(self, op: Call) -> Any:
        made: Any = super().visit_call_(op)
        if not isinstance(made, Call) or _wanted(made) is None or int(made.attrs["groups"]) != 1:
            return made
        missing = -_channels(made.args[0]) % _GROUP
        if not missing or not isinstance(made.args[1], Constant):
            return made
        around = [0, 0, 0, missing, 0, 0, 0, 0]
        image, filters = (self.builder_.emit(pad(arg, around)) for arg in made.args[:2])
        return Call(made.op, (image, filters), made.attrs, made.sinfo_args, made.span)


def _channels(image: RelaxExpr) -> int:
    """The number of channels; 0 where it is not known."""
    info = info_of(image)
    assert isinstance(info, TensorStructInfo)
    return 0 if info.dims is None else ops.as_int(info.dims[1]) or 0
