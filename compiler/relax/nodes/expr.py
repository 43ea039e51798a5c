"""Expressions: variables, constants, tuples, calls and conditions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.dtype import parse_dtype
from compiler.errors import ArgumentError, IRError
from compiler.ir.attrs import NO_ATTRS, Attrs, as_attrs
from compiler.ir.base import Node, Op, RelaxExpr, Span, Symbol
from compiler.relax.nodes.base import Expr, StructInfo, describe, info_of, install
from compiler.relax.nodes.shape import ObjectStructInfo, PrimStructInfo, ShapeExpr, prim
from compiler.relax.nodes.struct_info import FuncStructInfo, TensorStructInfo, TupleStructInfo, as_struct_infos
from compiler.relax.nodes.symbols import signature_symbols, symbols_set_by
from compiler.runtime.core.dtypes import storage_dtype
from compiler.runtime.core.ndarray import NDArray, numpyasarray
from compiler.te.where import caller_span
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr
from compiler.tir.nodes.base import set_fields

Array = npt.NDArray[Any]


class Id(Node):
    """The name of a variable, kept when a pass makes the variable anew. Compared by identity."""

    __slots__ = ("name_hint",)

    def __init__(self, name_hint: str) -> None:
        self.name_hint = name_hint

    def __repr__(self) -> str:
        return f"Id({self.name_hint})"


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Var(Expr, Symbol):
    """A name that a binding or a function gives to a value. Compared by identity."""

    vid: Id
    struct_info_: StructInfo | None
    span: Span | None

    def __init__(self, name_hint: str | Id, struct_info: StructInfo | None = None, span: Span | None = None) -> None:
        """A variable called `name_hint`; `struct_info` says what is known of its value."""
        if struct_info is not None and not isinstance(struct_info, StructInfo):
            raise IRError(f"the variable {name_hint} has the StructInfo {struct_info!r}, which is none")
        if not isinstance(name_hint, str | Id):
            raise IRError(f"a variable's name is text, not {name_hint!r}")
        vid = Id(name_hint) if isinstance(name_hint, str) else name_hint
        set_fields(self, vid=vid, struct_info_=struct_info, span=span)

    @property
    def name_hint(self) -> str:
        """The name, which others may have too."""
        return self.vid.name_hint

    def parts(self) -> tuple[Any, ...]:
        return (self.struct_info_,)

    def introduces(self) -> tuple[Symbol, ...]:
        info = self.struct_info_
        if isinstance(info, FuncStructInfo):
            return tuple(signature_symbols(info))
        return () if info is None else tuple(symbols_set_by(info))

    def __repr__(self) -> str:
        return self.vid.name_hint


class DataflowVar(Var):
    """A variable seen only inside its dataflow block."""

    __slots__ = ()


class Content:
    """The content of an array.
    Equal when type, shape and every bit are. Its text names it by a digest."""

    __slots__ = ("_data", "_digest")

    def __init__(self, data: NDArray) -> None:
        self._data = data
        self._digest = ""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Content):
            return False
        a, b = self._data, other._data
        if a is b:
            return True
        return (a.dtype, a.shape) == (b.dtype, b.shape) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        if not self._digest:
            data = self._data if self._data.is_host else numpyasarray(self._data.numpy())
            found = hashlib.blake2b(data.as_bytes(), digest_size=16).hexdigest()
            self._digest = f"{data.dtype}{list(data.shape)} {found}"
        return self._digest


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Constant(Expr):
    """A tensor known at compile time. The array it is made of must not be changed."""

    UNCOMPARED = Expr.UNCOMPARED | {"data"}

    data: NDArray
    struct_info_: StructInfo | None
    span: Span | None
    content: Content = field(init=False)  # compared in the place of the array

    def __init__(self, data: NDArray | Array, struct_info: StructInfo | None = None, span: Span | None = None) -> None:
        """The constant `data`, an array that is shared, not copied."""
        held = data if isinstance(data, NDArray) else numpyasarray(np.ascontiguousarray(data).reshape(np.shape(data)))
        known = TensorStructInfo(held.shape, held.dtype)  # type: ignore[arg-type]
        if struct_info is not None and not struct_info.is_base_of(known):
            raise IRError(f"a constant of {known} is no {struct_info}")
        info = known if struct_info is None else struct_info
        set_fields(self, data=held, struct_info_=info, span=span, content=Content(held))

    @property
    def array(self) -> Array:
        """The elements as numpy's array, not copied."""
        return np.asarray(self.data)

    def __repr__(self) -> str:
        shown = np.array2string(self.array, threshold=8, separator=", ") if self.data.is_host else "..."
        return f'R.const({shown}, "{self.data.dtype}")'


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrimValue(Expr):
    """A scalar expression used where a graph expression is wanted. Python ints are int64."""

    CHILDREN = ("value",)

    value: PrimExpr
    span: Span | None = None
    struct_info_: StructInfo | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        value = prim(self.value)
        if isinstance(value, n.StringImm):
            raise IRError(f"PrimValue of the text {value!r}", hint="use relax.StringImm")
        set_fields(self, value=value, struct_info_=PrimStructInfo(value=value))

    def __repr__(self) -> str:
        return f"R.prim_value({self.value!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StringImm(Expr):
    """Text."""

    value: str
    span: Span | None = None
    struct_info_: StructInfo | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if not isinstance(self.value, str):
            raise IRError(f"StringImm of {self.value!r}, which is no text")
        set_fields(self, struct_info_=ObjectStructInfo())

    def __repr__(self) -> str:
        return f"R.str({self.value!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DataTypeImm(Expr):
    """The name of an element type."""

    value: str
    span: Span | None = None
    struct_info_: StructInfo | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        parse_dtype(self.value)
        set_fields(self, struct_info_=ObjectStructInfo())

    def __repr__(self) -> str:
        return f'R.dtype("{self.value}")'


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tuple(Expr):
    """Several values held together."""

    CHILDREN = ("fields",)

    fields: tuple[RelaxExpr, ...]
    span: Span | None = None
    struct_info_: StructInfo | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        fields = as_exprs(self.fields, "Tuple")
        set_fields(self, fields=fields, struct_info_=tuple_info(fields))

    def __getitem__(self, index: int) -> RelaxExpr:  # type: ignore[override]
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)

    def __repr__(self) -> str:
        return f"R.tuple({', '.join(map(repr, self.fields))})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TupleGetItem(Expr):
    """Field `index` of a tuple."""

    CHILDREN = ("tuple_value",)

    tuple_value: RelaxExpr
    index: int
    span: Span | None = None
    struct_info_: StructInfo | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        value = convert_to_expr(self.tuple_value)
        if isinstance(self.index, bool) or not hasattr(self.index, "__index__") or int(self.index) < 0:
            raise IRError(f"field {self.index!r} of {describe(value)}: fields are counted from 0")
        info = info_of(value)
        if isinstance(info, TupleStructInfo) and self.index >= len(info.fields):
            raise IRError(f"field {self.index} of {describe(value)}, a tuple of {len(info.fields)} fields")
        known = info.fields[self.index] if isinstance(info, TupleStructInfo) else None
        set_fields(self, tuple_value=value, index=int(self.index), struct_info_=known)

    def __repr__(self) -> str:
        return f"{self.tuple_value!r}[{self.index}]"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Expr):
    """`op` applied to `args`: an operator, or an expression whose value is a function.

    `sinfo_args` describe the result if neither operator nor function does. The result's StructInfo is found when the
    call is normalised.
    """

    CHILDREN = ("op", "args", "sinfo_args")

    op: RelaxExpr
    args: tuple[RelaxExpr, ...]
    attrs: Attrs = NO_ATTRS
    sinfo_args: tuple[StructInfo, ...] = ()
    span: Span | None = None
    struct_info_: StructInfo | None = field(init=False, default=None)

    def __init__(
        self, op: RelaxExpr, args: Sequence[RelaxExpr], attrs: Mapping[str, Any] | None = None,
        sinfo_args: Sequence[StructInfo] | None = None, span: Span | None = None,
    ) -> None:  # fmt: skip
        """The call of `op` with `args`. Raises IRError if `op` is neither operator nor expression."""
        if isinstance(op, str):
            try:
                op = Op.get(op)
            except KeyError:
                raise IRError(f"there is no operator {op!r}") from None
        if not isinstance(op, RelaxExpr):
            raise IRError(f"a call of {op!r} ({type(op).__name__}), which is no operator and no function")
        own = args if type(args) is tuple and all(isinstance(a, RelaxExpr) for a in args) else as_exprs(args, "Call")
        infos = as_struct_infos(tuple(sinfo_args), "sinfo_args of a call") if sinfo_args else ()
        set_fields(self, op=op, args=own, attrs=as_attrs(attrs), sinfo_args=infos, span=span, struct_info_=None)

    def __repr__(self) -> str:
        op = self.op.name if isinstance(self.op, Op) else repr(self.op)
        parts = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.attrs.items())]
        if self.sinfo_args:
            parts.append(f"sinfo_args={self.sinfo_args!r}")
        return f"{op}({', '.join(parts)})"


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class ExternFunc(Expr):
    """A function of the runtime, by its name."""

    global_symbol: str
    struct_info_: StructInfo | None
    span: Span | None

    def __init__(self, global_symbol: str, struct_info: StructInfo | None = None, span: Span | None = None) -> None:
        """The function registered as `global_symbol`.
        Without `struct_info`, one that returns its call's sinfo_args."""
        if not isinstance(global_symbol, str) or not global_symbol:
            raise IRError(f"an external function's name is text, not {global_symbol!r}")
        if struct_info is not None and not isinstance(struct_info, FuncStructInfo):
            raise IRError(f"the external function {global_symbol} has the StructInfo {struct_info}, of no function")
        info = FuncStructInfo.opaque_func(derive_func=returns_sinfo_args) if struct_info is None else struct_info
        set_fields(self, global_symbol=global_symbol, struct_info_=info, span=span)

    def __repr__(self) -> str:
        return f'R.ExternFunc("{self.global_symbol}")'


