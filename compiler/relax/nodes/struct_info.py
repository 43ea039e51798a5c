"""Facts of tensors, tuples and functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compiler.arith.linear import same_expr
from compiler.dtype import parse_dtype
from compiler.errors import IRError
from compiler.ir.base import Node, Span
from compiler.ir.vdevice import VDevice, as_vdevice
from compiler.ir.visit import map_value
from compiler.relax.nodes.base import BaseCheckResult, Expr, StructInfo, describe, info_of
from compiler.relax.nodes.dims import variables
from compiler.relax.nodes.shape import (
    ObjectStructInfo,
    ShapeExpr,
    ShapeStructInfo,
    check_dims,
    check_ndim,
    shape_text,
    unlike,
)
from compiler.runtime.core.registry import get_global_func
from compiler.tir.nodes import PrimExpr, Var
from compiler.tir.nodes.base import set_fields
from compiler.tir.visit import substitute

if TYPE_CHECKING:
    from compiler.arith.analyzer import Analyzer

DeriveFunc = Callable[[Any, Any], StructInfo]
"""What a call returns: `derive(call, builder)`."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TensorStructInfo(StructInfo):
    """A tensor: its shape (an expression) or number of dimensions, dtype ("" if unknown) and device."""

    CHILDREN = ("shape",)

    shape: Expr | None = None
    dtype: str = "float32"
    vdevice: VDevice | None = None
    ndim: int = -1
    span: Span | None = None

    def __post_init__(self) -> None:
        if self.dtype is None or self.dtype == "void":
            set_fields(self, dtype="")
        if self.dtype:
            parse_dtype(self.dtype)
        if self.vdevice is not None:
            set_fields(self, vdevice=as_vdevice(self.vdevice))
        if self.shape is None:
            check_ndim(self.ndim, "TensorStructInfo")
            return
        if self.ndim != -1:
            raise IRError(f"a tensor is given both a shape and ndim={self.ndim}", hint="give shape or ndim, not both")
        shape = self.shape if isinstance(self.shape, Expr) else ShapeExpr(_as_list(self.shape))
        info = info_of(shape)
        if not isinstance(info, ShapeStructInfo):
            raise IRError(f"the shape of a tensor is {describe(shape)}, a {info or 'value of unknown kind'}")
        set_fields(self, shape=shape, ndim=info.ndim)

    def child_list(self) -> list[Node]:
        return [] if self.shape is None else [self.shape]

    def map_children(self, f: Callable[[Node], Node]) -> TensorStructInfo:
        if self.shape is None:
            return self
        shape = f(self.shape)
        if shape is self.shape:
            return self
        return TensorStructInfo(shape, self.dtype, self.vdevice, span=self.span)  # type: ignore[arg-type]

    @property
    def dims(self) -> tuple[PrimExpr, ...] | None:
        """The dimensions, where every one of them is known."""
        if isinstance(self.shape, ShapeExpr):
            return self.shape.values
        info = None if self.shape is None else info_of(self.shape)
        return info.values if isinstance(info, ShapeStructInfo) else None

    @property
    def is_unknown_ndim(self) -> bool:
        """Whether not even the number of dimensions is known."""
        return self.ndim == -1

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not TensorStructInfo:
            return False
        if (self.dtype, self.ndim, self.vdevice) != (other.dtype, other.ndim, other.vdevice):
            return False
        if isinstance(self.shape, ShapeExpr) and isinstance(other.shape, ShapeExpr):
            return self.shape is other.shape or self.shape.struct_info == other.shape.struct_info
        return self.shape is other.shape

    def __hash__(self) -> int:
        return hash(("tensor", self.dtype, self.ndim))

    def check(self, derived: StructInfo, analyzer: Analyzer | None = None) -> BaseCheckResult:
        if not isinstance(derived, TensorStructInfo):
            return unlike(derived)
        found = BaseCheckResult.PASS
        if self.dtype and self.dtype != derived.dtype:
            if derived.dtype:
                return BaseCheckResult.FAIL_L0
            found = BaseCheckResult.FAIL_L1
        if self.ndim != -1 and self.ndim != derived.ndim:
            if derived.ndim != -1:
                return BaseCheckResult.FAIL_L0
            found = BaseCheckResult.FAIL_L1
        if self.vdevice is not None and self.vdevice != derived.vdevice:
            if derived.vdevice is not None:
                return BaseCheckResult.FAIL_L0
            found = BaseCheckResult.FAIL_L1
        if self.shape is None or self.shape is derived.shape:
            return found
        if self.dims is None:  # a shape held by a variable of which only the rank is known
            return min(found, BaseCheckResult.FAIL_L2)
        return min(found, check_dims(self.dims, derived.dims, analyzer))

    def __repr__(self) -> str:
        parts = []
        if isinstance(self.shape, ShapeExpr):
            parts.append(shape_text(self.shape.values))
        elif self.shape is not None:
            parts.append(str(getattr(self.shape, "name_hint", self.shape)))
        parts.append(f'dtype="{self.dtype}"')
        if self.vdevice is not None:
            parts.append(f'vdevice="{self.vdevice}"')
        if self.shape is None and self.ndim != -1:
            parts.append(f"ndim={self.ndim}")
        return f"R.Tensor({', '.join(parts)})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TupleStructInfo(StructInfo):
    """Several values held together."""

    CHILDREN = ("fields",)

    fields: tuple[StructInfo, ...]
    span: Span | None = None

    def __post_init__(self) -> None:
        set_fields(self, fields=as_struct_infos(self.fields, "TupleStructInfo"))

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is TupleStructInfo and self.fields == other.fields)

    def __hash__(self) -> int:
        return hash(("tuple", self.fields))

    def check(self, derived: StructInfo, analyzer: Analyzer | None = None) -> BaseCheckResult:
        if not isinstance(derived, TupleStructInfo):
            return unlike(derived)
        if len(self.fields) != len(derived.fields):
            return BaseCheckResult.FAIL_L0
        pairs = zip(self.fields, derived.fields)
        return min((a.check(b, analyzer) for a, b in pairs), default=BaseCheckResult.PASS)

    def __repr__(self) -> str:
        return f"R.Tuple({', '.join(map(repr, self.fields))})"


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class FuncStructInfo(StructInfo):
    """A function: what it takes and what it returns. Dimensions that its parameters name are its own.

    An opaque one (see `opaque_func`) says nothing of its parameters: `params` is None.
    """

    CHILDREN = ("params", "ret")

    params: tuple[StructInfo, ...] | None
    ret: StructInfo
    purity: bool = True
    span: Span | None = None
    derive_func: DeriveFunc | None = None

    def __init__(
        self, params: Sequence[StructInfo], ret: StructInfo, purity: bool = True, span: Span | None = None
    ) -> None:
        """`params` and `ret` say what the function takes and returns.
        `purity`, that calls have no side effect."""
        (checked,) = as_struct_infos((ret,), "the result of FuncStructInfo")
        own = as_struct_infos(params, "FuncStructInfo")
        set_fields(self, params=own, ret=checked, purity=bool(purity), span=span, derive_func=None)

    @staticmethod
    def opaque_func(
        *,
        ret: StructInfo | None = None,
        derive_func: str | DeriveFunc | None = None,
        purity: bool = False,
        span: Span | None = None,
    ) -> FuncStructInfo:
        """A function of unknown parameters that returns `ret`, or what `derive_func(call, builder)` says.

        `derive_func` may be the name of a registered function. Raises IRError if both are given, or no function has the
        name.
        """
        if ret is not None and derive_func is not None:
            raise IRError("an opaque function has a return StructInfo or a derive_func, not both")
        derive = get_global_func(derive_func, allow_missing=True) if isinstance(derive_func, str) else derive_func
        if derive_func is not None and derive is None:
            raise IRError(f"no function {derive_func!r} is registered", hint="register it with register_func first")
        info = FuncStructInfo((), ObjectStructInfo() if ret is None else ret, purity, span)
        set_fields(info, params=None, derive_func=derive)
        return info

    def map_children(self, f: Callable[[Node], Node]) -> FuncStructInfo:
        """The same with every child replaced by `f(child)`; this object when nothing changed."""
        params, ret = map_value(self.params, f), f(self.ret)
        if params is self.params and ret is self.ret:
            return self
        made = FuncStructInfo(params or (), ret, self.purity, self.span)  # type: ignore[arg-type]
        set_fields(made, params=params, derive_func=self.derive_func)
        return made

    def child_list(self) -> list[Node]:
        """Return what the function takes, then what it returns."""
        return [*(self.params or ()), self.ret]

    @property
    def is_opaque(self) -> bool:
        """Whether the parameters are unknown."""
        return self.params is None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not FuncStructInfo or self.purity != other.purity or self.derive_func != other.derive_func:
            return False
        return _same_signature(self, other)

    def __hash__(self) -> int:
        return hash(("func", self.purity, self.params is None or len(self.params)))

    def check(self, derived: StructInfo, analyzer: Analyzer | None = None) -> BaseCheckResult:
        if not isinstance(derived, FuncStructInfo):
            return unlike(derived)
        if self.purity and not derived.purity:
            return BaseCheckResult.FAIL_L0
        if self.params is None:
            if self.derive_func is not None:
                same = self.derive_func == derived.derive_func
                return BaseCheckResult.PASS if same else BaseCheckResult.FAIL_L2
            return self.ret.check(derived.ret, analyzer)
        if derived.params is None:
            return BaseCheckResult.FAIL_L1
        if len(self.params) != len(derived.params):
            return BaseCheckResult.FAIL_L0
        if _same_signature(self, derived):
            return BaseCheckResult.PASS
        found = min((b.check(a, analyzer) for a, b in zip(self.params, derived.params)), default=BaseCheckResult.PASS)
        return min(found, self.ret.check(derived.ret, analyzer))

    def __repr__(self) -> str:
        if self.params is None:
            return f"R.Callable(ret={self.ret!r}, purity={self.purity})"
        return f"R.Callable(({', '.join(map(repr, self.params))}), {self.ret!r}, {self.purity})"


