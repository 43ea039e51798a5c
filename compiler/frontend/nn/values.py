"""Values in methods of modules: tensors, parameters and opaque objects, each a name in a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from compiler.errors import ArgumentError, IRError
from compiler.ir.base import RelaxExpr
from compiler.relax import nodes as r
from compiler.relax import op as relax_op
from compiler.relax.block_builder import BlockBuilder
from compiler.runtime.core.dtypes import dtype_name
from compiler.runtime.core.ndarray import NDArray, array, from_dlpack
from compiler.te.operation import compute
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr
from compiler.tir.nodes import Var as Symbol

Dim = int | PrimExpr
Shape = Sequence[Any]

_DEFAULT_DTYPE = "float32"


def get_default_dtype() -> str:
    """The element type of parameters that name none."""
    return _DEFAULT_DTYPE


def set_default_dtype(dtype: str) -> None:
    """Change the element type of parameters that name none."""
    global _DEFAULT_DTYPE
    _DEFAULT_DTYPE = dtype_name(dtype)


def current_builder() -> BlockBuilder:
    """The builder of the function that is being exported. Raises IRError outside of one."""
    found = BlockBuilder.current()
    if found is None:
        raise IRError(
            "an operator is called while no function is built",
            hint="methods of modules run inside export_tvm(spec=...) and jit(spec=...)",
        )
    return found


class Tensor:
    """A tensor in the graph that is built. Operators on it add to the graph."""

    def __init__(self, *, _expr: RelaxExpr) -> None:
        """Wrap an expression whose value is a tensor of known shape."""
        info = r.info_of(_expr)
        if not isinstance(info, r.TensorStructInfo) or info.dims is None:
            raise IRError(f"a tensor of known shape is wanted, not {info}")
        self._expr = _expr
        self._info = info

    @staticmethod
    def from_const(data: Any) -> Tensor:
        """A constant: a number, a numpy array or an `NDArray`."""
        return Tensor(_expr=r.const(data if isinstance(data, NDArray | int | float | bool) else np.asarray(data)))

    @staticmethod
    def from_scalar(data: int | float, dtype: str) -> Tensor:
        """A constant without dimensions."""
        return Tensor(_expr=r.const(data, dtype))

    @staticmethod
    def from_struct_info(struct_info: r.TensorStructInfo, name: str = "tensor") -> Tensor:
        """A free variable of which `struct_info` is known."""
        return Tensor(_expr=r.Var(name, struct_info))

    @staticmethod
    def placeholder(shape: Shape, dtype: str, name: str = "tensor") -> Tensor:
        """A free variable; text in `shape` names a symbolic dimension."""
        from_text = [symbolic(size) if isinstance(size, str) else size for size in shape]
        return Tensor.from_struct_info(r.TensorStructInfo(from_text, dtype), name)  # type: ignore[arg-type]

    @property
    def shape(self) -> list[Dim]:
        """The sizes: ints where they are known, else expressions."""
        found: list[Dim] = []
        for size in self._info.dims or ():
            known = ops.as_int(size)
            found.append(size if known is None else known)
        return found

    @property
    def ndim(self) -> int:
        return self._info.ndim

    @property
    def dtype(self) -> str:
        return self._info.dtype

    def __repr__(self) -> str:
        return f"Tensor({self.shape}, {self.dtype!r})"

    # ------------------------------------------------------------------------------ operators

    def __add__(self, other: Any) -> Tensor:
        return binary(relax_op.add, self, other)

    def __radd__(self, other: Any) -> Tensor:
        return binary(relax_op.add, other, self)

    def __sub__(self, other: Any) -> Tensor:
        return binary(relax_op.subtract, self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return binary(relax_op.subtract, other, self)

    def __mul__(self, other: Any) -> Tensor:
        return binary(relax_op.multiply, self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return binary(relax_op.multiply, other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return binary(relax_op.divide, self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return binary(relax_op.divide, other, self)

    def __neg__(self) -> Tensor:
        return tensor(relax_op.negative(self._expr), "negative")

    def __lt__(self, other: Any) -> Tensor:
        return binary(relax_op.less, self, other)

    def __le__(self, other: Any) -> Tensor:
        return binary(relax_op.less_equal, self, other)

    def __gt__(self, other: Any) -> Tensor:
        return binary(relax_op.greater, self, other)

    def __ge__(self, other: Any) -> Tensor:
        return binary(relax_op.greater_equal, self, other)

    def astype(self, dtype: str) -> Tensor:
        """This tensor with elements of another type."""
        return self if dtype == self.dtype else tensor(relax_op.astype(self._expr, dtype), "astype")

    def maximum(self, other: Any) -> Tensor:
        return binary(relax_op.maximum, self, other)

    def minimum(self, other: Any) -> Tensor:
        return binary(relax_op.minimum, self, other)

    def reshape(self, *shape: Any) -> Tensor:
        """The elements laid out as `shape`; one size may be -1."""
        return tensor(relax_op.reshape(self._expr, _listed(shape)), "reshape")

    def permute_dims(self, *axes: Any) -> Tensor:
        """The dimensions in the order `axes`; reversed without it."""
        given = _listed(axes)
        return tensor(relax_op.permute_dims(self._expr, tuple(given) if given else None), "permute_dims")

    def repeat(self, repeats: int, axis: int | None = None) -> Tensor:
        """Each slice along `axis` `repeats` times in a row."""
        return tensor(relax_op.repeat(self._expr, repeats, axis), "repeat")


def symbolic(name: str) -> PrimExpr:
    """A new symbolic dimension."""
    return Symbol(name, "int64")


def _listed(values: Sequence[Any]) -> list[Any]:
    """Arguments, which may have come as one list."""
    return list(values[0]) if len(values) == 1 and isinstance(values[0], list | tuple) else list(values)


class Parameter(Tensor):
    """A tensor that belongs to a module. `data` is its value, which may be given later."""

    def __init__(self, shape: Shape, dtype: str | None = None) -> None:
        """A parameter without a value. Text in `shape` names a symbolic dimension."""
        sizes = [symbolic(size) if isinstance(size, str) else size for size in shape]
        info = r.TensorStructInfo(sizes, dtype or get_default_dtype())  # type: ignore[arg-type]
        super().__init__(_expr=r.Var("param", info))
        self._data: NDArray | None = None
        self.attrs: dict[str, Any] = {}

    @property
    def data(self) -> NDArray | None:
        """The value, or None."""
        return self._data

    @data.setter
    def data(self, value: Any) -> None:
        """Take a value: an `NDArray`, a numpy array, or whatever speaks DLPack."""
        if value is None:
            self._data = None
            return
        found = _as_array(value)
        if list(found.shape) != [ops.as_int(size) for size in self._info.dims or ()]:
            raise ArgumentError(f"a parameter of shape {self.shape} cannot hold an array of shape {list(found.shape)}")
        if found.dtype != self.dtype:
            raise ArgumentError(f"a parameter of {self.dtype} cannot hold an array of {found.dtype}")
        self._data = found

    def to(self, dtype: str | None = None) -> None:
        """Change the element type. Raises ArgumentError if there is a value already."""
        if dtype is None or dtype == self.dtype:
            return
        if self._data is not None:
            raise ArgumentError("the type of a parameter that has a value cannot be changed")
        self._info = r.TensorStructInfo(self._info.shape, dtype)
        self._expr = r.Var("param", self._info)

    @property
    def variable(self) -> RelaxExpr:
        """The variable for the parameter in the function that is being built."""
        return self._expr

    def stand_for(self, expr: RelaxExpr) -> None:
        """Have `expr` stand for the parameter from here on."""
        self._expr = expr


def _as_array(value: Any) -> NDArray:
    if isinstance(value, NDArray):
        return value
    if isinstance(value, np.ndarray | list | int | float):
        return array(np.asarray(value))
    if hasattr(value, "detach"):
        value = value.detach().contiguous()
    return from_dlpack(value)


def values_of(parameters: Iterable[tuple[str, Parameter]]) -> list[NDArray]:
    """The values of parameters. Raises ArgumentError naming those that have none."""
    found, missing = [], []
    for name, parameter in parameters:
        if parameter.data is None:
            missing.append(name)
        else:
            found.append(parameter.data)
    if missing:
        raise ArgumentError(
            f"{len(missing)} parameters have no value: {', '.join(missing[:5])}", hint="module.load_state_dict(...)"
        )
    return found


class Object:
    """A value that only functions of the runtime understand."""

    def __init__(self, *, _expr: RelaxExpr, _name: str = "object") -> None:
        """Bind `_expr` to the name `_name`; a variable is taken as it is."""
        self._expr = _expr if isinstance(_expr, r.Var) else current_builder().emit(_expr, _name)
        if not isinstance(r.info_of(self._expr), r.ObjectStructInfo):
            raise IRError(f"an object is wanted, not {r.info_of(self._expr)}")


# ---------------------------------------------------------------------------------------- wrapping


def wrap_nested(expr: RelaxExpr, name: str = "lv") -> Any:
    """Bind an expression to a name. Returns a `Tensor`, an `Object`, or a tuple of these."""
    return _wrapped(current_builder().emit(expr, name), name)


def _wrapped(expr: RelaxExpr, name: str) -> Any:
    info: r.StructInfo | None = r.info_of(expr)
    match info:
        case r.TensorStructInfo():
            return Tensor(_expr=expr)
        case r.TupleStructInfo():
            builder = current_builder()
            return tuple([
                _wrapped(builder.emit(r.TupleGetItem(expr, index), name), name) for index in range(len(info.fields))
            ])  # fmt: skip
        case r.ObjectStructInfo():
            return Object(_expr=expr, _name=name)
    raise IRError(f"{info} is neither tensor, tuple nor object")


def tensor(expr: RelaxExpr, name: str) -> Tensor:
    """Bind an expression whose value is a tensor."""
    return Tensor(_expr=current_builder().emit(expr, name))


def operand(value: Any, dtype: str) -> RelaxExpr:
    """A tensor or a number as an expression; numbers are of the type `dtype`."""
    if isinstance(value, Tensor):
        return value._expr
    if isinstance(value, RelaxExpr):
        return value
    if isinstance(value, PrimExpr):
        builder = current_builder()
        made = builder.call_te(
            lambda size: compute((), lambda: size.astype(dtype), name="size"), value, primfunc_name_hint="size"
        )
        return builder.emit(made, "size")
    return r.const(value, dtype)


def binary(make: Any, a: Any, b: Any) -> Tensor:
    """An operator of two operands, of which one at least is a tensor; numbers take its type."""
    known = a if isinstance(a, Tensor) else b
    if not isinstance(known, Tensor):
        raise ArgumentError(f"a tensor is wanted, not {type(a).__name__} and {type(b).__name__}")
    name = getattr(make, "__name__", "lv")
    return tensor(make(operand(a, known.dtype), operand(b, known.dtype)), name)
