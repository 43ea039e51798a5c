"""All TensorIR nodes on one page.

Expressions (`PrimExpr`), statements (`Stmt`), buffers and functions. A node is frozen and compared by
identity; its children sit in tuples; a pass returns the same object when it changed nothing (see
`compiler.tir.visit`). Names and constructor arguments follow the field (Apache TVM's TensorIR).
The expression operators (`a + b`, `a < b`, ...) live in `compiler.tir.operators`.

Life of a function: made by te or a script with *blocks* (`BlockRealize`/`Block`: a computation
with its own iteration variables, reads, writes and reduction init); scheduled; then lowered, after which
no blocks are left, buffers are one-dimensional and `Allocate` makes the temporary ones.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.dtype import parse_dtype, with_lanes
from compiler.errors import IRError
from compiler.ir.base import GlobalVar, Node, Op, Span
from compiler.tir import operators
from compiler.tir.operators import ExprOps


class PrimExpr(ExprOps, Node):
    """Base of scalar (or vector) expressions. `dtype` is a string such as "float32x8"."""

    __slots__ = ()
    dtype: str

    def __repr__(self) -> str:
        return _text(self)


class Stmt(Node):
    """Base of statements."""

    __slots__ = ()

    def __repr__(self) -> str:
        return _text(self)


def _set(node: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(node, name, value)


def _to_exprs(node: object, *fields: str) -> None:
    """Numbers given for the named fields, as expressions."""
    for name in fields:
        value = getattr(node, name)
        if not isinstance(value, PrimExpr):
            object.__setattr__(node, name, _ops.as_expr(value))


# ------------------------------------------------------------------------------------ leaves


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var(PrimExpr):
    """A variable; two variables are the same only if they are the same object."""

    name: str
    dtype: str = "int32"
    span: Span | None = None


class SizeVar(Var):
    """A variable known to be at least 0, such as a symbolic dimension."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IntImm(PrimExpr):
    dtype: str
    value: int
    span: Span | None = None

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        return bool(self.value)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FloatImm(PrimExpr):
    dtype: str
    value: float
    span: Span | None = None

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StringImm(PrimExpr):
    value: str
    span: Span | None = None
    dtype: str = field(default="handle", init=False)


@dataclass(frozen=True, slots=True)
class Range(Node):
    """The half-open interval [min, min + extent)."""

    min: PrimExpr
    extent: PrimExpr
    span: Span | None = None

    @staticmethod
    def from_extent(extent: int | PrimExpr, dtype: str = "int32") -> Range:
        value = IntImm(dtype, extent) if isinstance(extent, int) else extent
        return Range(IntImm(value.dtype, 0), value)


class IterType(enum.IntEnum):
    """How an iteration variable may be ordered; the numbers are the field's."""

    DATA_PAR = 0
    THREAD_INDEX = 1
    COMM_REDUCE = 2
    ORDERED = 3
    OPAQUE = 4
    UNROLLED = 5
    VECTORIZED = 6
    PARALLELIZED = 7
    TENSORIZED = 8

    @property
    def for_kind(self) -> ForKind:
        """The kind of a loop over such an axis."""
        return _KIND_OF_LOOP.get(self, ForKind.SERIAL)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IterVar(ExprOps, Node):
    """An iteration variable with its domain. `dom` is None where it follows from other axes."""

    dom: Range | None
    var: Var
    iter_type: IterType = IterType.DATA_PAR
    thread_tag: str = ""
    span: Span | None = None

    @property
    def dtype(self) -> str:
        return self.var.dtype

    @property
    def for_type(self) -> ForKind:
        """The kind of a loop over the axis."""
        return self.iter_type.for_kind

    def asexpr(self) -> PrimExpr:
        return self.var

    def __repr__(self) -> str:
        return f"IterVar({self.var.name}, {self.iter_type.name})"


