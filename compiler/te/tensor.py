"""Tensors and the operations that make them.

A `Tensor` is the value of an `Operation`; indexing it gives an expression. Operations form a DAG through
the tensors their bodies read. All of it is immutable and compared by identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from compiler.dtype import parse_dtype
from compiler.errors import IRError
from compiler.ir.base import Node, Span
from compiler.ir.visit import walk
from compiler.te.tensor_ops import TensorOps
from compiler.te.where import caller_span, here
from compiler.tir import ops
from compiler.tir.nodes import IntImm, IterVar, PrimExpr, ProducerLoad, Reduce
from compiler.tir.nodes.operators import ExprOps

_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tensor(TensorOps, Node):
    """Output `value_index` of `op`: a value for every point of `shape`, of element type `dtype`.

    `A[i, j]` and `A(i, j)` are the element at (i, j); `A[i]` of a matrix waits for the second index.
    `A + B`, `A * 2` and so on are new tensors, elementwise with broadcasting.
    """

    op: Operation
    value_index: int
    shape: tuple[PrimExpr, ...]
    dtype: str

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def name(self) -> str:
        """The operation's name; an operation with several outputs numbers them `.v0`, `.v1`, ..."""
        return self.op.name if self.op.num_outputs == 1 else f"{self.op.name}.v{self.value_index}"

    def __call__(self, *indices: Any) -> ProducerLoad:
        """The element at `indices`, one index a dimension. Raises IRError on another rank or index type."""
        if len(indices) != self.ndim:
            raise IRError(
                f"tensor {self.name!r} has {self.ndim} dimensions, indexed with {len(indices)}" + here(),
                hint=f"its shape is {shape_text(self.shape)}",
            )
        return ProducerLoad(self, tuple(self._index(i, axis) for axis, i in enumerate(indices)))

    def __getitem__(self, indices: Any) -> ProducerLoad | TensorSlice:
        items = indices if isinstance(indices, tuple) else (indices,)
        is_region = len(items) <= self.ndim and any(isinstance(item, slice) for item in items)
        return TensorSlice(self, items) if len(items) < self.ndim or is_region else self(*items)

    def _index(self, index: Any, axis: int) -> PrimExpr:
        try:
            expr = ops.as_expr(index)
            if parse_dtype(expr.dtype).is_int:
                return expr
            found = expr.dtype
        except IRError:
            found = type(index).__name__
        raise IRError(f"index {axis} of tensor {self.name!r} must be an integer, got {found}" + here())

    def __iter__(self) -> NoReturn:
        raise TypeError(f"tensor {self.name!r} is symbolic and cannot be iterated over")

    def asexpr(self) -> PrimExpr:
        """Return the one element of a tensor without dimensions. Any other tensor must be indexed."""
        if self.ndim:
            raise IRError(
                f"tensor {self.name!r} of shape {shape_text(self.shape)} is used as a number" + here(),
                hint=f"index it: {self.name}[{', '.join('ijklmnpq'[: self.ndim])}]",
            )
        return self()

    def __repr__(self) -> str:
        return f"Tensor({self.name}, shape={shape_text(self.shape)}, dtype={self.dtype})"


@dataclass(frozen=True, slots=True, eq=False)
class TensorSlice(ExprOps):
    """A tensor with its first indices given: `A[i]` of a matrix, to be completed as `A[i][j]`.

    It is also a region of a tensor, for a tensor intrinsic: `A[i, 0:4]`.
    """

    tensor: Tensor
    indices: tuple[Any, ...]

    @property
    def dtype(self) -> str:
        return self.tensor.dtype

    def __getitem__(self, indices: Any) -> ProducerLoad | TensorSlice:
        items = indices if isinstance(indices, tuple) else (indices,)
        return self.tensor[(*self.indices, *items)]

    def asexpr(self) -> PrimExpr:
        return self.tensor(*self.indices)


# -------------------------------------------------------------------------------- operations


