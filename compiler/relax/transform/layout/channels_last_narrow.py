"""Put the channels of byte and bfloat16 convolutions last, where products of groups are fast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.ir.base import Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes import Call, Constant, Function, TensorStructInfo, Var, info_of
from compiler.relax.op.nn.shape import pad
from compiler.relax.transform.layout.convert_layout import Desired, convert_layout
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.target.cpu_features import multiplies_pairs_fast
from compiler.target.target import Target
from compiler.tir import ops
from compiler.tir.intrin.amx import ROW_STEPS, TILE, TILE_GROUPS, TILE_ROWS

_CONV = "relax.nn.conv2d"
_LAYOUTS: Desired = {_CONV: ["NHWC", "HWIO"]}
_ROWS: Desired = {_CONV: ["NCHW", "HWIO", "NHWC"]}  # groups lie along rows of the image
_BYTES = ("int8", "uint8")


@dataclass(frozen=True)
class _Kind:
    """The convolutions for which there is an instruction.
    It has the dtypes of operands and sums, the group, the targets, and the feature with which it multiplies tiles."""

    operands: tuple[str, ...]
    sums: str
    group: int
    used_by: Callable[[Target], bool]
    tiles: str | None = None

    def whole_row(self, call: Call, target: Target) -> int:
        """The numbers that a filter's row is made a multiple of: a group, or a row of a tile.
        A tile is as fast with zeros in it: a row of bytes has too many to pay."""
        if self.tiles not in target.features or not _in_tiles(call):
            return self.group
        return TILE_GROUPS * self.group


def _takes_pairs(target: Target) -> bool:
    """Whether convolutions of bfloat16 are left as they are: see `WidenProducts`."""
    return multiplies_pairs_fast(target.mcpu, target.features) or "amx-bf16" in target.features


_PAIRS = _Kind(("bfloat16",), "float32", 2, _takes_pairs, "amx-bf16")
_KINDS = (_Kind(_BYTES, "int32", 4, lambda target: not target.features.isdisjoint(("avx512vnni", "avxvnni"))), _PAIRS)


@relax_pass("ChannelsLastNarrow")
def channels_last_narrow(mod: IRModule, context: PassContext) -> IRModule:
    """Make convolutions of bytes and bfloat16, and the operators between them, work on channels last.

    lv = R.nn.conv2d(x, w, out_dtype="int32")    →    lv = R.permute_dims(x, [0, 2, 3, 1])
                                                      lv1 = R.nn.conv2d(lv, w1, data_layout="NHWC", …)
                                                      lv2 = R.permute_dims(lv1, [0, 3, 1, 2])

    It changes nothing for targets without a fast instruction that adds up products of neighbours. Images of so few
    channels that they fill no group are read as they lie. Groups are then neighbours in a row, and rows of filters get
    zeros at their ends, on matrix units as many as fill a tile's row. If that makes more groups than zeros for the
    missing channels would, images get zeros instead.
    """
    target = Target.current(allow_none=True)
    if target is None or not target.is_cpu:
        return mod
    cpu = target
    kinds = [kind for kind in _KINDS if kind.used_by(cpu)]

    def asked(call: Call) -> Desired | None:
        kind = _kind(call, kinds)
        if kind is None:
            return None
        return _ROWS if _by_rows(call, kind) and _filter_width(call) % kind.group == 0 else _LAYOUTS

    functions = [func for func in mod.values() if isinstance(func, Function) and func.body is not None]
    if not kinds or not any(isinstance(node, Call) and asked(node) for func in functions for node in walk(func.body)):
        return mod
    filled = rewritten(mod, lambda own: _Fill(own, kinds, cpu))
    return convert_layout(filled, context, desired_layouts={}, layout_cb=asked)


def _kind(call: Call, kinds: Sequence[_Kind]) -> _Kind | None:
    """The entry of `kinds` for a convolution in the usual layouts."""
    if not isinstance(call.op, Op) or call.op.name != _CONV:
        return None
    if (call.attrs["data_layout"], call.attrs["kernel_layout"]) != ("NCHW", "OIHW"):
        return None
    held = [info.dtype if isinstance(info := info_of(arg), TensorStructInfo) else None for arg in call.args]
    for kind in kinds:
        if all(dtype in kind.operands for dtype in held) and call.attrs["out_dtype"] == kind.sums:
            return kind
    return None


def _by_rows(call: Call, kind: _Kind) -> bool:
    """Whether groups along rows of filters are no more than groups along channels, which do not fill them."""
    channels, width = _channels(call.args[0]), _filter_width(call)
    if int(call.attrs["groups"]) != 1 or int(call.attrs["dilation"][1]) != 1 or not channels % kind.group or not width:
        return False
    return channels * -(-width // kind.group) <= width * -(-channels // kind.group)


def takes_rows_as_tiles(call: Call) -> bool:
    """Whether a convolution of an image of few channels can be one of whole tiles of a matrix unit.
    The windows along a row of the image are a tile's rows."""
    usual = (call.attrs.get("data_layout"), call.attrs.get("kernel_layout")) == ("NCHW", "OIHW")
    return usual and _by_rows(call, _PAIRS) and _in_tiles(call)