# --------------------------------------------------------------------------------- conversions


def returns_sinfo_args(call: Call, builder: object) -> StructInfo:
    """Return what a call of an external function returns: its `sinfo_args`, an object without any."""
    if len(call.sinfo_args) > 1:
        return TupleStructInfo(call.sinfo_args)
    return call.sinfo_args[0] if call.sinfo_args else ObjectStructInfo()


def tuple_info(fields: Sequence[RelaxExpr]) -> TupleStructInfo | None:
    """The StructInfo of a tuple of `fields`; None until all of theirs are known."""
    infos = [info_of(item) for item in fields]
    return None if None in infos else TupleStructInfo(tuple(infos))  # type: ignore[arg-type]


def const(value: bool | int | float | Array | NDArray, dtype: str | None = None) -> Constant:
    """A constant. Without `dtype`: int → int32, float → float32, bool → bool, else as numpy has it."""
    if isinstance(value, NDArray):
        same = dtype is None or dtype == value.dtype
        return Constant(value if same else np.asarray(value).astype(storage_dtype(str(dtype))))
    if dtype is None:
        kinds = {bool: "bool", int: "int32", float: "float32"}
        dtype = kinds.get(type(value))
    return Constant(np.array(value) if dtype is None else np.array(value).astype(storage_dtype(dtype)))


