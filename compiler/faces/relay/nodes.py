"""Expressions of Relay.

They are trees as they were written; what they compute is said by their translation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from compiler.errors import ArgumentError, IRError
from compiler.faces.relay.types import TensorType, Type
from compiler.ir.base import GlobalVar, Node, Op, Span, Symbol
from compiler.ir.function import BaseFunc
from compiler.relax.nodes.expr import Content
from compiler.runtime.core.ndarray import NDArray, array


@cache
def relay_op(name: str) -> Op:
    """Relay's operator of that name, one object for each name."""
    return Op(name)


class Attrs(Mapping[str, Any]):
    """Attributes of a call: a mapping, whose items are attributes, too."""

    def __init__(self, items: Mapping[str, Any] | None = None) -> None:
        self._items = dict(items or {})

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._items[name]
        except KeyError:
            raise AttributeError(f"there is no attribute {name!r}; there are: {', '.join(self)}") from None

    def get_int(self, key: str) -> int:
        """An attribute that is an int."""
        return int(self[key])

    def get_str(self, key: str) -> str:
        """An attribute that is text."""
        return str(self[key])

    def __repr__(self) -> str:
        return ", ".join(f"{key}={value!r}" for key, value in self._items.items())


class Expr(Node):
    """Base of expressions. Python's operators give calls of the operators of that meaning."""

    __slots__ = ()

    @property
    def checked_type(self) -> Type:
        """The type of the value. Raises IRError where it does not fit together."""
        return _hooks["type"](self)  # type: ignore[no-any-return]

    def as_function(self) -> Function:
        """The expression as a function of its free variables."""
        return _hooks["function"](self)  # type: ignore[no-any-return]

    def astype(self, dtype: str) -> Call:
        """Elements converted to `dtype`."""
        return Call(relay_op("cast"), [self], Attrs({"dtype": str(dtype)}))

    def astext(self, show_meta_data: bool = True, annotate: Any = None) -> str:
        """The expression as text."""
        return repr(self)

    def __neg__(self) -> Call:
        return Call(relay_op("negative"), [self])

    def __call__(self, *args: Any) -> Call:
        """The call of this function."""
        return Call(self, args)

    def _with(self, name: str, other: Any, swapped: bool = False) -> Call:
        pair = (self, as_expr(other, self))
        return Call(relay_op(name), pair[::-1] if swapped else pair)

    def __add__(self, other: Any) -> Call:
        return self._with("add", other)

    def __radd__(self, other: Any) -> Call:
        return self._with("add", other, swapped=True)

    def __sub__(self, other: Any) -> Call:
        return self._with("subtract", other)

    def __rsub__(self, other: Any) -> Call:
        return self._with("subtract", other, swapped=True)

    def __mul__(self, other: Any) -> Call:
        return self._with("multiply", other)

    def __rmul__(self, other: Any) -> Call:
        return self._with("multiply", other, swapped=True)

    def __truediv__(self, other: Any) -> Call:
        return self._with("divide", other)

    def __rtruediv__(self, other: Any) -> Call:
        return self._with("divide", other, swapped=True)

    def __lt__(self, other: Any) -> Call:
        return self._with("less", other)

    def __le__(self, other: Any) -> Call:
        return self._with("less_equal", other)

    def __gt__(self, other: Any) -> Call:
        return self._with("greater", other)

    def __ge__(self, other: Any) -> Call:
        return self._with("greater_equal", other)


_hooks: dict[str, Any] = {}
"""What needs the translation: "type" of an expression, "function" of its free variables."""


def use_hooks(**hooks: Any) -> None:
    """Say how what expressions are asked is found."""
    _hooks.update(hooks)


