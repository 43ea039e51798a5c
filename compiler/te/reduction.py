"""Reductions over axes: sum, min, max, prod and reducers of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

from compiler.errors import IRError
from compiler.ir.base import Span
from compiler.te.tensor import as_shape
from compiler.te.where import at, caller_span, here
from compiler.tir import ops
from compiler.tir.nodes import CommReducer, IterType, IterVar, PrimExpr, Range, Reduce, Var

Combine = Callable[..., Any]
Identity = Callable[..., Any]


def reduce_axis(dom: Any, name: str = "rv", thread_tag: str = "", span: Span | None = None) -> IterVar:
    """An axis to reduce over. `dom` is (min, extent), or a `Range`.

    Raises IRError when `dom` is neither or its extent is negative.
    """
    span = span if span is not None else caller_span()
    if isinstance(dom, Range):
        bounds = dom
    else:
        if not isinstance(dom, tuple | list) or len(dom) != 2:
            raise IRError(
                f"reduce_axis {name!r} needs a domain (min, extent), got {dom!r}" + at(span),
                hint="for example te.reduce_axis((0, n), name='k')",
            )
        (extent,) = as_shape(dom[1], f"reduce_axis {name!r}")
        bounds = Range(ops.cast(extent.dtype, dom[0]), extent)
    return IterVar(bounds, Var(name, bounds.extent.dtype), IterType.COMM_REDUCE, thread_tag, span)


def comm_reducer(fcombine: Combine, fidentity: Identity, name: str = "reduce") -> Reducer:
    """A reducer of the user's own.

    `fcombine(x, y)` combines two values and `fidentity(dtype)` is its unit; it must be associative and
    commutative. To reduce several values together (argmax), `fcombine` takes and returns tuples and
    `fidentity(dtype0, dtype1, ...)` returns one.
    """
    return Reducer(fcombine, fidentity, name)


def _documented(expr: Any, axis: Any, where: Any = None, init: Any = None, *args: Any) -> Any: ...


class Reducer:
    """The result of `comm_reducer`. It is called with an expression (or a tuple of them) and the axes."""

    def __init__(self, fcombine: Combine, fidentity: Identity, name: str) -> None:
        self._combine = fcombine
        self._identity = fidentity
        self.__name__ = name
        self.__signature__ = _SIGNATURE

    def __call__(self, expr: Any, *values: Any, axis: Any = None, where: Any = None, init: Any = None) -> Any:
        """Reduce `expr` over `axis` (one `reduce_axis` or several).
        It is done only where `where` holds, starting from `init` instead of the unit. The three may be given in this
        order without their names. Plain values in place of axes are combined.

        Returns one expression, or a tuple of them when `expr` is a tuple. Raises IRError.
        """
        if axis is None and values and isinstance(values[0], IterVar | list | tuple):
            axis, *rest = values
            if len(rest) > 2:
                raise IRError(f"{self.__name__} over axes takes one expression" + here())
            where, init = (*rest, *(where, init)[len(rest) :])
            values = ()
        if axis is not None:
            if values:
                raise IRError(f"{self.__name__} over axes takes one expression" + here())
            return self._reduce(expr, axis, where, init)
        if not values:
            raise IRError(
                f"{self.__name__} is given nothing to reduce over" + here(),
                hint=f"te.{self.__name__}(expr, axis=k) with k = te.reduce_axis((0, n)), or several values to combine",
            )
        result = ops.as_expr(expr)
        for value in values:
            result = self._combine(result, ops.as_expr(value))
        return result

    def _reduce(self, expr: Any, axis: Any, where: Any, init: Any) -> Any:
        axes = tuple(axis) if isinstance(axis, list | tuple) else (axis,)
        self._check_axes(axes)
        several = isinstance(expr, tuple | list)
        source = tuple(ops.as_expr(e) for e in (expr if several else (expr,)))
        starts = () if init is None else self._starts(init, source)
        condition = ops.const(True) if where is None else ops.as_expr(where)
        if condition.dtype != "bool":
            raise IRError(f"{self.__name__}: where is {condition.dtype}, not a condition" + here())
        combiner = self.combiner([e.dtype for e in source])
        reduces = tuple(
            Reduce(combiner, source, axes, condition, index, starts, caller_span()) for index in range(len(source))
        )
        return reduces if several else reduces[0]

    def _check_axes(self, axes: tuple[Any, ...]) -> None:
        for item in axes:
            if not isinstance(item, IterVar) or item.iter_type is not IterType.COMM_REDUCE:
                raise IRError(f"{self.__name__} reduces over te.reduce_axis axes, got {item!r}" + here())
        for number, item in enumerate(axes):
            if any(item is other for other in axes[:number]):
                raise IRError(f"{self.__name__} is given axis {item.var.name!r} twice" + here())

    def _starts(self, init: Any, source: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        values: Sequence[Any] = init if isinstance(init, tuple | list) else (init,)
        if len(values) != len(source):
            raise IRError(
                f"{self.__name__} of {len(source)} values got {len(values)} initial values" + here()
            )
        return tuple(ops.cast(e.dtype, v) for e, v in zip(source, values))

    def combiner(self, dtypes: Sequence[str]) -> CommReducer:
        """The combiner for values of these dtypes."""
        several = len(dtypes) > 1
        suffixes = [f"_{i}" for i in range(len(dtypes))] if several else [""]
        lhs = tuple(Var(f"x{s}", d) for s, d in zip(suffixes, dtypes))
        rhs = tuple(Var(f"y{s}", d) for s, d in zip(suffixes, dtypes))
        try:
            combined = self._combine(lhs, rhs) if several else (self._combine(lhs[0], rhs[0]),)
            units = self._identity(*dtypes) if several else (self._identity(dtypes[0]),)
            counts = len(combined), len(units)
        except IRError:
            raise
        except (TypeError, IndexError) as error:
            raise IRError(
                f"reducer {self.__name__} cannot reduce {len(dtypes)} values together: {error}" + here(),
                hint="a reducer of several values takes and returns tuples, and its identity one dtype a value",
            ) from error
        if counts != (len(dtypes), len(dtypes)):
            raise IRError(
                f"reducer {self.__name__} of {len(dtypes)} values returns {counts[0]} values and {counts[1]} units"
                + here()
            )
        return CommReducer(
            lhs,
            rhs,
            tuple(ops.cast(d, e) for d, e in zip(dtypes, combined)),
            tuple(ops.cast(d, e) for d, e in zip(dtypes, units)),
        )


_SIGNATURE = signature(_documented)
"""How a reduction is called. `__call__` tells axes given by name from values to combine, which this cannot say."""
sum = comm_reducer(lambda x, y: x + y, lambda dtype: ops.const(0, dtype), "sum")
prod = comm_reducer(lambda x, y: x * y, lambda dtype: ops.const(1, dtype), "prod")
max = comm_reducer(ops.maximum, ops.min_value, "max")
min = comm_reducer(ops.minimum, ops.max_value, "min")