@dataclass(frozen=True, eq=False, repr=False)
class Operation(Node):
    """Base of what makes tensors. `name` labels its stage and block; `span` is the user's line."""

    name: str
    tag: str = ""
    attrs: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = None

    @property
    def num_outputs(self) -> int:
        return len(self._outputs)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors read, each once, in the order of reading."""
        return ()

    @property
    def axis(self) -> tuple[IterVar, ...]:
        return ()

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        return ()

    def output(self, index: int = 0) -> Tensor:
        return self._outputs[index]

    _outputs: tuple[Tensor, ...] = field(init=False, default=())

    def _set_outputs(self, shape: tuple[PrimExpr, ...], dtypes: Sequence[str]) -> None:
        outputs = tuple(Tensor(self, index, shape, dtype) for index, dtype in enumerate(dtypes))
        object.__setattr__(self, "_outputs", outputs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


@dataclass(frozen=True, eq=False, repr=False)
class PlaceholderOp(Operation):
    """An input of the computation."""

    shape: tuple[PrimExpr, ...] = ()
    dtype: str = "float32"

    def __post_init__(self) -> None:
        self._set_outputs(self.shape, [self.dtype])


@dataclass(frozen=True, eq=False, repr=False)
class ComputeOp(Operation):
    """One value for every point of `axes`: `body[v]` is output v, each over the same axes.

    A reduction has a `Reduce` at the top of every body, all with the same axes, combiner and sources.
    """

    axes: tuple[IterVar, ...] = ()
    body: tuple[PrimExpr, ...] = ()
    _inputs: tuple[Tensor, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        extents = tuple(axis.dom.extent for axis in self.axes if axis.dom is not None)
        self._set_outputs(extents, [expr.dtype for expr in self.body])
        object.__setattr__(self, "_inputs", tensors_read(self.body))

    @property
    def axis(self) -> tuple[IterVar, ...]:
        return self.axes

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        first = self.body[0]
        return first.axis if isinstance(first, Reduce) else ()

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return self._inputs

    @property
    def reduction(self) -> Reduce | None:
        """The reduction at the top of the body, or None."""
        first = self.body[0]
        return first if isinstance(first, Reduce) else None


def tensors_read(exprs: Sequence[PrimExpr]) -> tuple[Tensor, ...]:
    """The tensors that `exprs` load, each once, in order."""
    found: dict[Tensor, None] = {}
    for expr in exprs:
        for node in walk(expr):
            if isinstance(node, ProducerLoad):
                found[node.producer] = None
    return tuple(found)


def topological(outputs: Sequence[Tensor]) -> list[Operation]:
    """Every operation that `outputs` need, producers before consumers."""
    done: dict[Operation, None] = {}
    stack: list[tuple[Operation, bool]] = [(t.op, False) for t in reversed(outputs)]
    while stack:
        op, expanded = stack.pop()
        if op in done:
            continue
        if expanded:
            done[op] = None
            continue
        stack.append((op, True))
        stack.extend((t.op, False) for t in reversed(op.input_tensors))
    return list(done)


def between(outputs: Sequence[Operation], inputs: Sequence[Operation], include_inputs: bool) -> list[Operation]:
    """Return the operations on a path from one of `inputs` to one of `outputs`.
    Producers come before consumers. The inputs themselves are among them only when `include_inputs`."""
    after: set[Operation] = set(inputs)
    found: list[Operation] = []
    for op in topological([op.output(0) for op in outputs]):
        if op in inputs:
            if include_inputs:
                found.append(op)
        elif any(tensor.op in after for tensor in op.input_tensors):
            after.add(op)
            found.append(op)
    return found


# ------------------------------------------------------------------------------------ shapes


def shape_text(shape: Sequence[PrimExpr]) -> str:
    dims = [str(d.value) if isinstance(d, IntImm) else getattr(d, "name", repr(d)) for d in shape]
    return f"({', '.join(dims)}{',' if len(dims) == 1 else ''})"


def as_shape(shape: Any, what: str) -> tuple[PrimExpr, ...]:
    """`shape` (an int, an expression, or a sequence of them) as expressions of integer type.

    `what` names the tensor in the IRError that a negative or non-integer dimension raises.
    """
    dims = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    return tuple(_dim(d, what) for d in dims)


def _dim(value: Any, what: str) -> PrimExpr:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # (n / tile) of an exact division
    if isinstance(value, bool | float | str):
        raise IRError(f"{what} has a dimension {value!r}, not an integer" + here())
    if isinstance(value, int):
        if value < 0:
            raise IRError(f"{what} has a negative dimension {value}" + here())
        return IntImm("int32" if value <= _INT32_MAX else "int64", value)
    expr = ops.as_expr(value)
    if not parse_dtype(expr.dtype).is_int:
        raise IRError(f"{what} has a dimension of dtype {expr.dtype}, not an integer" + here())
    return expr


def check_dtype(dtype: str, what: str) -> str:
    """`dtype` when it names a type; else IRError that names `what` and the user's line."""
    try:
        parse_dtype(dtype)
    except (IRError, TypeError) as error:
        hint = error.hint if isinstance(error, IRError) else None
        raise IRError(f"{what}: unknown dtype {dtype!r}" + here(), hint=hint) from None
    return dtype


def placeholder(shape: Any, dtype: str | None = None, name: str = "placeholder") -> Tensor:
    """An input tensor; `dtype` is float32 unless given. Raises IRError on a bad shape or dtype."""
    what = f"placeholder {name!r}"
    op = PlaceholderOp(
        name,
        span=caller_span(),
        shape=as_shape(shape, what),
        dtype=check_dtype(dtype if dtype is not None else "float32", what),
    )
    return op.output(0)