def as_expr(value: Any, beside: Expr | None = None) -> Any:
    """A value as an expression; numbers beside a variable of known type become constants of that type."""
    if isinstance(value, Expr | GlobalVar):
        return value
    if isinstance(value, TupleWrapper):
        return value.astuple()
    if isinstance(value, list | tuple) and value and all(isinstance(item, Expr | TupleWrapper) for item in value):
        return Tuple(tuple(value))
    kind = beside.type_annotation if isinstance(beside, Var) else None
    return const(value, kind.dtype if isinstance(kind, TensorType) and isinstance(value, int | float) else None)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var(Expr, Symbol):
    """A variable, of a type that may be left out."""

    name_hint: str
    type_annotation: Type | None = None
    span: Span | None = None

    def parts(self) -> tuple[Any, ...]:
        return (str(self.type_annotation),)

    def __repr__(self) -> str:
        return f"%{self.name_hint}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Constant(Expr):
    """A tensor that is known."""

    UNCOMPARED = Expr.UNCOMPARED | {"data"}

    data: NDArray
    content: Content = field(init=False)  # compared in the place of the array

    def __post_init__(self) -> None:
        object.__setattr__(self, "content", Content(self.data))

    def __repr__(self) -> str:
        shown = f"{self.data.numpy().tolist()!r}" if self.data.size == 1 else f"{tuple(self.data.shape)}"
        return f"const({shown}, {self.data.dtype})"


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Call(Expr):
    """`op` applied to `args`: an operator, a function, or a variable whose value is one."""

    CHILDREN = ("op", "args")

    op: Any
    args: tuple[Expr, ...]
    attrs: Attrs
    type_args: tuple[Type, ...]
    span: Span | None

    def __init__(
        self, op: Any, args: Sequence[Any], attrs: Mapping[str, Any] | None = None,
        type_args: Sequence[Type] | None = None, span: Span | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(op, Op | Expr | GlobalVar):
            raise IRError(f"a call of {op!r} ({type(op).__name__}), which is no operator and no function")
        own = attrs if isinstance(attrs, Attrs) else Attrs(attrs)
        for name, value in (
            ("op", op), ("args", tuple(map(as_expr, args))), ("attrs", own), ("type_args", tuple(type_args or ())),
            ("span", span),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return _hooks["text"](self)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tuple(Expr):
    """Several values held together."""

    CHILDREN = ("fields",)

    fields: tuple[Expr, ...]
    span: Span | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(map(as_expr, self.fields)))

    def __getitem__(self, index: int) -> Expr:
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)

    def __repr__(self) -> str:
        return _hooks["text"](self)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TupleGetItem(Expr):
    """Field `index` of a tuple."""

    CHILDREN = ("tuple_value",)

    tuple_value: Expr
    index: int
    span: Span | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tuple_value", as_expr(self.tuple_value))

    def __repr__(self) -> str:
        return _hooks["text"](self)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Let(Expr):
    """`body`, in which `var` stands for `value`."""

    CHILDREN = ("value", "body")
    DEFINES = ("var",)

    var: Var
    value: Expr
    body: Expr
    span: Span | None = None

    def __repr__(self) -> str:
        return _hooks["text"](self)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class If(Expr):
    """`true_branch` where the scalar `cond` is true, else `false_branch`."""

    CHILDREN = ("cond", "true_branch", "false_branch")

    cond: Expr
    true_branch: Expr
    false_branch: Expr
    span: Span | None = None

    def __repr__(self) -> str:
        return _hooks["text"](self)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Function(BaseFunc, Expr):
    """A function of `params`."""

    CHILDREN = ("body",)
    DEFINES = ("params",)

    params: tuple[Var, ...]
    body: Expr
    ret_type: Type | None = None
    type_params: tuple[Any, ...] = None  # type: ignore[assignment]  # () once made
    attrs: Mapping[str, Any] = None  # type: ignore[assignment]  # {} once made
    span: Span | None = None

    def __post_init__(self) -> None:
        params = tuple(self.params)
        if not all(isinstance(param, Var) for param in params):
            raise IRError("the parameters of a function are relay.var(...)")
        made = {"params": params, "body": as_expr(self.body), "type_params": tuple(self.type_params or ())}
        for name, value in {**made, "attrs": dict(self.attrs or {})}.items():
            object.__setattr__(self, name, value)

    def astext(self, show_meta_data: bool = True, annotate: Any = None) -> str:
        """The function as text. `show_meta_data` and `annotate` are accepted for compatibility with TVM."""
        return _hooks["text"](self)  # type: ignore[no-any-return]

    def as_function(self) -> Function:
        """This function."""
        return self

    def __repr__(self) -> str:
        return self.astext()


class TupleWrapper:
    """A call that gives several values: indexed, unpacked, or used as the tuple that it is."""

    def __init__(self, tuple_value: Expr, size: int) -> None:
        self.tuple_value = tuple_value
        self.size = size

    def astuple(self) -> Expr:
        """The tuple as one expression."""
        return self.tuple_value

    def astext(self) -> str:
        """The tuple as text."""
        return self.tuple_value.astext()

    @property
    def checked_type(self) -> Type:
        """The type of the tuple."""
        return self.tuple_value.checked_type

    def __getitem__(self, index: int) -> TupleGetItem:
        if not 0 <= index < self.size:
            raise IndexError(f"there are {self.size} values, counted from 0; {index} is none of them")
        return TupleGetItem(self.tuple_value, index)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[TupleGetItem]:
        return iter([self[index] for index in range(self.size)])

    def __repr__(self) -> str:
        return f"TupleWrapper({self.tuple_value!r}, {self.size})"


# -------------------------------------------------------------------------------------- making


def var(
    name_hint: str, type_annotation: Type | str | None = None, shape: Any = None, dtype: str = "float32",
    span: Any = None,
) -> Var:  # fmt: skip
    """A variable of a type, or of a tensor of `shape` and `dtype`. A str for the type is that of a scalar."""
    if type_annotation is not None and shape is not None:
        raise ArgumentError("a variable is given a type and a shape", hint="give one of them")
    if shape is not None:
        return Var(name_hint, TensorType(tuple(shape) if isinstance(shape, list | tuple) else (shape,), dtype), span)
    if isinstance(type_annotation, str):
        return Var(name_hint, TensorType((), type_annotation), span)
    return Var(name_hint, type_annotation, span)


def const(value: Any, dtype: str | None = None, span: Any = None) -> Constant:
    """A constant. Without `dtype`, a Python int is int32 and a float float32; arrays keep their type."""
    if isinstance(value, NDArray):
        return Constant(value)
    plain = isinstance(value, bool | int | float)
    named = {bool: "bool", int: "int32", float: "float32"}
    kind = dtype or (named[type(value)] if plain else None)
    try:
        return Constant(array(np.asarray(value, dtype=kind)))
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"a constant of {value!r}: {error}") from None
