"""One use of an operator, as the rules for its StructInfo see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from compiler.arith.analyzer import Analyzer
from compiler.dtype import parse_dtype
from compiler.errors import IRError
from compiler.ir.base import RelaxExpr
from compiler.relax import nodes as r
from compiler.relax.nodes.dims import proven_different, proven_equal, shape_text, simplified, text
from compiler.relax.op.core.params import Param
from compiler.te.where import at
from compiler.tir.nodes import PrimExpr


class Use:
    """A call whose arguments' StructInfo is known.
    Its methods check what they return; errors name operator and argument."""

    def __init__(self, call: r.Call, name: str, params: Sequence[Param], analyzer: Analyzer, context: Any) -> None:
        """`context`: the `BlockBuilder` that asks, or None."""
        self.call = call
        self.name = name
        self.analyzer = analyzer
        self.context = context
        self._params = params

    def __getattr__(self, name: str) -> Any:
        """The attribute `name` of the call."""
        try:
            return self.call.attrs[name]
        except KeyError:
            raise AttributeError(f"{self.name} has no attribute {name!r}") from None

    # ---------------------------------------------------------------------------- arguments

    def has(self, name: str) -> bool:
        """Whether the call has the argument `name`, which may be left out."""
        return self._position(name) < len(self.call.args)

    def arg(self, name: str) -> RelaxExpr:
        """The argument `name`."""
        position = self._position(name)
        if position >= len(self.call.args):
            self.fail(f"the argument {name} is missing")
        return self.call.args[position]

    def _position(self, name: str) -> int:
        position = 0
        for param in self._params:
            if param.name == name:
                return position
            position += param.is_argument
        raise AssertionError(f"{self.name} declares no argument {name}")

    def rest(self, name: str) -> tuple[RelaxExpr, ...]:
        """The arguments from `name` on."""
        return self.call.args[self._position(name) :]

    def info(self, name: str) -> r.StructInfo:
        """Return what is known of the argument `name`."""
        found = r.info_of(self.arg(name))
        if found is None:
            self.fail(f"nothing is known of the argument {name}")
        return found

    def tensor(self, name: str, ndim: int | None = None) -> r.TensorStructInfo:
        """The argument `name`, which must be a tensor (of `ndim` dimensions, where they are known)."""
        found = self.info(name)
        if not isinstance(found, r.TensorStructInfo):
            self.fail(f"{name} must be a tensor, got {found}")
        if ndim is not None and found.ndim not in (-1, ndim):
            self.fail(f"{name} must have {ndim} dimensions, got {found.ndim}: {shown(found)}")
        return found

    def tensors(self, name: str) -> tuple[r.TensorStructInfo, ...]:
        """The argument `name`, which must be a tuple of tensors."""
        found = self.info(name)
        if not isinstance(found, r.TupleStructInfo):
            self.fail(f"{name} must be a tuple of tensors, got {found}")
        for index, item in enumerate(found.fields):
            if not isinstance(item, r.TensorStructInfo):
                self.fail(f"{name} must be a tuple of tensors, but number {index} is {item}")
        return found.fields  # type: ignore[return-value]

    def shape(self, name: str) -> r.ShapeStructInfo:
        """The argument `name`, which must be a shape."""
        found = self.info(name)
        if not isinstance(found, r.ShapeStructInfo):
            self.fail(f"{name} must be a shape, got {found}")
        return found

    def scalar(self, name: str) -> r.PrimStructInfo:
        """The argument `name`, which must be a scalar."""
        found = self.info(name)
        if not isinstance(found, r.PrimStructInfo):
            self.fail(f"{name} must be a scalar, got {found}")
        return found

    def scalars(self, name: str) -> tuple[PrimExpr, ...] | None:
        """The values of the argument `name`, which must be a tuple of scalars; None where they are not known."""
        found = self.info(name)
        if not isinstance(found, r.TupleStructInfo):
            self.fail(f"{name} must be a tuple of scalars, got {found}")
        values: list[PrimExpr] = []
        for index, item in enumerate(found.fields):
            if not isinstance(item, r.PrimStructInfo):
                self.fail(f"{name} must be a tuple of scalars, but number {index} is {item}")
            if item.value is None:
                return None
            values.append(item.value)
        return tuple(values)

    # ------------------------------------------------------------------------- dimensions

    def same(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether two dimensions are proven to be equal."""
        return proven_equal(a, b, self.analyzer)

    def differ(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether two dimensions are proven to differ."""
        return proven_different(a, b, self.analyzer)

    def simplify(self, value: PrimExpr) -> PrimExpr:
        """A dimension in normal form."""
        return simplified(value, self.analyzer)

    def axis(self, axis: int, ndim: int, name: str = "axis") -> int:
        """`axis` counted from the front. Fails where a tensor of `ndim` dimensions has no such one."""
        if not -ndim <= axis < ndim:
            self.fail(f"{name} is {axis}, but there are {ndim} dimensions")
        return axis % ndim

    def axes(self, axes: int | Sequence[int] | None, ndim: int, name: str = "axis") -> tuple[int, ...]:
        """`axes` counted from the front; all of them for None. Fails where one is given twice."""
        if axes is None:
            return tuple(range(ndim))
        found = [self.axis(axis, ndim, name) for axis in ((axes,) if isinstance(axes, int) else axes)]
        if len(set(found)) != len(found):
            self.fail(f"{name} is {axes}, which names a dimension twice")
        return tuple(found)

    def check_equal(self, what: str, a: PrimExpr, b: PrimExpr, *names: str) -> None:
        """Fail where two dimensions are proven to differ.
        `names` are the tensors whose shapes the error shows."""
        if self.differ(a, b):
            self.fail(f"{what} differ: {text(a)} and {text(b)}{self._shapes(names)}")

    def check_float(self, *names: str) -> None:
        """Fail unless the named tensors have floating point elements (or elements of unknown type)."""
        for name in names:
            dtype = self.tensor(name).dtype
            if dtype and not parse_dtype(dtype).is_float:
                self.fail(f"{name} must have floating point elements, got {dtype}")

    def dtype(self, *names: str) -> str:
        """The element type that the named tensors have in common; "" where one is unknown.
        Fails where two differ."""
        found = {name: self.tensor(name).dtype for name in names}
        known = {name: dtype for name, dtype in found.items() if dtype}
        if len(set(known.values())) > 1:
            listed = " and ".join(f"{name} {dtype}" for name, dtype in known.items())
            self.fail(
                f"the element types differ: {listed}{self._shapes(names)}", hint="convert one with relax.op.astype"
            )
        return next(iter(known.values())) if len(known) == len(found) else ""

    def sum_dtype(self, first: str, second: str, asked: str) -> str:
        """The element type of sums of products: `asked`, else what two tensors have in common.

        Integers of different types may be combined if a type is asked for, such as uint8 data and int8 weights.
        """
        found = [self.tensor(name).dtype for name in (first, second)]
        if asked and all(dtype and parse_dtype(dtype).is_int for dtype in found):
            return asked
        common = self.dtype(first, second)
        return asked or common

    def vdevice(self, *names: str) -> Any:
        """The device that the named tensors have in common; None without one. Fails where two differ."""
        known = {name: device for name in names if (device := self.tensor(name).vdevice) is not None}
        if len(set(known.values())) > 1:
            self.fail("the devices differ: " + " and ".join(f"{name} on {device}" for name, device in known.items()))
        return next(iter(known.values()), None)

    def _shapes(self, names: Sequence[str]) -> str:
        if not names:
            return ""
        return "; " + ", ".join(f"{name} is {shown(self.info(name))}" for name in names)

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        """Raise IRError for this call, with the user's line."""
        raise IRError(f"{self.name}: {message}{at(self.call.span)}", hint=hint)


def shown(info: r.StructInfo) -> str:
    """StructInfo in few words: "(n, 4) of float32"."""
    if not isinstance(info, r.TensorStructInfo):
        return "unknown" if isinstance(info, r.ObjectStructInfo) else repr(info)
    if info.dims is not None:
        shape = shape_text(info.dims)
    else:
        shape = "of unknown shape" if info.ndim == -1 else f"of {info.ndim} unknown dimensions"
    return f"{shape} of {info.dtype or 'unknown type'}"
