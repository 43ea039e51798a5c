"""Numbers that a program computes with: sizes, what follows from them, and assertions about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.frontend.torch.conversion import Conversion
from compiler.frontend.torch.converters.shape import field
from compiler.frontend.torch.table import TABLE, Converter, converts
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr


@converts("aten.sym_size.int")
def sym_size(c: Conversion, self: Any, dim: Any) -> Any:
    return c.shape(self)[c.axis(dim, c.ndim(self))]


@converts("aten.size.int")
def size(c: Conversion, self: Any, dim: Any) -> Any:
    return c.shape(self)[c.axis(dim, c.ndim(self))]


@converts("aten.sym_numel.default")
def sym_numel(c: Conversion) -> Any:
    return c.dimensions.dim(c.node.meta["val"])


def _folded(make: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """A converter of arithmetic: of known numbers in Python, of symbolic ones as an expression."""

    def converter(c: Conversion, *args: Any) -> Any:
        if any(isinstance(arg, PrimExpr) for arg in args):
            if any(isinstance(arg, float) for arg in args):
                c.refuse("arithmetic of a symbolic size with a fraction")
            return c.dimensions.dim(make(*map(c.dimensions.dim, args)))
        return plain(*args)

    return converter


def _true_divide(c: Conversion, a: Any, b: Any) -> Any:
    if isinstance(a, PrimExpr) or isinstance(b, PrimExpr):
        c.refuse("a symbolic size is divided to a fraction")
    return a / b


def _compare(c: Conversion, *args: Any) -> Any:
    """Return what torch assumed while it exported; the program's guards state it."""
    found = c.node.meta.get("val")
    return found if isinstance(found, bool) else None


_ARITHMETIC: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "_operator.add": (ops.add, lambda a, b: a + b),
    "_operator.sub": (ops.sub, lambda a, b: a - b),
    "_operator.mul": (ops.mul, lambda a, b: a * b),
    "_operator.floordiv": (ops.floordiv, lambda a, b: a // b),
    "_operator.mod": (ops.floormod, lambda a, b: a % b),
    "_operator.neg": (ops.neg, lambda a: -a),
    "torch.sym_max": (ops.maximum, max),
    "torch.sym_min": (ops.minimum, min),
}

for _name, (_make, _plain) in _ARITHMETIC.items():
    TABLE[_name] = Converter(_folded(_make, _plain), ())
TABLE["_operator.truediv"] = Converter(_true_divide, ())
for _name in ("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_"):
    TABLE[f"_operator.{_name}"] = Converter(_compare, ())
TABLE["torch.sym_not"] = Converter(_compare, ())
TABLE["torch.sym_int"] = Converter(lambda c, value: value, ())
TABLE["torch.sym_float"] = Converter(lambda c, value: value, ())
TABLE["_operator.getitem"] = Converter(lambda c, value, index: field(value, index), ())


def _nothing(c: Conversion) -> Any:
    return None


for _name in (
    "aten._assert_async.msg", "aten._assert_async.default", "aten._assert_scalar.default",
    "aten._assert_tensor_metadata.default", "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default", "torch._check", "torch._check_is_size",
    "aten._functional_assert_async.msg", "aten._functional_assert_scalar.default",
):  # fmt: skip
    converts(_name)(_nothing)
