"""Make kernels of te functions.

A graph's values become te tensors, and the result a call of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.errors import IRError
from compiler.ir.base import RelaxExpr
from compiler.relax import nodes as r
from compiler.relax.nodes.dims import int64, simplified, variables
from compiler.te.operation import compute
from compiler.te.prim_func import create_prim_func
from compiler.te.tensor import PlaceholderOp, Tensor, placeholder
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr
from compiler.tir.visit import substitute


@dataclass(frozen=True, slots=True)
class TeKernel:
    """A TensorIR function, and how a graph calls it. `outputs` has several entries where te gave a list."""

    func: n.PrimFunc
    args: tuple[RelaxExpr, ...]
    outputs: tuple[r.TensorStructInfo, ...]
    several: bool
    tir_vars: tuple[PrimExpr, ...]


def make_kernel(
    func: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    name: str,
    attrs: Mapping[str, Any] | None = None,
) -> TeKernel:
    """The kernel that computes `func(*args, **kwargs)`, tensors given as expressions of known StructInfo.

    Known dimensions are constants of the kernel. Variables become its own. A variable that is a dimension of an
    argument is read from there; any other is a scalar argument. Raises IRError for an argument that te cannot take.
    """
    inputs = _Inputs()
    te_args = [inputs.convert(arg) for arg in args]
    te_kwargs = {key: inputs.convert(value) for key, value in kwargs.items()}
    result = func(*te_args, **te_kwargs)
    several = isinstance(result, tuple | list)
    outs = [_own_output(out, name) for out in (result if several else [result])]
    bound = {size for tensor in inputs.tensors for size in tensor.shape if isinstance(size, n.Var)}
    scalars = [var for var in inputs.variables.values() if var not in bound]
    made = create_prim_func([*inputs.tensors, *outs, *scalars], name).without_attr("global_symbol")
    outer: dict[n.Var, PrimExpr] = {own: var for var, own in inputs.variables.items()}
    return TeKernel(
        made.with_attrs(attrs) if attrs else made,
        tuple(inputs.exprs),
        tuple([_output_info(out, outer) for out in outs]),
        several,
        tuple([outer[var] for var in scalars]),
    )


def tensors_of(args: Sequence[RelaxExpr]) -> tuple[RelaxExpr, ...]:
    """The tensors among `args`, tuples taken apart: what a kernel made with them is called with."""
    found: list[RelaxExpr] = []
    for arg in args:
        if isinstance(arg, r.Tuple):
            found += tensors_of(arg.fields)
            continue
        match r.info_of(arg):
            case r.TensorStructInfo():
                found.append(arg)
            case r.TupleStructInfo() as info:
                found += tensors_of([r.TupleGetItem(arg, index) for index in range(len(info.fields))])
    return tuple(found)


def kernel_key(args: Sequence[RelaxExpr], attrs: Mapping[str, Any]) -> Hashable | None:
    """Return what a kernel made with `args` and `attrs` depends on: shapes, element types, scalars.

    Equal keys make equal kernels. None if no key can be told.
    """
    try:
        key = (tuple(map(_key, args)), tuple([(name, _key(value)) for name, value in attrs.items()]))
        hash(key)
    except TypeError:
        return None
    return key


def _key(value: Any) -> Hashable:
    """The key of one value; raises TypeError where there is none."""
    match value:
        case n.IntImm() | n.FloatImm():
            return value.dtype, repr(value.value)  # -0.0 is not 0.0
        case n.Var():
            return value
        case n.BinaryOp():
            return type(value), _key(value.a), _key(value.b)
        case n.Cast():
            return value.dtype, _key(value.value)
        case PrimExpr():
            raise TypeError("an expression of another kind")
        case r.PrimValue() | r.StringImm() | r.DataTypeImm():
            return type(value), _key(value.value)
        case r.ShapeExpr():
            return r.ShapeExpr, tuple(map(_key, value.values))
        case r.Tuple():
            return r.Tuple, tuple(map(_key, value.fields))
        case RelaxExpr():
            return _info_key(r.info_of(value))
        case list() | tuple():
            return type(value), tuple(map(_key, value))
        case int() | float():
            return type(value), repr(value)
        case str() | None:
            return value
    raise TypeError(f"a {type(value).__name__}")


def _info_key(info: r.StructInfo | None) -> Hashable:
    match info:
        case r.TensorStructInfo(dims=tuple() as dims):
            return info.dtype, tuple(map(_key, dims))
        case r.ShapeStructInfo(values=tuple() as values):
            return r.ShapeExpr, tuple(map(_key, values))
        case r.PrimStructInfo(value=PrimExpr() as scalar):
            return r.PrimValue, _key(scalar)
        case r.TupleStructInfo():
            return r.Tuple, tuple(map(_info_key, info.fields))
    raise TypeError("a value that is not known")


class _Inputs:
    """The tensors and variables of a kernel, and the graph's values that they stand for."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.exprs: list[RelaxExpr] = []
        self.variables: dict[n.Var, n.Var] = {}

    def convert(self, value: Any) -> Any:
        """An argument as te takes it."""
        match value:
            case r.PrimValue():
                return self.scalar(value.value)
            case r.ShapeExpr():
                return [self.scalar(size) for size in value.values]
            case r.StringImm() | r.DataTypeImm():
                return value.value
            case r.Tuple():
                return [self.convert(item) for item in value.fields]
            case RelaxExpr():
                return self._expr(value)
            case PrimExpr():
                return self.scalar(value)
            case list():
                return [self.convert(item) for item in value]
            case tuple():
                return tuple([self.convert(item) for item in value])
            case dict():
                return {key: self.convert(item) for key, item in value.items()}
        return value

    def _expr(self, value: RelaxExpr) -> Any:
        match r.info_of(value):
            case r.TensorStructInfo() as info:
                return self._tensor(value, info)
            case r.ShapeStructInfo(values=tuple() as values):
                return [self.scalar(size) for size in values]
            case r.PrimStructInfo(value=PrimExpr() as scalar):
                return self.scalar(scalar)
            case r.TupleStructInfo() as info:
                return [self._expr(r.TupleGetItem(value, index)) for index in range(len(info.fields))]
            case None:
                raise IRError(f"nothing is known yet of {r.describe(value)}", hint="emit it before")
            case other:
                raise IRError(f"te cannot take {r.describe(value)}, which is {other}")

    def _tensor(self, value: RelaxExpr, info: r.TensorStructInfo) -> Tensor:
        if info.dims is None:
            raise IRError(
                f"te cannot take {r.describe(value)}, whose shape is not known: {info}",
                hint="give its dimensions names with match_cast",
            )
        if not info.dtype:
            raise IRError(f"te cannot take {r.describe(value)}, whose element type is not known: {info}")
        name = _letter(len(self.tensors))
        made: Tensor = placeholder([self.scalar(size) for size in info.dims], info.dtype, name)
        self.tensors.append(made)
        self.exprs.append(value)
        return made

    def scalar(self, value: PrimExpr) -> Any:
        """A scalar of the graph in the kernel's variables; constant dimensions are plain ints."""
        if isinstance(value, n.IntImm):
            return value.value if value.dtype == "int64" else value
        found = variables(value)
        for var in found:
            if var not in self.variables:
                self.variables[var] = type(var)(var.name, var.dtype)
        return substitute(value, {var: self.variables[var] for var in found})


def _own_output(out: Any, name: str) -> Tensor:
    """A result that the kernel computes. A result that is an argument itself is copied."""
    if not isinstance(out, Tensor):
        raise IRError(f"the te function {name} must return tensors, got {out!r} ({type(out).__name__})")
    if isinstance(out.op, PlaceholderOp):
        copied: Tensor = compute(out.shape, lambda *i: out(*i), name="T_identity", tag="elemwise")
        return copied
    return out


def _output_info(out: Tensor, outer: Mapping[n.Var, PrimExpr]) -> r.TensorStructInfo:
    dims = [_outer_dim(size, outer) for size in out.shape]
    return r.TensorStructInfo(r.ShapeExpr(tuple(dims)), out.dtype)


def _outer_dim(size: PrimExpr, outer: Mapping[n.Var, PrimExpr]) -> PrimExpr:
    if isinstance(size, n.IntImm):
        return int64(size.value)
    found = simplified(substitute(size, outer))
    return found if found.dtype == "int64" else n.Cast("int64", found)


def _letter(position: int) -> str:
    return chr(ord("A") + position) if position < 26 else f"A{position}"
