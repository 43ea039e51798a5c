"""Bindings of variables, blocks of them, and sequences and conditions made of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from compiler.errors import IRError
from compiler.ir.base import Node, RelaxExpr, Span
from compiler.relax.nodes.base import Expr, StructInfo, describe, info_of
from compiler.relax.nodes.expr import Var, convert_to_expr
from compiler.tir.nodes.base import set_fields

NodeT = TypeVar("NodeT")


class Binding(Node):
    """Base of bindings: `var` is the name of `value`."""

    __slots__ = ()
    CHILDREN: ClassVar[tuple[str, ...]] = ("value",)
    DEFINES: ClassVar[tuple[str, ...]] = ("var",)
    var: Var
    value: RelaxExpr
    span: Span | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VarBinding(Binding):
    """`var` is the name of `value`."""

    var: Var
    value: RelaxExpr
    span: Span | None = None

    def __post_init__(self) -> None:
        _check(self.var, Var, "the variable of VarBinding")
        set_fields(self, value=convert_to_expr(self.value))

    def __repr__(self) -> str:
        return f"{self.var!r} = {self.value!r}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MatchCast(Binding):
    """Binds `var` to `value`. The program checks at run time that the value fits `struct_info`.

    Dimensions that `struct_info` is the first to name get their values there.
    """

    CHILDREN = ("value", "struct_info")

    var: Var
    value: RelaxExpr
    struct_info: StructInfo
    span: Span | None = None

    def __post_init__(self) -> None:
        _check(self.var, Var, "the variable of MatchCast")
        _check(self.struct_info, StructInfo, "the struct_info of MatchCast")
        set_fields(self, value=convert_to_expr(self.value))

    def __repr__(self) -> str:
        return f"{self.var!r} = R.match_cast({self.value!r}, {self.struct_info!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BindingBlock(Node):
    """Bindings one after another, which may have side effects and conditions."""

    CHILDREN = ("bindings",)
    DEFINES = ()

    bindings: tuple[Binding, ...]
    span: Span | None = None

    def __post_init__(self) -> None:
        set_fields(self, bindings=_all(self.bindings, Binding, "the bindings of a block"))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'; '.join(map(repr, self.bindings))})"


class DataflowBlock(BindingBlock):
    """Bindings without side effects and conditions: they may be moved, copied and dropped."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SeqExpr(Expr):
    """The value of `body` after the bindings of `blocks`."""

    CHILDREN = ("blocks", "body")

    blocks: tuple[BindingBlock, ...]
    body: RelaxExpr
    span: Span | None = None
    struct_info_: StructInfo | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        set_fields(
            self, blocks=_all(self.blocks, BindingBlock, "the blocks of SeqExpr"), body=convert_to_expr(self.body)
        )

    def __repr__(self) -> str:
        return f"SeqExpr({self.blocks!r}, {self.body!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class If(Expr):
    """`true_branch` where `cond` holds, else `false_branch`."""

    CHILDREN = ("cond", "true_branch", "false_branch")

    cond: RelaxExpr
    true_branch: SeqExpr
    false_branch: SeqExpr
    span: Span | None = None
    struct_info_: StructInfo | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        set_fields(
            self,
            cond=convert_to_expr(self.cond),
            true_branch=as_seq(self.true_branch),
            false_branch=as_seq(self.false_branch),
        )

    def __repr__(self) -> str:
        return f"If({self.cond!r}, {self.true_branch!r}, {self.false_branch!r})"


def as_seq(value: Any) -> SeqExpr:
    """`value` as a sequence: itself, or one without bindings."""
    if isinstance(value, SeqExpr):
        return value
    body = convert_to_expr(value)
    found = SeqExpr((), body)
    info = info_of(body)
    if info is not None:
        set_fields(found, struct_info_=info)
    return found


def _check(value: Any, kind: type, what: str) -> None:
    if not isinstance(value, kind):
        shown = describe(value) if isinstance(value, Node) else f"{value!r} ({type(value).__name__})"
        raise IRError(f"{what} must be a {kind.__name__}, not {shown}")


def _all(values: Any, kind: type[NodeT], what: str) -> tuple[NodeT, ...]:
    items: Sequence[Any] = values if isinstance(values, tuple | list) else (values,)
    for item in items:
        _check(item, kind, what)
    return tuple(items)
