"""The bases of graphs: expressions, and what is known of their values (StructInfo)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from compiler.errors import IRError
from compiler.ir.base import GlobalVar, Node, Op, RelaxExpr

if TYPE_CHECKING:
    from compiler.arith.analyzer import Analyzer
    from compiler.ir.base import Span
    from compiler.relax.nodes.expr import Call, TupleGetItem


def _unbound(*args: Any) -> Any:
    raise AssertionError("bound by compiler.relax.nodes.expr")


# What the Python operators of expressions build with.
_apply: Callable[..., Expr] = _unbound
_call: Callable[..., Call] = _unbound
_item: Callable[..., TupleGetItem] = _unbound


def install(apply: Callable[..., Expr], call: Callable[..., Call], item: Callable[..., TupleGetItem]) -> None:
    """Register the functions that Python operators build nodes with.
    `compiler.relax.nodes.expr` calls it once its nodes exist."""
    global _apply, _call, _item
    _apply, _call, _item = apply, call, item


class BaseCheckResult(enum.IntEnum):
    """How far one StructInfo covers the values of another.

    FAIL_L0: no value has both. FAIL_L1: the other covers this one. FAIL_L2: some values may have both, and a
    check at run time tells. PASS: every value of the other is one of this.
    """

    FAIL_L0 = 0
    FAIL_L1 = 1
    FAIL_L2 = 2
    PASS = 3


class StructInfo(Node):
    """Base of what is known of a value before it is computed: its kind, shape and element type."""

    __slots__ = ()
    span: Span | None

    def same_as(self, other: object) -> bool:
        """True when both say the same, over the same variables."""
        return self == other

    def is_base_of(self, derived: StructInfo) -> bool:
        """True when every value described by `derived` is described by this, too."""
        return self.check(derived) is BaseCheckResult.PASS

    def check(self, derived: StructInfo, analyzer: Analyzer | None = None) -> BaseCheckResult:
        """Return how far this StructInfo covers the values of `derived`."""
        raise NotImplementedError(f"{type(self).__name__} has no check: a StructInfo overrides it")


class Expr(RelaxExpr):
    """Base of graph expressions. `struct_info` says what is known of the value."""

    __slots__ = ()
    UNCOMPARED: ClassVar[frozenset[str]] = Node.UNCOMPARED | {"struct_info_"}  # it follows from the rest
    span: Span | None
    struct_info_: StructInfo | None

    @property
    def struct_info(self) -> StructInfo:
        """The known facts of the value. Raises IRError before the expression was normalised."""
        info = self.struct_info_
        if info is None:
            raise IRError(
                f"nothing is known yet of {describe(self)}", hint="emit it with a BlockBuilder, or use its normalize"
            )
        return info

    def astype(self, dtype: str) -> Expr:
        """The tensor converted to `dtype`."""
        return _apply("relax.astype", (self,), {"dtype": dtype})

    def __neg__(self) -> Expr:
        return _apply("relax.negative", (self,))

    def __lt__(self, other: Any) -> Expr:
        return _apply("relax.less", (self, other))

    def __gt__(self, other: Any) -> Expr:
        return _apply("relax.greater", (self, other))

    def __le__(self, other: Any) -> Expr:
        return _apply("relax.less_equal", (self, other))

    def __ge__(self, other: Any) -> Expr:
        return _apply("relax.greater_equal", (self, other))

    def __add__(self, other: Any) -> Expr:
        return _apply("relax.add", (self, other))

    def __radd__(self, other: Any) -> Expr:
        return _apply("relax.add", (other, self))

    def __sub__(self, other: Any) -> Expr:
        return _apply("relax.subtract", (self, other))

    def __rsub__(self, other: Any) -> Expr:
        return _apply("relax.subtract", (other, self))

    def __mul__(self, other: Any) -> Expr:
        return _apply("relax.multiply", (self, other))

    def __rmul__(self, other: Any) -> Expr:
        return _apply("relax.multiply", (other, self))

    def __truediv__(self, other: Any) -> Expr:
        return _apply("relax.divide", (self, other))

    def __rtruediv__(self, other: Any) -> Expr:
        return _apply("relax.divide", (other, self))

    def __floordiv__(self, other: Any) -> Expr:
        return _apply("relax.floor_divide", (self, other))

    def __rfloordiv__(self, other: Any) -> Expr:
        return _apply("relax.floor_divide", (other, self))

    def __mod__(self, other: Any) -> Expr:
        return _apply("relax.mod", (self, other))

    def __rmod__(self, other: Any) -> Expr:
        return _apply("relax.mod", (other, self))

    def __pow__(self, other: Any) -> Expr:
        return _apply("relax.power", (self, other))

    def __rpow__(self, other: Any) -> Expr:
        return _apply("relax.power", (other, self))

    def __call__(self, *args: Any, attrs: Any = None) -> Call:
        """The call of this function."""
        return _call(self, args, attrs)

    def __getitem__(self, index: int) -> TupleGetItem:
        """Field `index` of this tuple."""
        return _item(self, index)

    def __iter__(self) -> Iterator[TupleGetItem]:
        """The fields of this tuple. Raises TypeError where it is none."""
        fields = getattr(self.struct_info_, "fields", None)
        if fields is None:
            raise TypeError(f"{describe(self)} is {self.struct_info_ or 'not known to be a tuple'}: it has no fields")
        return iter([_item(self, index) for index in range(len(fields))])


def set_struct_info(expr: RelaxExpr, info: StructInfo) -> None:
    """Record what is known of `expr`. Raises IRError where something else was recorded before."""
    known = getattr(expr, "struct_info_", None)
    if known is not None and known is not info and known != info:
        raise IRError(f"{describe(expr)} already has the StructInfo {known}; it cannot become {info}")
    object.__setattr__(expr, "struct_info_", info)


def info_of(expr: RelaxExpr) -> StructInfo | None:
    """Return what is known of `expr`; None before it was normalised."""
    return getattr(expr, "struct_info_", None)


def describe(expr: object) -> str:
    """A few words for messages: "the variable x", "the call of relax.add"."""
    match expr:
        case GlobalVar():
            return f"the function {expr}"
        case Op():
            return f"the operator {expr.name}"
    name = getattr(expr, "name_hint", None)
    if isinstance(name, str):
        return f"the variable {name}"
    op = getattr(expr, "op", None)
    if op is not None:
        what = op.name if isinstance(op, Op) else getattr(op, "name_hint", getattr(op, "global_symbol", "a function"))
        return f"the call of {what}"
    return f"the {type(expr).__name__}"