# ------------------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cast(PrimExpr):
    dtype: str
    value: PrimExpr
    span: Span | None = None

    def __post_init__(self) -> None:
        _to_exprs(self, "value")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BinaryOp(PrimExpr):
    """`a` and `b` have the same dtype, which is the result's."""

    a: PrimExpr
    b: PrimExpr
    span: Span | None = None
    dtype: str = field(init=False, default="")

    def __post_init__(self) -> None:
        if not (isinstance(self.a, PrimExpr) and isinstance(self.b, PrimExpr)):
            _set(self, **dict(zip("ab", _ops.match_types(self.a, self.b))))
        if self.a.dtype != self.b.dtype:
            raise IRError(f"{type(self).__name__} of different dtypes: {self.a.dtype} and {self.b.dtype}")
        object.__setattr__(self, "dtype", self._result_dtype())

    def _result_dtype(self) -> str:
        return self.a.dtype


class Add(BinaryOp):
    __slots__ = ()


class Sub(BinaryOp):
    __slots__ = ()


class Mul(BinaryOp):
    __slots__ = ()


class Div(BinaryOp):
    """Division: true for floats, rounded towards zero for integers."""

    __slots__ = ()


class Mod(BinaryOp):
    """Remainder of the division rounded towards zero."""

    __slots__ = ()


class FloorDiv(BinaryOp):
    __slots__ = ()