def as_struct_infos(values: Any, what: str) -> tuple[StructInfo, ...]:
    """`values` as a tuple of StructInfo. Raises IRError, naming `what`, where one is none."""
    items = tuple(values) if isinstance(values, tuple | list) else None
    if items is None:
        raise IRError(f"{what} takes a list of StructInfo, got {values!r} ({type(values).__name__})")
    for position, item in enumerate(items):
        if not isinstance(item, StructInfo):
            raise IRError(f"{what}: number {position} is {item!r} ({type(item).__name__}), no StructInfo")
    return items


def _same_signature(a: FuncStructInfo, b: FuncStructInfo) -> bool:
    """Whether both take and return the same, up to the names of their parameters' dimensions."""
    if a.params is None or b.params is None:
        return a.params is b.params and a.ret == b.ret
    return _Alike().all((*a.params, a.ret), (*b.params, b.ret))


class _Alike:
    """Compares StructInfo of two functions, keeping which variable of one stands for which of the other."""

    def __init__(self) -> None:
        self._forward: dict[int, PrimExpr] = {}
        self._backward: dict[int, PrimExpr] = {}

    def all(self, left: Sequence[StructInfo], right: Sequence[StructInfo]) -> bool:
        return len(left) == len(right) and all(map(self.one, left, right))

    def one(self, a: StructInfo, b: StructInfo) -> bool:
        if type(a) is not type(b):
            return False
        match a, b:
            case TupleStructInfo(), TupleStructInfo():
                return self.all(a.fields, b.fields)
            case TensorStructInfo(), TensorStructInfo():
                same = (a.dtype, a.ndim, a.vdevice) == (b.dtype, b.ndim, b.vdevice)
                if isinstance(a.shape, ShapeExpr) and isinstance(b.shape, ShapeExpr):
                    return same and self._dims(a.shape.values, b.shape.values)
                return same and a.shape is b.shape
            case ShapeStructInfo(), ShapeStructInfo() if a.values is not None and b.values is not None:
                return self._dims(a.values, b.values)
        return a == b

    def _dims(self, left: Sequence[PrimExpr], right: Sequence[PrimExpr]) -> bool:
        return len(left) == len(right) and all(map(self._dim, left, right))

    def _dim(self, a: PrimExpr, b: PrimExpr) -> bool:
        if isinstance(a, Var) and isinstance(b, Var):
            if id(a) in self._forward or id(b) in self._backward:
                return self._forward.get(id(a)) is b
            self._forward[id(a)], self._backward[id(b)] = b, a
            return True
        return same_expr(substitute(a, self._known(a)), b)

    def _known(self, expr: PrimExpr) -> dict[Var, PrimExpr]:
        return {var: found for var in variables(expr) if (found := self._forward.get(id(var))) is not None}


def _as_list(shape: Any) -> Any:
    if isinstance(shape, tuple | list):
        return shape
    raise IRError(f"the shape of a tensor is {shape!r} ({type(shape).__name__})", hint="give a list of dimensions")
