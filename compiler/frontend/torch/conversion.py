"""The input of a converter: the node, and the known facts of its arguments and its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch

from compiler.frontend.torch.dimensions import Dimensions
from compiler.frontend.torch.dtypes import dtype_name, promoted
from compiler.frontend.torch.errors import RefusedNode
from compiler.ir.base import RelaxExpr
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import TensorStructInfo, Tuple, TupleGetItem, const, info_of
from compiler.relax.nodes.dims import dim, simplified
from compiler.te.operation import compute
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

Scalar = bool | int | float | PrimExpr


class Conversion:
    """One node that is converted."""

    def __init__(self, builder: BlockBuilder, dimensions: Dimensions, node: Any) -> None:
        self.builder = builder
        self.dimensions = dimensions
        self.node = node

    def refuse(self, why: str) -> NoReturn:
        """Say that this node cannot be converted."""
        raise RefusedNode(why)

    # -------------------------------------------------------------------------------- results

    def _fake(self, index: int | None) -> Any:
        value = self.node.meta.get("val")
        return value if index is None or value is None else value[index]

    def out_shape(self, index: int | None = None) -> tuple[PrimExpr, ...]:
        """The shape of the result, or of its part `index`."""
        return self.dimensions.dims(self._fake(index).shape)

    def out_dtype(self, index: int | None = None) -> str:
        """The element type of the result, or of its part `index`."""
        return dtype_name(self._fake(index).dtype)

    def emit(self, expr: Any) -> Any:
        """Bind a value, so that its shape can be asked for."""
        return self.builder.emit(expr, self.node.name)

    # ------------------------------------------------------------------------------ arguments

    def info(self, value: Any) -> TensorStructInfo:
        """Return what is known of a tensor. Refuses other values."""
        found = info_of(value) if isinstance(value, RelaxExpr) else None
        if not isinstance(found, TensorStructInfo):
            self.refuse(f"an argument is no tensor: {value!r}")
        return found

    def known(self, value: Any) -> Any:
        """`value`, bound to a name if nothing is known of it yet."""
        return self.emit(value) if isinstance(value, RelaxExpr) and info_of(value) is None else value

    def dtype(self, value: Any) -> str:
        return self.info(value).dtype

    def ndim(self, value: Any) -> int:
        return self.info(value).ndim

    def shape(self, value: Any) -> tuple[PrimExpr, ...]:
        """The shape of a tensor. Refuses one of unknown shape."""
        found = self.info(value).dims
        if found is None:
            self.refuse("the shape of an argument is not known")
        return found

    def axis(self, axis: Any, ndim: int) -> int:
        """An axis, counted from the front."""
        return int(axis) % ndim if ndim else 0

    def static(self, value: Any, what: str) -> int:
        """An integer that must be known. Refuses a symbolic one."""
        found = ops.as_int(value) if isinstance(value, PrimExpr) else value
        if not isinstance(found, int):
            self.refuse(f"{what} is {value!r}, which is not known when the model is imported")
        return found

    # ------------------------------------------------------------------------------- tensors

    def cast(self, value: Any, dtype: str) -> Any:
        """A tensor with elements of `dtype`."""
        value = self.known(value)
        return value if self.dtype(value) == dtype else self.emit(op.astype(value, dtype))

    def tensor(self, value: Any, dtype: str) -> Any:
        """A tensor or a scalar as a tensor of `dtype`."""
        if isinstance(value, RelaxExpr):
            return self.cast(value, dtype)
        if isinstance(value, PrimExpr):
            known = ops.as_int(value)
            if known is None:
                made = self.builder.call_te(
                    lambda size: compute((), lambda: size.astype(dtype), name="size"), value, primfunc_name_hint="size"
                )
                return self.emit(made)
            value = known
        if dtype == "bool":
            value = bool(value)
        elif isinstance(value, float) and "float" not in dtype:
            value = int(value)
        return const(value, dtype)

    def common_dtype(self, *values: Any) -> str:
        """The element type that torch computes with, given tensors and scalars."""
        tensors, scalars = [], []
        for value in values:
            if isinstance(value, RelaxExpr):
                info = self.info(self.known(value))
                tensors.append((info.dtype, info.ndim))
            else:
                scalars.append(int if isinstance(value, PrimExpr) else type(value))
        return promoted(tensors, scalars)

    def alike(self, *values: Any) -> list[Any]:
        """Tensors and scalars as tensors of the type that torch computes with."""
        dtype = self.common_dtype(*values)
        return [self.tensor(value, dtype) for value in values]

    def floating(self, value: Any) -> Any:
        """A tensor with floating point elements: integers become torch's default type."""
        return value if "float" in self.dtype(value) else self.cast(value, dtype_name(torch.get_default_dtype()))

    def reshaped(self, value: Any, shape: Sequence[Any]) -> Any:
        """A tensor laid out as `shape`; itself when it is."""
        value = self.known(value)
        wanted = [dim(size) for size in shape]
        have = self.info(value).dims
        if have is not None and len(have) == len(wanted) and all(map(self.same, have, wanted)):
            return value
        return self.emit(op.reshape(value, wanted))

    def same(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether two sizes are proven equal."""
        return a is b or ops.as_int(simplified(ops.sub(a, b))) == 0

    def broadcast(self, value: Any, shape: Sequence[PrimExpr]) -> Any:
        """A tensor repeated to `shape`; itself when it has it."""
        have = self.shape(value)
        if len(have) == len(shape) and all(map(self.same, have, shape)):
            return value
        return self.emit(op.broadcast_to(value, list(shape)))

    def items(self, value: Any, count: int) -> tuple[Any, ...]:
        """The fields of a tuple-valued expression."""
        held = self.emit(value)
        return tuple([TupleGetItem(held, index) for index in range(count)])

    def tuple_of(self, values: Sequence[Any]) -> Tuple:
        return Tuple(tuple(values))
