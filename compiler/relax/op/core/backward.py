"""One call, and the gradient of its result: the input of a rule for the gradients of its arguments.

    def multiply(use: Backward) -> Gradients:
        return use.fitted(use.multiply(use.grad, use.arg(1)), 0), use.fitted(use.multiply(use.grad, use.arg(0)), 1)

A rule emits calls of operators. It makes them by name (`use.multiply(a, b)`, `use.op("nn.softmax", x)`), and they are
found in the table. So rules stand beside any declaration without importing others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from compiler.dtype import parse_dtype
from compiler.errors import IRError
from compiler.ir.base import RelaxExpr
from compiler.relax.nodes import Call, ShapeExpr, TensorStructInfo, Tuple, TupleGetItem, TupleStructInfo, info_of
from compiler.relax.nodes.dims import int64, proven_equal
from compiler.te.where import at
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

Gradients = Sequence[RelaxExpr | None]
"""The gradient of each argument; None for one that has none: whole numbers, shapes, scalars."""


class Backward:
    """A call whose StructInfo is known, its result, and the gradient of the result."""

    def __init__(self, result: RelaxExpr, call: Call, grad: Any, builder: Any, operators: Mapping[str, Any]) -> None:
        """`grad` is an expression; for several results a tuple, or a variable that holds one."""
        self.result = result
        self.call = call
        self.builder = builder
        self._operators = operators
        self._grad = grad

    # ------------------------------------------------------------------------ the call

    @property
    def grad(self) -> Any:
        """The gradient of the only result."""
        return self._grad

    @property
    def grads(self) -> list[Any]:
        """The gradients of several results."""
        if isinstance(self._grad, Tuple):
            return list(self._grad.fields)
        info = info_of(self.call)
        count = len(info.fields) if isinstance(info, TupleStructInfo) else 1
        return [self.builder.emit(TupleGetItem(self._grad, index)) for index in range(count)]

    @property
    def attrs(self) -> Mapping[str, Any]:
        return self.call.attrs

    def arg(self, position: int) -> Any:
        """An argument of the call."""
        return self.call.args[position]

    def field(self, index: int) -> Any:
        """Result number `index` of a call that has several."""
        return self.builder.emit(TupleGetItem(self.result, index))

    def fields(self, position: int) -> list[Any]:
        """The tensors of an argument that is a tuple."""
        given = self.call.args[position]
        if isinstance(given, Tuple):
            return list(given.fields)
        info = info_of(given)
        assert isinstance(info, TupleStructInfo)
        return [self.builder.emit(TupleGetItem(given, index)) for index in range(len(info.fields))]

    # -------------------------------------------------------------------------- calls

    def op(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """The value of a call of the operator `relax.<name>`."""
        return self.builder.emit(self._operators[f"relax.{name}"].call(args, kwargs, self.call.span))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if f"relax.{name}" not in self._operators:
            raise AttributeError(name)
        return lambda *args, **kwargs: self.op(name, *args, **kwargs)

    def te(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The value of a kernel that a te function makes, for what no operator computes."""
        return self.builder.emit_te(function, *args, **kwargs)

    # ------------------------------------------------------------------------- shapes

    def info(self, value: RelaxExpr) -> TensorStructInfo:
        """Return what is known of a tensor."""
        found = info_of(value)
        if not isinstance(found, TensorStructInfo):
            self.fail(f"a tensor is needed, got {found}")
        return found

    def rank(self, value: RelaxExpr) -> int:
        """How many dimensions a tensor has. Fails where that is not known."""
        found = self.info(value).ndim
        if found == -1:
            self.fail("the number of dimensions must be known")
        return found

    def dims(self, value: RelaxExpr) -> tuple[PrimExpr, ...]:
        """The dimensions of a tensor. Fails where they are not known."""
        found = self.info(value).dims
        if found is None:
            self.fail("the shape must be known", hint="give its dimensions names with match_cast")
        return found

    def sizes(self, value: RelaxExpr) -> list[int]:
        """The dimensions of a tensor as numbers. Fails for symbolic ones."""
        known = [ops.as_int(size) for size in self.dims(value)]
        found = [size for size in known if size is not None]
        if len(found) != len(known):
            self.fail("the shape must be constant")
        return found

    def axes(self, axis: int | Sequence[int] | None, value: RelaxExpr) -> tuple[int, ...]:
        """`axis` counted from the front; all dimensions for None."""
        rank = self.rank(value)
        given = range(rank) if axis is None else (axis,) if isinstance(axis, int) else axis
        return tuple([a % rank for a in given])

    def is_float(self, position: int) -> bool:
        """Whether an argument is a tensor of floating point elements: one that has a gradient."""
        found = info_of(self.call.args[position])
        return isinstance(found, TensorStructInfo) and bool(found.dtype) and parse_dtype(found.dtype).is_float

    def reshaped(self, value: RelaxExpr, like: RelaxExpr) -> Any:
        """`value` in the shape of another tensor."""
        return self.op("reshape", value, self._shape(like))

    def spread(self, value: RelaxExpr, like: RelaxExpr) -> Any:
        """Broadcast `value` to the shape of another tensor."""
        return self.op("broadcast_to", value, self._shape(like))

    def _shape(self, like: RelaxExpr) -> RelaxExpr:
        info = self.info(like)
        if info.dims is not None:
            return ShapeExpr(info.dims)
        return info.shape if info.shape is not None else self.op("shape_of", like)

    def kept(self, value: RelaxExpr, axes: Sequence[int], like: RelaxExpr) -> Any:
        """Return the result of a reduction of `like` along `axes` with those dimensions restored as size 1."""
        return self.op("expand_dims", value, sorted(axes)) if axes and self.rank(value) < self.rank(like) else value

    def fitted(self, grad: RelaxExpr, position: int) -> Any:
        """Sum a gradient over the dimensions in which its argument was broadcast."""
        return self.fitted_to(grad, self.call.args[position])

    def fitted_to(self, grad: RelaxExpr, target: RelaxExpr) -> Any:
        """Sum a gradient over the dimensions in which a tensor was broadcast."""
        own, wanted = self.info(grad), self.info(target)
        if own.dims is None or wanted.dims is None:
            return self.op("collapse_sum_like", grad, target)
        if len(own.dims) == len(wanted.dims) and all(proven_equal(a, b) for a, b in zip(own.dims, wanted.dims)):
            return grad
        return self.op("collapse_sum_to", grad, ShapeExpr(wanted.dims))

    def chosen(self, condition: RelaxExpr, value: RelaxExpr) -> Any:
        """`value` where the condition holds, else 0."""
        return self.op("where", condition, value, self.op("zeros_like", value))

    def part(self, value: RelaxExpr, axis: int, begin: Any, end: Any) -> Any:
        """The elements from `begin` to before `end` along `axis`."""
        bounds = [[int64(x) if isinstance(x, int) else x] for x in (begin, end)]
        return self.op("strided_slice", value, [axis], *bounds, None, True)

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        """Raise IRError for this call, with the user's line."""
        name = getattr(self.call.op, "name", "a call")
        raise IRError(f"the gradient of {name}: {message}{at(self.call.span)}", hint=hint)
