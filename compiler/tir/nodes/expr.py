"""Expressions: arithmetic, comparisons, vectors, calls, accesses, reductions."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import is_not
from typing import TYPE_CHECKING, Any

from compiler.dtype import element_of, lanes_of, parse_dtype, with_lanes
from compiler.errors import IRError
from compiler.ir.base import GlobalVar, Node, Op, Span
from compiler.ir.printed import Printed
from compiler.ir.visit import Fn
from compiler.tir.nodes.axis import IntImm, IterVar, Var, same_constant
from compiler.tir.nodes.base import PrimExpr, set_fields
from compiler.tir.nodes.convert import cast, check_lanes, match_types, to_exprs, to_tuples

if TYPE_CHECKING:
    from compiler.tir.nodes.buffer import Buffer


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BinaryOp(PrimExpr):
    """`a` and `b` have the same dtype, which is the result's."""

    CHILDREN = ("a", "b")

    a: PrimExpr
    b: PrimExpr
    span: Span | None = None
    dtype: str = field(init=False, default="")

    def __post_init__(self) -> None:
        if not (isinstance(self.a, PrimExpr) and isinstance(self.b, PrimExpr)):
            set_fields(self, **dict(zip("ab", match_types(self.a, self.b))))
        if self.a.dtype != self.b.dtype:
            raise IRError(f"{type(self).__name__} of different dtypes: {self.a.dtype} and {self.b.dtype}")
        object.__setattr__(self, "dtype", self._result_dtype())

    def _result_dtype(self) -> str:
        return self.a.dtype


_set_a, _set_b, _set_span, _set_dtype = (vars(BinaryOp)[name].__set__ for name in BinaryOp.__dataclass_fields__)


def unchecked_binary(cls: type[BinaryOp], a: PrimExpr, b: PrimExpr, dtype: str) -> PrimExpr:
    """Return `cls(a, b)` for operands known to be of `dtype`.
    It checks nothing, and takes a third of the time."""
    node: PrimExpr = object.__new__(cls)
    _set_a(node, a)
    _set_b(node, b)
    _set_span(node, None)
    _set_dtype(node, dtype)
    return node


def _bools(node: PrimExpr, operand: PrimExpr) -> str:
    """The dtype of an operand that must be a bool. Raises IRError where it is none."""
    if not operand.dtype.startswith("bool"):
        raise IRError(
            f"{type(node).__name__} of {operand!r}, which is {operand.dtype}, not bool", hint="compare it: x != 0"
        )
    return operand.dtype


class NumberOp(BinaryOp):
    """Arithmetic that bools do not have.
    Their sum is no bool, and machines have no common rule for it."""

    __slots__ = ()

    def _result_dtype(self) -> str:
        if self.a.dtype.startswith("bool"):
            raise IRError(
                f"{type(self).__name__} of {self.a.dtype}: bools are no numbers",
                hint='count them as .astype("int32"), or combine them with tir.all, tir.any, tir.Min or tir.Max',
            )
        return self.a.dtype


class Add(NumberOp):
    __slots__ = ()


class Sub(NumberOp):
    __slots__ = ()


class Mul(BinaryOp):
    __slots__ = ()


class Div(NumberOp):
    """Division: true for floats, rounded towards zero for integers."""

    __slots__ = ()


class Mod(NumberOp):
    """Remainder of the division rounded towards zero."""

    __slots__ = ()


class FloorDiv(NumberOp):
    __slots__ = ()


class FloorMod(NumberOp):
    __slots__ = ()


class Min(BinaryOp):
    __slots__ = ()


class Max(BinaryOp):
    __slots__ = ()


class CmpOp(BinaryOp):
    """A comparison; its dtype is bool with the operands' lanes."""

    __slots__ = ()

    def _result_dtype(self) -> str:
        return with_lanes("bool", parse_dtype(self.a.dtype).lanes)


