"""Parameters of operators.

The kinds of arguments and attributes, and conversion of Python values to them.

The signature of a declaration says it: `x: TensorArg` is an argument of the call, `axis: int = -1` an attribute. The
annotations below are all kinds.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

import numpy as np
import numpy.typing as npt

from compiler.dtype import parse_dtype
from compiler.errors import ArgumentError, IRError
from compiler.ir.base import RelaxExpr
from compiler.relax.nodes import (
    DataTypeImm,
    ExternFunc,
    PrimValue,
    ShapeExpr,
    StructInfo,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    TupleStructInfo,
    const,
    convert_to_expr,
    info_of,
)
from compiler.runtime.core.ndarray import NDArray
from compiler.suggest import closest
from compiler.tir.nodes import FloatImm, IntImm, PrimExpr

Array = npt.NDArray[Any]


class ParamKind(enum.Enum):
    """The kind of an operator's parameter."""

    TENSOR = "a tensor"
    TENSORS = "a list of tensors"
    SHAPE = "a shape"
    SCALAR = "a scalar"
    SCALARS = "a list of scalars"
    EXPR = "an expression"
    DTYPE = "an element type"
    FUNC = "a function"
    TUPLE = "a list of arguments"
    RESULT = "StructInfo"
    RESULTS = "a list of StructInfo"
    ATTR = "an attribute"


TensorArg = Annotated[RelaxExpr | float | Array, ParamKind.TENSOR]
"""A tensor; a Python number becomes a constant of the other tensors' element type."""
OptionalTensor = Annotated[RelaxExpr | None, ParamKind.TENSOR]
"""A tensor that a call may leave out."""
TensorsArg = Annotated[RelaxExpr | Sequence[RelaxExpr], ParamKind.TENSORS]
"""Several tensors, one tuple in the call."""
ShapeArg = Annotated[RelaxExpr | Sequence[int | PrimExpr], ParamKind.SHAPE]
"""A shape: a list of dimensions, or an expression."""
ScalarArg = Annotated[RelaxExpr | PrimExpr | int | float, ParamKind.SCALAR]
"""A scalar that the program may compute."""
ScalarsArg = Annotated[RelaxExpr | Sequence[int | PrimExpr], ParamKind.SCALARS]
"""Several scalars, one tuple in the call."""
OptionalScalars = Annotated[RelaxExpr | Sequence[int | PrimExpr] | None, ParamKind.SCALARS]
"""Several scalars that a call may leave out."""
ExprArg = Annotated[RelaxExpr, ParamKind.EXPR]
"""Any expression."""
DtypeArg = Annotated[RelaxExpr | str, ParamKind.DTYPE]
"""An element type that stands among the arguments."""

OptionalShape = Annotated[RelaxExpr | Sequence[int | PrimExpr] | None, ParamKind.SHAPE]
"""A shape that a call may leave out."""
FuncArg = Annotated[RelaxExpr | str, ParamKind.FUNC]
"""A function; text names one of the runtime."""
TupleArg = Annotated[RelaxExpr | Sequence[RelaxExpr], ParamKind.TUPLE]
"""The arguments of a function that is called, one tuple in the call."""
ResultInfo = Annotated[StructInfo | Sequence[StructInfo], ParamKind.RESULT]
"""What the result is; several are a tuple."""
ResultInfos = Annotated[StructInfo | Sequence[StructInfo], ParamKind.RESULTS]
"""What the result is, each a struct info argument of the call."""
OptionalResults = Annotated[StructInfo | Sequence[StructInfo] | None, ParamKind.RESULTS]
"""What the result is, where it is said."""

Ints = int | Sequence[int]
"""An attribute of one integer for each of several dimensions, or one for all."""
OptionalInts = int | Sequence[int] | None
Dtype = Annotated[str, "dtype"]
"""An attribute that names an element type."""
OptionalDtype = Annotated[str | None, "dtype"]
"""An attribute that names an element type; "" stands for None."""

REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of an operator. `convert` checks an attribute and gives the value that the call holds."""

    name: str
    kind: ParamKind
    default: Any
    convert: Callable[[Any], Any]
    variadic: bool = False

    @property
    def required(self) -> bool:
        return self.default is REQUIRED and not self.variadic

    @property
    def is_attr(self) -> bool:
        return self.kind is ParamKind.ATTR

    @property
    def is_argument(self) -> bool:
        """Whether the call holds it among its arguments."""
        return self.kind not in (ParamKind.ATTR, ParamKind.RESULT, ParamKind.RESULTS)


def params_of(signature: inspect.Signature) -> tuple[Param, ...]:
    """The parameters that a declaration's signature states, its annotations evaluated."""
    found = []
    for parameter in signature.parameters.values():
        kind, convert = _meaning(parameter.annotation)
        variadic = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        found.append(Param(parameter.name, kind, parameter.default, convert, variadic))
    return tuple(found)


def _meaning(annotation: Any) -> tuple[ParamKind, Callable[[Any], Any]]:
    if get_origin(annotation) is Annotated:
        (mark,) = annotation.__metadata__
        if isinstance(mark, ParamKind):
            return mark, convert_to_expr
        return ParamKind.ATTR, _dtype
    if annotation in (Ints, OptionalInts):
        return ParamKind.ATTR, _optional(_ints) if annotation == OptionalInts else _ints
    parts = get_args(annotation)
    optional = type(None) in parts
    plain = next((part for part in parts if part is not type(None)), annotation)
    convert = _PLAIN.get(plain, _anything)
    return ParamKind.ATTR, _optional(convert) if optional else convert


# ---------------------------------------------------------------------------------- attributes