class FloorMod(BinaryOp):
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
    """Equality. As a Python truth value: whether both sides are the same node or equal constants."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self.a is self.b or _ops.same_constant(self.a, self.b)


class NE(CmpOp):
    __slots__ = ()

    def __bool__(self) -> bool:
        return not (self.a is self.b or _ops.same_constant(self.a, self.b))


class LT(CmpOp):
    __slots__ = ()


class LE(CmpOp):
    __slots__ = ()


class GT(CmpOp):
    __slots__ = ()


class GE(CmpOp):
    __slots__ = ()


class And(BinaryOp):
    """Logical and of booleans; both sides may be evaluated."""

    __slots__ = ()


class Or(BinaryOp):
    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Not(PrimExpr):
    a: PrimExpr
    span: Span | None = None
    dtype: str = field(init=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.a.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Select(PrimExpr):
    """`true_value` where `condition`, else `false_value`. Both may be evaluated: neither may fault.

    Use the call `tir.if_then_else` where the untaken side may not be evaluated.
    """

    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr
    span: Span | None = None
    dtype: str = field(init=False, default="")

    def __post_init__(self) -> None:
        _to_exprs(self, "condition", "true_value", "false_value")
        if self.true_value.dtype != self.false_value.dtype:
            raise IRError(f"Select of different dtypes: {self.true_value.dtype} and {self.false_value.dtype}")
        object.__setattr__(self, "dtype", self.true_value.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ramp(PrimExpr):
    """The vector base, base + stride, ..., with `lanes` lanes."""

    base: PrimExpr
    stride: PrimExpr
    lanes: int
    span: Span | None = None
    dtype: str = field(init=False, default="")

    def __post_init__(self) -> None:
        _to_exprs(self, "base", "stride")
        object.__setattr__(self, "dtype", with_lanes(self.base.dtype, self.lanes))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Broadcast(PrimExpr):
    """`value` in every lane."""

    value: PrimExpr
    lanes: int
    span: Span | None = None
    dtype: str = field(init=False, default="")

    def __post_init__(self) -> None:
        _to_exprs(self, "value")
        object.__setattr__(self, "dtype", with_lanes(self.value.dtype, self.lanes))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Let(PrimExpr):
    var: Var
    value: PrimExpr
    body: PrimExpr
    span: Span | None = None
    dtype: str = field(init=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.body.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(PrimExpr):
    """`op` applied to `args`: an intrinsic (`Op`) or another function of the module (`GlobalVar`)."""

    dtype: str
    op: Op | GlobalVar
    args: tuple[PrimExpr, ...]
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BufferLoad(PrimExpr):
    """One element of `buffer`; a vector when the last index is a `Ramp`.

    With `predicate` (a bool vector), lanes where it is false are not read and give 0.
    """

    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = None
    span: Span | None = None
    dtype: str = field(init=False, default="")

    def __post_init__(self) -> None:
        lanes = parse_dtype(self.indices[-1].dtype).lanes if self.indices else 1
        buffer_lanes = parse_dtype(self.buffer.dtype).lanes
        object.__setattr__(self, "dtype", with_lanes(self.buffer.dtype, lanes * buffer_lanes))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ProducerLoad(PrimExpr):
    """One element of a te tensor (`producer`), before it is known which buffer holds it."""

    producer: Any
    indices: tuple[PrimExpr, ...]
    span: Span | None = None
    dtype: str = field(init=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.producer.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CommReducer(Node):
    """A commutative, associative combiner: result[i] combines lhs[i] and rhs[i]; identity[i] is its unit."""

    lhs: tuple[Var, ...]
    rhs: tuple[Var, ...]
    result: tuple[PrimExpr, ...]
    identity_element: tuple[PrimExpr, ...]
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reduce(PrimExpr):
    """Reduction of `source` over `axis` where `condition` holds; only at the top of a te.compute body."""

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


# ----------------------------------------------------------------------------------- buffers


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Buffer(Node):
    """A typed, shaped view of memory. Two buffers are the same only if they are the same object.

    `strides` is empty for a compact row-major layout; `elem_offset` counts elements from `data`.
    `scope`: "global", "local" (registers or stack of one thread), "shared", "warp", ...
    """

    name: str
    data: Var
    shape: tuple[PrimExpr, ...]
    dtype: str = "float32"
    strides: tuple[PrimExpr, ...] = ()
    elem_offset: PrimExpr | None = None
    scope: str = "global"
    data_alignment: int = 64
    span: Span | None = None

    def __getitem__(self, indices: Any) -> BufferLoad:
        items = indices if isinstance(indices, tuple) else (indices,)
        if len(items) != len(self.shape):
            raise IRError(f"buffer {self.name} has {len(self.shape)} dimensions, indexed with {len(items)}")
        return BufferLoad(self, tuple(_ops.as_expr(i) for i in items))

    def __repr__(self) -> str:
        return f"Buffer({self.name}, {self.shape}, {self.dtype}, {self.scope})"


def decl_buffer(
    shape: Any,
    dtype: str = "float32",
    name: str = "buffer",
    data: Var | None = None,
    strides: Any = None,
    elem_offset: PrimExpr | None = None,
    scope: str = "global",
    data_alignment: int = 64,
) -> Buffer:
    """A new buffer; `shape` and `strides` are ints or expressions, in elements."""
    dims = shape if isinstance(shape, tuple | list) else (shape,)
    parse_dtype(dtype)
    return Buffer(
        name,
        data if data is not None else Var(name, "handle"),
        tuple(_ops.as_expr(d) for d in dims),
        dtype,
        tuple(_ops.as_expr(s) for s in strides or ()),
        elem_offset,
        scope,
        data_alignment,
    )


@dataclass(frozen=True, slots=True, eq=False)
class BufferRegion(Node):
    """A box inside a buffer: one range a dimension."""

    buffer: Buffer
    region: tuple[Range, ...]


# -------------------------------------------------------------------------------- statements


class ForKind(enum.Enum):
    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZED = "vectorized"
    UNROLLED = "unroll"
    THREAD_BINDING = "thread_binding"


_KIND_OF_LOOP = {
    IterType.THREAD_INDEX: ForKind.THREAD_BINDING,
    IterType.UNROLLED: ForKind.UNROLLED,
    IterType.VECTORIZED: ForKind.VECTORIZED,
    IterType.PARALLELIZED: ForKind.PARALLEL,
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BufferStore(Stmt):
    """buffer[indices] = value. A vector store when the last index is a `Ramp`; `predicate` masks lanes."""

    buffer: Buffer
    value: PrimExpr
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = None
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class For(Stmt):
    """for loop_var in [min, min + extent). Every For of a function has a `loop_var` of its own."""

    loop_var: Var
    min: PrimExpr
    extent: PrimExpr
    kind: ForKind
    body: Stmt
    thread_binding: IterVar | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class While(Stmt):
    condition: PrimExpr
    body: Stmt
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SeqStmt(Stmt):
    seq: tuple[Stmt, ...]
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IfThenElse(Stmt):
    condition: PrimExpr
    then_case: Stmt
    else_case: Stmt | None = None
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LetStmt(Stmt):
    var: Var
    value: PrimExpr
    body: Stmt
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AttrStmt(Stmt):
    """`body` annotated with attr_key = value about `node`."""

    node: Any
    attr_key: str
    value: PrimExpr
    body: Stmt
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AssertStmt(Stmt):
    condition: PrimExpr
    message: PrimExpr
    body: Stmt
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evaluate(Stmt):
    """An expression run for its effect."""

    value: PrimExpr
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Allocate(Stmt):
    """Storage behind `buffer_var` that lives while `body` runs. `scope` as in `Buffer`."""

    buffer_var: Var
    dtype: str
    extents: tuple[PrimExpr, ...]
    condition: PrimExpr
    body: Stmt
    scope: str = "global"
    annotations: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Block(Stmt):
    """A computation isolated by its own iteration variables; the unit of scheduling.

    `iter_vars` are data-parallel (DATA_PAR) or reduced (COMM_REDUCE) and their domains start at 0.
    `init` runs where every reduced iteration is at its start. `name_hint` is unique in a function.
    The outermost block, "root", has no iteration variables and allocates the intermediate buffers.
    """

    iter_vars: tuple[IterVar, ...]
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    name_hint: str
    body: Stmt
    init: Stmt | None = None
    alloc_buffers: tuple[Buffer, ...] = ()
    match_buffers: tuple[tuple[Buffer, BufferRegion], ...] = ()
    annotations: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BlockRealize(Stmt):
    """`block` run with its iteration variables bound to `iter_values`, where `predicate` holds."""

    iter_values: tuple[PrimExpr, ...]
    predicate: PrimExpr
    block: Block
    span: Span | None = None


AnyStmt = (
    BufferStore
    | For
    | While
    | SeqStmt
    | IfThenElse
    | LetStmt
    | AttrStmt
    | AssertStmt
    | Evaluate
    | Allocate
    | Block
    | BlockRealize
)


# --------------------------------------------------------------------------------- functions


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrimFunc(Node):
    """A function over buffers and scalars. `params` are variables; `buffer_map` says which are buffers.

    Before lowering `body` is the BlockRealize of the root block. Known attrs: "global_symbol" (str),
    "tir.noalias" (bool), "target" (Target).
    """

    params: tuple[Var, ...]
    body: Stmt
    ret_type: str | None = None
    buffer_map: Mapping[Var, Buffer] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = None

    def with_body(self, body: Stmt) -> PrimFunc:
        if body is self.body:
            return self
        return PrimFunc(self.params, body, self.ret_type, self.buffer_map, self.attrs, self.span)

    def with_attr(self, key: str | Mapping[str, Any], value: Any = None) -> PrimFunc:
        """A copy with the attribute `key`, or with all of a mapping."""
        return self.with_attrs(key if isinstance(key, Mapping) else {key: value})

    def with_attrs(self, attrs: Mapping[str, Any]) -> PrimFunc:
        """A copy with further attributes."""
        return self._with_all_attrs({**self.attrs, **attrs})

    def without_attr(self, key: str) -> PrimFunc:
        """A copy without the attribute `key`."""
        return self._with_all_attrs({k: v for k, v in self.attrs.items() if k != key})

    def _with_all_attrs(self, attrs: Mapping[str, Any]) -> PrimFunc:
        return PrimFunc(self.params, self.body, self.ret_type, self.buffer_map, attrs, self.span)

    def specialize(self, param_map: Mapping[Var, Any]) -> PrimFunc:
        """The function with parameters known: scalars as numbers, symbolic buffers as buffers of a shape.

        Raises IRError for a key that is no parameter, or a buffer that does not fit.
        """
        from compiler.tir.specialize import specialize

        return specialize(self, param_map)

    def show(self) -> None:
        """Print the function as TVMScript text."""
        print(_text(self))

    def script(self) -> str:
        """The function as TVMScript text."""
        return _text(self)

    def __repr__(self) -> str:
        return _text(self)


def _text(node: Node) -> str:
    from compiler.tir.printer import script

    return script(node)


from compiler.tir import intrin as _intrin  # noqa: E402  (they build the nodes above)
from compiler.tir import ops as _ops  # noqa: E402

operators.install(_ops, _intrin)