class EQ(CmpOp):
    """Equality. Its Python truth value tells whether both sides are the same node or equal constants."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self.a is self.b or same_constant(self.a, self.b)


class NE(CmpOp):
    __slots__ = ()

    def __bool__(self) -> bool:
        return not (self.a is self.b or same_constant(self.a, self.b))


class LT(CmpOp):
    __slots__ = ()


class LE(CmpOp):
    __slots__ = ()


class GT(CmpOp):
    __slots__ = ()


class GE(CmpOp):
    __slots__ = ()


class _LogicOp(BinaryOp):
    __slots__ = ()

    def _result_dtype(self) -> str:
        return _bools(self, self.a)


class And(_LogicOp):
    """Logical and of booleans; both sides may be evaluated."""

    __slots__ = ()


class Or(_LogicOp):
    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Not(PrimExpr):
    CHILDREN = ("a",)

    a: PrimExpr
    span: Span | None = None
    dtype: str = field(init=False, default="")

    def __post_init__(self) -> None:
        to_exprs(self, "a")
        object.__setattr__(self, "dtype", _bools(self, self.a))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Select(PrimExpr):
    """`true_value` where `condition` holds, else `false_value`.
    Both may be evaluated, so neither may fault.

    Use the call `tir.if_then_else` where the other side may not be evaluated.
    """

    CHILDREN = ("condition", "true_value", "false_value")

    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr
    span: Span | None = None
    dtype: str = field(init=False, default="")

    def __post_init__(self) -> None:
        to_exprs(self, "condition", "true_value", "false_value")
        if not self.condition.dtype.startswith("bool"):
            raise IRError(
                f"Select needs a condition of bool, got {self.condition!r} of {self.condition.dtype}",
                hint="compare it: x != 0",
            )
        if self.true_value.dtype != self.false_value.dtype:
            raise IRError(f"Select of different dtypes: {self.true_value.dtype} and {self.false_value.dtype}")
        object.__setattr__(self, "dtype", self.true_value.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ramp(PrimExpr):
    """The vector base, base + stride, ..., with `lanes` lanes."""

    CHILDREN = ("base", "stride")

    base: PrimExpr
    stride: PrimExpr
    lanes: int
    span: Span | None = None
    dtype: str = field(init=False, default="")

    def __post_init__(self) -> None:
        to_exprs(self, "base", "stride")
        check_lanes(self.lanes, "Ramp", self.base)
        if self.stride.dtype != self.base.dtype:
            set_fields(self, stride=cast(self.base.dtype, self.stride))
        object.__setattr__(self, "dtype", with_lanes(self.base.dtype, self.lanes))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Shuffle(PrimExpr):
    """The lanes of `vectors`, one vector after another, in the order of `indices`.

    One index gives a scalar. Raises IRError for vectors of different element dtypes, and for an index that is no
    constant or no lane.
    """

    CHILDREN = ("vectors", "indices")

    vectors: tuple[PrimExpr, ...]
    indices: tuple[PrimExpr, ...]
    span: Span | None = None
    dtype: str = field(init=False, default="")

    def __post_init__(self) -> None:
        to_tuples(self, "vectors", "indices")
        elements = sorted({element_of(vector.dtype) for vector in self.vectors})
        if len(elements) != 1:
            raise IRError(f"Shuffle needs vectors of one element dtype, got {', '.join(elements) or 'none'}")
        lanes = sum(lanes_of(vector.dtype) for vector in self.vectors)
        for index in self.indices:
            if not isinstance(index, IntImm) or not 0 <= index.value < lanes:
                raise IRError(f"Shuffle of {lanes} lanes: {index!r} is no constant index of one")
        if not self.indices:
            raise IRError("Shuffle needs at least one index")
        object.__setattr__(self, "dtype", with_lanes(elements[0], len(self.indices)))

    def lane(self, position: int) -> tuple[PrimExpr, int]:
        """The vector that lane `position` of the result comes from, and the lane of it."""
        index = self.indices[position]
        assert isinstance(index, IntImm)
        at = index.value
        for vector in self.vectors:
            count = lanes_of(vector.dtype)
            if at < count:
                return vector, at
            at -= count
        raise AssertionError("indices are checked when a Shuffle is made")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Let(PrimExpr):
    CHILDREN = ("value", "body")
    DEFINES = ("var",)

    var: Var
    value: PrimExpr
    body: PrimExpr
    span: Span | None = None
    dtype: str = field(init=False, default="")

    def __post_init__(self) -> None:
        to_exprs(self, "value", "body")
        if self.value.dtype != self.var.dtype:
            raise IRError(f"Let: {self.var.name!r} is {self.var.dtype}, its value {self.value.dtype}")
        object.__setattr__(self, "dtype", self.body.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(PrimExpr):
    """A call of an intrinsic (`Op`, or its name) or another function of the module (`GlobalVar`)."""

    CHILDREN = ("args",)

    dtype: str
    op: Op | GlobalVar
    args: tuple[PrimExpr, ...]
    span: Span | None = None

    def __post_init__(self) -> None:
        if isinstance(self.op, str):
            try:
                set_fields(self, op=Op.get(self.op))
            except KeyError:
                raise IRError(f"there is no operator {self.op!r}", hint="a C function: tir.call_extern") from None
        to_tuples(self, "args")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BufferLoad(PrimExpr):
    """One element of `buffer`; a vector when the last index is a `Ramp`.

    With `predicate` (a bool vector), lanes where it is false are not read and give 0.
    """

    CHILDREN = ("indices", "predicate")

    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = None
    span: Span | None = None
    dtype: str = field(init=False, default="")

    def __post_init__(self) -> None:
        to_tuples(self, "indices")
        self.buffer.check_rank(self.indices)
        lanes = parse_dtype(self.indices[-1].dtype).lanes if self.indices else 1
        buffer_lanes = parse_dtype(self.buffer.dtype).lanes
        object.__setattr__(self, "dtype", with_lanes(self.buffer.dtype, lanes * buffer_lanes))

    # visited more than other expressions, so without looking the fields up

    def child_list(self) -> list[Node]:
        return [*self.indices] if self.predicate is None else [*self.indices, self.predicate]

    def map_children(self, f: Fn) -> BufferLoad:
        indices = tuple([f(index) for index in self.indices])
        predicate = None if self.predicate is None else f(self.predicate)
        if predicate is self.predicate and not any(map(is_not, indices, self.indices)):
            return self
        return BufferLoad(self.buffer, indices, predicate, self.span)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ProducerLoad(PrimExpr):
    """One element of a te tensor (`producer`), before it is known which buffer holds it."""

    CHILDREN = ("indices",)

    producer: Any
    indices: tuple[PrimExpr, ...]
    span: Span | None = None
    dtype: str = field(init=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.producer.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CommReducer(Printed, Node):
    """A commutative, associative combiner: result[i] combines lhs[i] and rhs[i]; identity[i] is its unit."""

    DEFINES = ("lhs", "rhs")

    lhs: tuple[Var, ...]
    rhs: tuple[Var, ...]
    result: tuple[PrimExpr, ...]
    identity_element: tuple[PrimExpr, ...]
    span: Span | None = None

    def __post_init__(self) -> None:
        to_tuples(self, "lhs", "rhs", "result", "identity_element")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reduce(PrimExpr):
    """Reduction of `source` over `axis` where `condition` holds; only at the top of a te.compute body."""

    CHILDREN = ("axis", "source", "init", "condition")
    DEFINES = ("axis.var",)

    combiner: CommReducer
    source: tuple[PrimExpr, ...]
    axis: tuple[IterVar, ...]
    condition: PrimExpr
    value_index: int = 0
    init: tuple[PrimExpr, ...] = ()
    span: Span | None = None
    dtype: str = field(init=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.source[self.value_index].dtype)
