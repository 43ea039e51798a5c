"""Shapes and scalars: what is known of them, and the shape expression."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from compiler.arith.linear import same_expr
from compiler.dtype import parse_dtype
from compiler.errors import IRError
from compiler.ir.base import Node, Span
from compiler.ir.visit import map_value
from compiler.relax.nodes.base import BaseCheckResult, Expr, StructInfo
from compiler.relax.nodes.dims import dims, int64, proven_different, proven_equal, same_structure, shape_text, text
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr
from compiler.tir.nodes.base import set_fields

if TYPE_CHECKING:
    from compiler.arith.analyzer import Analyzer


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ObjectStructInfo(StructInfo):
    """A value of which nothing is known."""

    span: Span | None = None

    def __eq__(self, other: object) -> bool:
        return type(other) is ObjectStructInfo

    def __hash__(self) -> int:
        return hash(ObjectStructInfo)

    def check(self, derived: StructInfo, analyzer: Analyzer | None = None) -> BaseCheckResult:
        return BaseCheckResult.PASS

    def __repr__(self) -> str:
        return "R.Object"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrimStructInfo(StructInfo):
    """A scalar of type `dtype`, and its value where that is known."""

    CHILDREN = ("value",)

    dtype: str = None  # type: ignore[assignment]
    value: PrimExpr | None = None
    span: Span | None = None

    def __post_init__(self) -> None:
        given = self.value
        if given is None:
            if self.dtype is None:
                raise IRError("PrimStructInfo needs a dtype or a value")
            parse_dtype(self.dtype)
            return
        value = prim(given)
        if isinstance(value, n.IntImm | n.FloatImm) and self.dtype is not None and not isinstance(given, PrimExpr):
            value = ops.const(value.value, self.dtype)
        if self.dtype is not None and value.dtype != self.dtype:
            raise IRError(f"PrimStructInfo of {self.dtype} with a value of {value.dtype}: {value!r}")
        set_fields(self, dtype=value.dtype, value=value)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not PrimStructInfo or self.dtype != other.dtype:
            return False
        if self.value is None or other.value is None:
            return self.value is other.value
        return same_expr(self.value, other.value)

    def __hash__(self) -> int:
        return hash(("prim", self.dtype, self.value is None))

    def check(self, derived: StructInfo, analyzer: Analyzer | None = None) -> BaseCheckResult:
        if not isinstance(derived, PrimStructInfo):
            return _unlike(derived)
        if self.dtype != derived.dtype:
            return BaseCheckResult.FAIL_L0
        if self.value is None:
            return BaseCheckResult.PASS
        if derived.value is None:
            return BaseCheckResult.FAIL_L1
        return _check_dim(self.value, derived.value, analyzer)

    def __repr__(self) -> str:
        return f'R.Prim("{self.dtype}")' if self.value is None else f"R.Prim(value={self.value!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShapeStructInfo(StructInfo):
    """A shape: its dimensions where known, else their number (`ndim`), -1 where that is unknown, too."""

    CHILDREN = ("values",)

    values: tuple[PrimExpr, ...] | None = None
    ndim: int = -1
    span: Span | None = None

    def __post_init__(self) -> None:
        if self.values is None:
            check_ndim(self.ndim, "ShapeStructInfo")
            return
        if self.ndim != -1:
            raise IRError(f"ShapeStructInfo is given both values and ndim={self.ndim}", hint="give values or ndim")
        values = dims(_sequence(self.values, "ShapeStructInfo"), "a value of ShapeStructInfo")
        set_fields(self, values=values, ndim=len(values))

    def child_list(self) -> list[Node]:
        return list(self.values or ())

    def map_children(self, f: Callable[[Node], Node]) -> ShapeStructInfo:
        values = map_value(self.values, f)
        return self if values is self.values else ShapeStructInfo(values, span=self.span)  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not ShapeStructInfo or self.ndim != other.ndim:
            return False
        if self.values is None or other.values is None:
            return self.values is other.values
        return same_structure(self.values, other.values)

    def __hash__(self) -> int:
        return hash(("shape", self.ndim, self.values is None))

    def check(self, derived: StructInfo, analyzer: Analyzer | None = None) -> BaseCheckResult:
        if not isinstance(derived, ShapeStructInfo):
            return _unlike(derived)
        if not self.is_unknown_ndim and self.ndim != derived.ndim:
            return BaseCheckResult.FAIL_L1 if derived.is_unknown_ndim else BaseCheckResult.FAIL_L0
        return check_dims(self.values, derived.values, analyzer)

    @property
    def is_unknown_ndim(self) -> bool:
        """Whether not even the number of dimensions is known."""
        return self.ndim == -1

    def __repr__(self) -> str:
        if self.values is not None:
            return f"R.Shape([{', '.join(map(text, self.values))}])"
        return "R.Shape()" if self.ndim == -1 else f"R.Shape(ndim={self.ndim})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShapeExpr(Expr):
    """A shape made of integer expressions."""

    CHILDREN = ("values",)

    values: tuple[PrimExpr, ...]
    span: Span | None = None
    struct_info_: StructInfo | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        values = dims(_sequence(self.values, "ShapeExpr"), "a value of ShapeExpr")
        set_fields(self, values=values, struct_info_=ShapeStructInfo(values))

    def __getitem__(self, index: int) -> PrimExpr:  # type: ignore[override]
        return self.values[index]

    def __iter__(self) -> Iterator[PrimExpr]:  # type: ignore[override]
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"R.shape([{', '.join(map(text, self.values))}])"


# --------------------------------------------------------------------------------------- helpers


def prim(value: object) -> PrimExpr:
    """A number or expression as a scalar: ints are int64, floats are float32."""
    if type(value) is int:
        return int64(value)
    return ops.as_expr(value)


def check_ndim(ndim: object, what: str) -> None:
    """Raise IRError unless `ndim` is a number of dimensions, or -1 for an unknown one."""
    if isinstance(ndim, bool) or not isinstance(ndim, int) or ndim < -1:
        raise IRError(f"{what}: ndim is {ndim!r}", hint="give the number of dimensions, or -1 where it is unknown")


def check_dims(
    base: Sequence[PrimExpr] | None, derived: Sequence[PrimExpr] | None, analyzer: Analyzer | None
) -> BaseCheckResult:
    """Return how far the shape `base` covers the shape `derived`.
    They have equally many dimensions, and None is an unknown one."""
    if base is None:
        return BaseCheckResult.PASS
    if derived is None:
        return BaseCheckResult.FAIL_L1
    found = BaseCheckResult.PASS
    for a, b in zip(base, derived):
        found = min(found, _check_dim(a, b, analyzer))
        if found is BaseCheckResult.FAIL_L0:
            break
    return found


def _check_dim(base: PrimExpr, derived: PrimExpr, analyzer: Analyzer | None) -> BaseCheckResult:
    if proven_equal(base, derived, analyzer):
        return BaseCheckResult.PASS
    return BaseCheckResult.FAIL_L0 if proven_different(base, derived, analyzer) else BaseCheckResult.FAIL_L2


def _unlike(derived: StructInfo) -> BaseCheckResult:
    """The check of a value of another kind: an object may be anything."""
    return BaseCheckResult.FAIL_L1 if isinstance(derived, ObjectStructInfo) else BaseCheckResult.FAIL_L0


unlike = _unlike


def _sequence(values: Any, what: str) -> Sequence[Any]:
    if isinstance(values, tuple | list):
        return values
    raise IRError(f"{what} takes a list of dimensions, got {values!r} ({type(values).__name__})")


__all__ = [
    "ObjectStructInfo", "PrimStructInfo", "ShapeExpr", "ShapeStructInfo", "check_dims", "check_ndim", "prim",
    "shape_text", "unlike",
]  # fmt: skip
