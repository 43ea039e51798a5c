"""The parameters of a function of machine code.

Arrays, numbers, and the dimensions that follow from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compiler.arith.analyzer import Analyzer
from compiler.errors import CodegenError
from compiler.lower.blocks.shape_vars import ShapeVar, extent_text, names_for, shape_vars
from compiler.relax import nodes as r
from compiler.relax.nodes.dims import dim as as_dim
from compiler.relax.nodes.dims import variables
from compiler.relax.vm_codegen.native.values import NativeStorage, NativeTensor, NotNative, ShapeValue, Value, bytes_of
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr
from compiler.tir.visit import substitute


@dataclass(frozen=True, slots=True)
class FunctionHeader:
    """The parameters of a function. `buffers` says which variables are arrays.

    `implicit` are dimensions that follow the parameters in a call.
    """

    params: tuple[n.Var, ...]
    buffers: dict[n.Var, n.Buffer]
    implicit: tuple[ShapeVar, ...]


def header_of(func: n.PrimFunc) -> FunctionHeader:
    """Return the header of a kernel."""
    return FunctionHeader(func.params, dict(func.buffer_map), shape_vars(func))


class GraphHeader:
    """A graph function's parameters, flattened, and the values that its variables begin with."""

    def __init__(self, name: str, func: r.Function) -> None:
        self.name = name
        self.params: list[n.Var] = []
        self.buffers: dict[n.Var, n.Buffer] = {}
        self.names: list[str] = []
        self._numbers: set[n.Var] = set()
        self.values = [self._value(param.name_hint, param.struct_info) for param in func.params]
        try:
            empty = n.PrimFunc(tuple(self.params), n.Evaluate(ops.const(0)), None, self.buffers)
            self.header = FunctionHeader(empty.params, self.buffers, shape_vars(empty))
            scalars = [param for param in self.params if param not in self.buffers]
            self.symbols = names_for([*scalars, *(bound.var for bound in self.header.implicit)])
            for buffer in self.buffers.values():
                for extent in buffer.shape:
                    extent_text(extent, {})
        except CodegenError as error:
            raise NotNative(error.message) from None

    def tells(self, info: r.TensorStructInfo) -> bool:
        """Whether the parameters determine the shape of an array."""
        if info.dims is None:
            return False
        bound = {found.var for found in self.header.implicit} | set(self.params)
        return all(var in bound for extent in info.dims for var in variables(extent))

    def buffer(self, name: str, dims: Sequence[PrimExpr], dtype: str) -> n.Var:
        """Add an array; returns the variable that holds its address."""
        taken = [*self.names]
        unique = next(text for text in (name, *(f"{name}_{i}" for i in range(len(taken) + 1))) if text not in taken)
        self.names.append(unique)
        handle, data = n.Var(f"{unique}_handle", "handle"), n.Var(unique, "handle")
        self.buffers[handle] = n.Buffer(unique, data, tuple(dims), dtype)
        self.params.append(handle)
        return data

    def _value(self, name: str, info: r.StructInfo) -> Value:
        match info:
            case r.TensorStructInfo():
                if not info.dtype or info.ndim < 0:
                    raise NotNative(f"the element type or number of dimensions of the argument {name!r} is not known")
                dims = info.dims
                if dims is None:
                    dims = tuple([n.Var(f"{name}_{axis}", "int64") for axis in range(info.ndim)])
                data = self.buffer(name, dims, info.dtype)
                return NativeTensor(NativeStorage(bytes_of(dims, info.dtype), data), dims, info.dtype)
            case r.TupleStructInfo():
                return tuple([self._value(f"{name}_{index}", item) for index, item in enumerate(info.fields)])
            case r.ShapeStructInfo():
                count = info.ndim if info.values is None else len(info.values)
                if count < 0:
                    raise NotNative(f"how many extents the shape {name!r} has is not known")
                values = info.values or (None,) * count
                return ShapeValue(tuple([self._number(f"{name}_{i}", v, "int64") for i, v in enumerate(values)]))
            case r.PrimStructInfo():
                return self._number(name, info.value, info.dtype)
        raise NotNative(f"the argument {name!r} is neither an array, a tuple, a shape nor a number")

    def _number(self, name: str, value: PrimExpr | None, dtype: str) -> PrimExpr:
        if value is not None and not isinstance(value, n.Var):
            raise NotNative(f"the argument {name!r} is a number that is known, {value!r}")
        own = isinstance(value, n.Var) and value not in self._numbers
        var = value if own and isinstance(value, n.Var) else n.Var(name, dtype)
        if value is not None and not own:
            raise NotNative(f"the argument {name!r} is the same number as one before it")
        self._numbers.add(var)
        self.params.append(var)
        self.names.append(var.name)
        return var


def fitted(
    header: FunctionHeader, args: Sequence[NativeTensor | PrimExpr], check: Callable[[PrimExpr, int], None]
) -> tuple[PrimExpr, ...]:
    """The dimensions to pass after these arguments.
    `check` gets what cannot be proven about shapes, with the argument's position. Raises NotNative where an argument
    does not fit."""
    found: dict[n.Var, PrimExpr] = {}
    todo: list[tuple[PrimExpr, PrimExpr, int]] = []
    if len(args) != len(header.params):
        raise NotNative(f"{len(args)} arguments are given, and {len(header.params)} taken")
    for position, (param, arg) in enumerate(zip(header.params, args)):
        buffer = header.buffers.get(param)
        if buffer is None:
            if isinstance(arg, NativeTensor):
                raise NotNative(f"argument {position} is an array in the place of a number")
            found[param] = ops.cast(param.dtype, arg)
            continue
        if not isinstance(arg, NativeTensor):
            raise NotNative(f"argument {position} is no array")
        if buffer.dtype != arg.dtype or len(buffer.shape) != len(arg.dims):
            raise NotNative(f"argument {position} is {arg.dtype} of {len(arg.dims)} dimensions, and does not fit")
        for extent, given in zip(buffer.shape, arg.dims):
            if isinstance(extent, n.Var) and extent not in found and extent not in header.params:
                found[extent] = ops.cast(extent.dtype, given)
            else:
                todo.append((extent, given, position))
    analyzer: Analyzer | None = None
    for extent, given, position in todo:
        wanted = as_dim(ops.cast("int64", substitute(extent, found)))
        if wanted is given:
            continue
        if isinstance(wanted, n.IntImm) and isinstance(given, n.IntImm):
            if wanted.value != given.value:
                raise NotNative(f"argument {position} has an extent of {given.value} in the place of {wanted.value}")
            continue
        analyzer = analyzer or Analyzer()
        if not analyzer.can_prove_equal(wanted, given):
            check(ops.equal(wanted, given), position)
    return tuple([ops.cast(bound.var.dtype, substitute(bound.value, found)) for bound in header.implicit])