def _in_tiles(call: Call) -> bool:
    """Whether results have whole tiles of pixels and filters, and windows steps that tiles may have."""
    result = info_of(call)
    assert isinstance(result, TensorStructInfo)
    filters, width = (0, 0) if result.dims is None else (ops.as_int(result.dims[d]) or 0 for d in (1, 3))
    steps = int(call.attrs["strides"][1]) in ROW_STEPS["along"]
    return steps and bool(filters) and not filters % TILE and any(width and not width % rows for rows in TILE_ROWS)


def _filter_width(call: Call) -> int:
    """The number of columns of a filter; 0 where it is not known."""
    info = info_of(call.args[1])
    assert isinstance(info, TensorStructInfo)
    return 0 if info.dims is None else ops.as_int(info.dims[3]) or 0


class _Fill(PyExprMutator):
    """Give filters rows, or images channels, that make whole groups. Filters have zeros there."""

    def __init__(self, mod: IRModule, kinds: Sequence[_Kind], cpu: Target) -> None:
        super().__init__(mod)
        self._kinds = kinds
        self._cpu = cpu

    def visit_call_(self, op: Call) -> Any:
        made: Any = super().visit_call_(op)
        kind = _kind(made, self._kinds) if isinstance(made, Call) else None
        if kind is None or int(made.attrs["groups"]) != 1:
            return made
        missing = -_channels(made.args[0]) % kind.group
        if not missing or not is_constant(self, made.args[1]):
            return made
        if _by_rows(made, kind):
            columns = -_filter_width(made) % kind.whole_row(made, self._cpu)
            return self._longer_rows(made, columns) if columns else made
        around = [0, 0, 0, missing, 0, 0, 0, 0]
        image, filters = (self.builder_.emit(pad(arg, around)) for arg in made.args)
        return Call(made.op, (image, filters), made.attrs, made.sinfo_args, made.span)

    def _longer_rows(self, call: Call, missing: int) -> Call:
        """Add columns of zeros to filters, and columns of anything to images.
        Padded images get some more."""
        image, filters = call.args
        longer = self.builder_.emit(pad(filters, [0] * 7 + [missing]))
        found = self.lookup_binding(image) if isinstance(image, Var) else image
        if isinstance(found, Call) and isinstance(found.op, Op) and found.op.name == "relax.nn.pad":
            *others, after = found.attrs["pad_width"]
            if found.attrs["pad_mode"] == "constant":
                wide = pad(found.args[0], [*others, after + missing], "constant", found.attrs["pad_value"])
                return Call(call.op, (self.builder_.emit(wide), longer), call.attrs, call.sinfo_args, call.span)
        *others, after = call.attrs["padding"]
        attrs = {**call.attrs, "padding": (*others, after + missing)}
        return Call(call.op, (image, longer), attrs, call.sinfo_args, call.span)


def is_constant(around: PyExprMutator, filters: RelaxExpr) -> bool:
    """Whether filters are constants, or those in another type."""
    return isinstance(before_cast(around, filters), Constant)


def before_cast(around: PyExprMutator, value: RelaxExpr) -> RelaxExpr:
    """The value that was cast to another type; without a cast, that of a variable."""
    bound = around.lookup_binding(value) if isinstance(value, Var) else None
    found = value if bound is None else bound
    if isinstance(found, Call) and isinstance(found.op, Op) and found.op.name == "relax.astype":
        return found.args[0]
    return found


def _channels(image: RelaxExpr) -> int:
    """The number of channels; 0 where it is not known."""
    info = info_of(image)
    assert isinstance(info, TensorStructInfo)
    return 0 if info.dims is None else ops.as_int(info.dims[1]) or 0