def _optional(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _int(value: Any) -> int:
    if isinstance(value, IntImm):
        return value.value
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise ArgumentError("an integer")
    return int(value.__index__())


def _ints(value: Any) -> int | tuple[int, ...]:
    if isinstance(value, list | tuple):
        return tuple(map(_int, value))
    return _int(value)


def _float(value: Any) -> float:
    if isinstance(value, FloatImm | IntImm):
        return float(value.value)
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ArgumentError("a number")
    return float(value)


def _bool(value: Any) -> bool:
    if isinstance(value, bool | np.bool_ | IntImm) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise ArgumentError("True or False")


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise ArgumentError("text")
    return value


def _dtype(value: Any) -> str:
    if value is None or value in ("", "void"):
        return ""
    if not isinstance(value, str):
        value = np.dtype(value).name
    parse_dtype(value)
    return str(value)


def _anything(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_PLAIN: dict[Any, Callable[[Any], Any]] = {int: _int, float: _float, bool: _bool, str: _str}


# ------------------------------------------------------------------------------------ binding


@dataclass(frozen=True, slots=True)
class Bound:
    """The parts of a call."""

    args: list[RelaxExpr]
    attrs: dict[str, Any]
    sinfo_args: tuple[StructInfo, ...]


def bind(operator: str, params: Sequence[Param], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound:
    """The call's arguments and attributes that Python arguments stand for.

    Raises ArgumentError (a TypeError and a ValueError), naming operator and parameter, for what does not fit.
    """
    given = _given(operator, params, args, kwargs)
    exprs: list[RelaxExpr] = []
    attrs: dict[str, Any] = {}
    infos: tuple[StructInfo, ...] = ()
    left_out: str | None = None
    for param in params:
        value = given.get(param.name, param.default)
        if param.is_attr:
            attrs[param.name] = _attribute(operator, param, value)
        elif not param.is_argument:
            infos = _results(operator, param, value)
        elif param.variadic:
            exprs += [_argument(operator, param, item, given) for item in given.get(param.name, ())]
        elif value is None:
            left_out = param.name
        elif left_out is not None:
            raise ArgumentError(f"{operator}: {param.name} is given, so {left_out} must be, too")
        else:
            exprs.append(_argument(operator, param, value, given))
    return Bound(exprs, attrs, infos)


def _results(operator: str, param: Param, value: Any) -> tuple[StructInfo, ...]:
    items = () if value is None else tuple(value) if isinstance(value, tuple | list) else (value,)
    for item in items:
        if not isinstance(item, StructInfo):
            raise ArgumentError(f"{operator}: {param.name} is {item!r} ({type(item).__name__}), no StructInfo")
    if param.kind is ParamKind.RESULT and isinstance(value, tuple | list):
        return (TupleStructInfo(items),)
    return items


def _given(operator: str, params: Sequence[Param], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The Python arguments by name of the parameter."""
    given: dict[str, Any] = {}
    positions = iter(args)
    for position, param in enumerate(params):
        if param.variadic:
            given[param.name] = tuple(positions)
            break
        if position >= len(args):
            break
        given[param.name] = next(positions)
    extra = len(args) - len(params)
    if extra > 0 and not any(param.variadic for param in params):
        raise ArgumentError(f"{operator} takes {len(params)} arguments, got {len(args)}")
    names = {param.name for param in params}
    for name, value in kwargs.items():
        if name not in names:
            raise ArgumentError(f"{operator} has no parameter {name!r}", hint=closest(name, names))
        if name in given:
            raise ArgumentError(f"{operator}: {name} is given twice")
        given[name] = value
    missing = [param.name for param in params if param.required and param.name not in given]
    if missing:
        raise ArgumentError(f"{operator} needs {missing[0]}", hint=f"it takes ({', '.join(p.name for p in params)})")
    return given


def _attribute(operator: str, param: Param, value: Any) -> Any:
    try:
        return param.convert(value)
    except ArgumentError as error:
        raise ArgumentError(
            f"{operator}: the attribute {param.name} is {value!r} ({type(value).__name__}), not {error.message}"
        ) from None
    except (IRError, TypeError) as error:
        raise ArgumentError(f"{operator}: the attribute {param.name} is {value!r}: {error}") from None


def _argument(operator: str, param: Param, value: Any, given: Mapping[str, Any]) -> RelaxExpr:
    try:
        match param.kind:
            case ParamKind.TENSOR if isinstance(value, bool | int | float | np.generic):
                return const(value, _dtype_beside(given))  # type: ignore[arg-type]
            case ParamKind.TENSOR if isinstance(value, np.ndarray | NDArray):
                return const(value)
            case ParamKind.SHAPE if not isinstance(value, RelaxExpr):
                return ShapeExpr(value if isinstance(value, tuple | list) else (value,))  # type: ignore[arg-type]
            case ParamKind.SCALAR if isinstance(value, PrimExpr | int | float | np.generic):
                return PrimValue(value.item() if isinstance(value, np.generic) else value)  # type: ignore[arg-type]
            case ParamKind.DTYPE if isinstance(value, str):
                return DataTypeImm(value)
            case ParamKind.FUNC if isinstance(value, str):
                return ExternFunc(value)
            case ParamKind.TUPLE if not isinstance(value, Tuple):
                return _as_tuple(value)
            case ParamKind.SCALARS if isinstance(value, tuple | list):
                return Tuple(tuple(map(convert_to_expr, value)))
        found: RelaxExpr = convert_to_expr(value)
    except (ArgumentError, IRError) as error:
        raise ArgumentError(
            f"{operator}: the argument {param.name} is {value!r} ({type(value).__name__}), not {param.kind.value}",
            hint=error.message,
        ) from None
    return found


def _as_tuple(value: Any) -> Tuple:
    """One argument, a list of them, or a tuple that a variable holds, as the tuple of a call."""
    if isinstance(value, RelaxExpr):
        info = info_of(value)
        fields = len(info.fields) if isinstance(info, TupleStructInfo) else -1
        return Tuple((value,) if fields < 0 else tuple(TupleGetItem(value, index) for index in range(fields)))
    return Tuple(tuple(map(convert_to_expr, value)))


def _dtype_beside(given: Mapping[str, Any]) -> str | None:
    """The element type of the first tensor among the arguments."""
    for value in given.values():
        info = info_of(value) if isinstance(value, RelaxExpr) else None
        if isinstance(info, TensorStructInfo) and info.dtype:
            return info.dtype
    return None