def extern(name: str, struct_info: StructInfo | None = None, span: Span | None = None) -> ExternFunc:
    """The function of the runtime called `name`."""
    return ExternFunc(name, struct_info, span)


def convert_to_expr(value: Any) -> Any:
    """`value` as an expression: scalars become PrimValue, text StringImm, lists and tuples Tuple.

    Raises TypeError (ArgumentError) for anything else, and for tir.StringImm, which could mean two things.
    """
    if isinstance(value, RelaxExpr):
        return value
    if isinstance(value, n.StringImm):
        raise ArgumentError("tir.StringImm may mean relax.StringImm or relax.PrimValue", hint="make the one you mean")
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, tuple | list):
        return Tuple(tuple(map(convert_to_expr, value)))
    if isinstance(value, PrimExpr | int | float | n.IterVar):
        return PrimValue(prim(value))
    if isinstance(value, np.integer | np.floating | np.bool_):
        return PrimValue(prim(value.item()))
    raise ArgumentError(
        f"{value!r} ({type(value).__name__}) is no expression", hint="relax.const makes a constant of an array"
    )


def as_exprs(values: Any, what: str) -> tuple[Any, ...]:
    """`values` as a tuple of expressions. Raises IRError, naming `what`, where one is none."""
    if not isinstance(values, tuple | list):
        raise IRError(f"{what} takes a list of expressions, got {values!r} ({type(values).__name__})")
    found = []
    for position, value in enumerate(values):
        try:
            found.append(convert_to_expr(value))
        except ArgumentError as error:
            raise IRError(f"{what}, number {position}: {error.message}", hint=error.hint) from None
    return tuple(found)


def _operand(value: Any, beside: Sequence[Any]) -> RelaxExpr:
    """An operand of a Python operator: a number becomes a constant of the other side's element type."""
    if isinstance(value, int | float | np.generic):
        infos = [info_of(other) for other in beside if isinstance(other, RelaxExpr)]
        dtype = next((info.dtype for info in infos if isinstance(info, TensorStructInfo) and info.dtype), None)
        return const(value, dtype)  # type: ignore[arg-type]
    if isinstance(value, np.ndarray | NDArray):
        return const(value)
    return convert_to_expr(value)  # type: ignore[no-any-return]


def _apply(name: str, args: Sequence[Any], attrs: Mapping[str, Any] | None = None) -> Call:
    return Call(Op.register(name), tuple([_operand(a, args) for a in args]), attrs, span=caller_span())


def _call(function: RelaxExpr, args: Sequence[Any], attrs: Mapping[str, Any] | None = None) -> Call:
    return Call(function, as_exprs(args, f"the call of {describe(function)}"), attrs, span=caller_span())


def _item(value: RelaxExpr, index: int) -> TupleGetItem:
    info = info_of(value)
    if isinstance(info, TupleStructInfo) and isinstance(index, int) and index < 0:
        index += len(info.fields)
    if isinstance(info, TupleStructInfo) and not (isinstance(index, int) and 0 <= index < len(info.fields)):
        raise IndexError(f"field {index} of {describe(value)}, a tuple of {len(info.fields)}")
    if info is not None and not isinstance(info, TupleStructInfo | ObjectStructInfo):
        raise TypeError(f"{describe(value)} is a {info}, no tuple: it has no fields")
    return TupleGetItem(value, index)


install(_apply, _call, _item)
__all__ = [
    "Call", "Constant", "DataTypeImm", "DataflowVar", "ExternFunc", "Id", "PrimValue", "ShapeExpr", "StringImm",
    "Tuple", "TupleGetItem", "Var", "as_exprs", "const", "convert_to_expr", "extern", "returns_sinfo_args",
    "tuple_info",
]  # fmt: skip
