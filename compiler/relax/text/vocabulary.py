"""The meaning of `R.name` in a script."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from compiler.errors import IRError
from compiler.relax import nodes as r
from compiler.relax import op as operators
from compiler.relax.op.core.params import ParamKind
from compiler.relax.op.core.registry import OPERATORS, Operator
from compiler.runtime.core.dtypes import storage_dtype
from compiler.runtime.core.ndarray import NDArray, numpyasarray
from compiler.script.metadata import register_metadata
from compiler.te.where import caller_span
from compiler.tir.text.vocabulary import TypeName


def as_info(value: Any) -> r.StructInfo:
    """An annotation as StructInfo: `R.Tensor` alone is a tensor of which nothing is known."""
    if isinstance(value, r.StructInfo):
        return value
    if isinstance(value, TypeName):  # `n: T.int64`
        return r.PrimStructInfo(value.dtype)
    plain: Any = _BARE.get(value) if callable(value) else None
    if plain is None:
        raise IRError(f"{value!r} is no StructInfo", hint='for instance R.Tensor((n, 4), dtype="float32")')
    made: r.StructInfo = plain()
    return made


_RENAMED = {"out_ty": "out_sinfo", "ty_args": "sinfo_args"}  # as newer versions call them


def fit(operator: Operator, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a written call as the operator takes them.

    Attributes may be written as expressions (`R.str("x")`), StructInfo without parentheses (`R.Tensor`), and both
    under the names that newer versions have.
    """
    params = {param.name: param for param in operator.params}
    positions = [*itertools.takewhile(lambda param: not param.variadic, operator.params)]
    found = [_fitted(param.kind, value) for param, value in zip(positions, args)]
    known = {name if name in params else _RENAMED.get(name, name): value for name, value in named.items()}
    fitted = {name: _fitted(params[name].kind, value) if name in params else value for name, value in known.items()}
    return [*found, *args[len(found) :]], fitted


def _fitted(kind: ParamKind, value: Any) -> Any:
    match kind, value:
        case ParamKind.ATTR, r.StringImm() | r.DataTypeImm() | r.PrimValue():
            return value.value
        case ParamKind.ATTR, r.ShapeExpr():
            return value.values
        case ((ParamKind.RESULT | ParamKind.RESULTS), (tuple() | list())):
            return [as_info(item) for item in value]
        case ((ParamKind.RESULT | ParamKind.RESULTS), _) if value is not None:
            return as_info(value)
    return value


def tensor_info(shape: Any = None, dtype: str | None = None, vdevice: Any = None, ndim: int = -1) -> r.TensorStructInfo:
    """A tensor. As in texts of TVM, `R.Tensor("float32")` says the element type only."""
    if isinstance(shape, str) and dtype is None:
        shape, dtype = None, shape
    element = ("float32" if shape is not None else "") if dtype is None else dtype
    dims: Any = tuple(shape) if isinstance(shape, list | tuple) else shape
    return r.TensorStructInfo(dims, element, vdevice, ndim)


def shape_info(values: Sequence[Any] | None = None, ndim: int = -1) -> r.ShapeStructInfo:
    """A shape."""
    return r.ShapeStructInfo(None if values is None else tuple(values), ndim)


def prim_info(dtype: str | None = None, value: Any = None) -> r.PrimStructInfo:
    """A scalar."""
    return r.PrimStructInfo(dtype, value)  # type: ignore[arg-type]


def tuple_info(*fields: Any) -> r.TupleStructInfo:
    """A tuple."""
    items = fields[0] if len(fields) == 1 and isinstance(fields[0], list | tuple) else fields
    return r.TupleStructInfo(tuple(map(as_info, items)))


def callable_info(params: Any = None, ret: Any = None, purity: bool | None = None) -> r.FuncStructInfo:
    """A function; without `params`, one of which only the result is known."""
    if params is None:
        result = None if ret is None else as_info(ret)
        return r.FuncStructInfo.opaque_func(ret=result, purity=bool(purity))
    items = params if isinstance(params, list | tuple) else (params,)
    return r.FuncStructInfo(tuple(map(as_info, items)), as_info(ret), True if purity is None else purity)


def object_info() -> r.ObjectStructInfo:
    """Anything."""
    return r.ObjectStructInfo()


def constant(value: Any, dtype: str | None = None) -> r.Constant:
    """A constant: a number, nested lists of numbers, or an array kept beside the text."""
    if value is ...:
        raise IRError("this constant was left out of the text", hint="save_json keeps constants beside the text")
    return r.const(value if isinstance(value, NDArray | int | float | bool) else np.asarray(value), dtype)


def shape(values: Sequence[Any]) -> r.ShapeExpr:
    """A shape."""
    return r.ShapeExpr(tuple(values))


def tuple_(*fields: Any) -> r.Tuple:
    """A tuple."""
    return r.Tuple(tuple(map(r.convert_to_expr, fields)))


def call_packed(func: str, *args: Any, sinfo_args: Any = None, ty_args: Any = None, span: Any = None) -> r.Call:
    """The call of a function of the runtime, which may have side effects.
    `ty_args`: `sinfo_args` in newer texts."""
    sinfo_args = ty_args if sinfo_args is None else sinfo_args
    items = () if sinfo_args is None else tuple(sinfo_args) if isinstance(sinfo_args, list | tuple) else (sinfo_args,)
    infos = tuple(map(as_info, items))
    return r.Call(r.ExternFunc(func), tuple(map(r.convert_to_expr, args)), None, infos, span or caller_span())


_NAMES: dict[str, Callable[..., Any]] = {
    "Tensor": tensor_info, "Shape": shape_info, "Prim": prim_info, "Tuple": tuple_info, "Callable": callable_info,
    "Object": object_info, "Any": object_info, "const": constant, "shape": shape, "prim_value": r.PrimValue,
    "str": r.StringImm, "dtype": r.DataTypeImm, "tuple": tuple_, "call_packed": call_packed, "ExternFunc": r.ExternFunc,
}  # fmt: skip
_BARE: dict[Any, Callable[[], r.StructInfo]] = {
    tensor_info: tensor_info, shape_info: shape_info, tuple_info: tuple_info, callable_info: callable_info,
    object_info: object_info,
}  # fmt: skip


def lookup(name: str) -> Any:
    """Return what `R.name` stands for: an operator of the table, or a function made of several.
    None for an unknown name."""
    found = _NAMES.get(name)
    if found is not None:
        return found
    *groups, last = name.split(".")
    current: Any = operators
    for group in groups:
        current = getattr(current, group, None)
    if f"relax.{name}" not in OPERATORS and last not in getattr(current, "__all__", ()):
        return None
    made = getattr(current, last, None)
    return made if callable(made) else None


def names() -> list[str]:
    """Every name that `lookup` knows."""
    return sorted({*_NAMES, *operators.__all__, *(name.removeprefix("relax.") for name in OPERATORS)})


def _of_metadata(array: np.ndarray[Any, Any], dtype: str) -> r.Constant:
    storage = storage_dtype(dtype)
    return r.Constant(numpyasarray(array if array.dtype == storage else array.view(storage)))


for _name in ("relax.expr.Constant", "ir.GenericConst"):
    register_metadata(_name, _of_metadata)
