"""The builder for converters: it emits operators and kernels, and knows the values so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from compiler.frontend.onnx.element_types import AnyArray, dtype_of, elem_of
from compiler.frontend.onnx.errors import NeedsValueError, OnnxImportError
from compiler.frontend.onnx.values import TensorValue, plain, simple, tidy
from compiler.ir.base import RelaxExpr
from compiler.relax import nodes as r
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.block_scopes import DataflowScope
from compiler.relax.nodes.dims import int64, variables
from compiler.runtime.core.dtypes import storage_dtype
from compiler.te.operation import compute
from compiler.te.tensor import Tensor
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

Dim = int | PrimExpr


class ControlFlowFound(Exception):
    """A node needs control flow, but the graph was begun without it."""


class GraphBuilder:
    """Builds the functions of the graph. One is used for a whole model."""

    def __init__(self) -> None:
        self.bb = BlockBuilder()
        self.has_control_flow = False
        self._dataflow: DataflowScope | None = None
        self._symbols = 0
        self._at_run_time: set[n.Var] = set()

    # -------------------------------------------------------------------------- emitting

    def emit(self, expr: Any, name: str = "") -> r.Var:
        """Bind an expression to a variable."""
        if self._dataflow is not None and self.has_control_flow:
            return self.bb.emit_output(expr, name)
        return self.bb.emit(expr, name)

    def te(self, function: Callable[..., Any], *args: Any, name: str = "", **kwargs: Any) -> r.Var:
        """Bind what the kernel of a te function computes to a variable. Values of the model may be arguments."""
        given = [self._te_argument(arg) for arg in args]
        hint = name or getattr(function, "__name__", "") or "kernel"
        call = self.bb.call_te(function, *given, primfunc_name_hint=hint.strip("_<>"), **kwargs)
        return self.emit(call)

    def _te_argument(self, value: Any) -> Any:
        if isinstance(value, TensorValue):
            return self.expr(value)
        if isinstance(value, list | tuple):
            return type(value)([self._te_argument(item) for item in value])
        return value

    def items(self, value: RelaxExpr) -> list[r.Var]:
        """The fields of a tuple, each bound to a variable."""
        info = r.info_of(value)
        assert isinstance(info, r.TupleStructInfo)
        return [self.emit(r.TupleGetItem(value, index)) for index in range(len(info.fields))]

    @contextmanager
    def dataflow(self) -> Any:
        """A function's body: dataflow blocks, between which control flow may stand."""
        outer, self._dataflow = self._dataflow, self.bb.dataflow()
        self._dataflow.__enter__()
        try:
            yield
        except BaseException as error:
            self._dataflow.__exit__(type(error), error, None)
            raise
        else:
            self._dataflow.__exit__(None, None, None)
        finally:
            self._dataflow = outer

    def begin_control(self) -> None:
        """Note that control flow is made. Raises ControlFlowFound if the graph was begun without it."""
        if not self.has_control_flow:
            raise ControlFlowFound

    def emit_control(self, expr: RelaxExpr) -> r.Var:
        """Bind an expression that may not stand in a dataflow block: a branch, or a call of a function."""
        self.begin_control()
        assert self._dataflow is not None
        self._dataflow.__exit__(None, None, None)
        made = self.bb.emit(expr)
        self._dataflow = self.bb.dataflow()
        self._dataflow.__enter__()
        return made

    # ------------------------------------------------------------------------------ values

    def expr(self, value: TensorValue) -> RelaxExpr:
        """The expression of a value.
        A value that is only known becomes a constant, or a kernel over dimensions."""
        if value.expr is None and value.deferred is not None:
            value.expr = value.deferred.make()
        if value.expr is None:
            assert value.array is not None
            if value.array.dtype == object:
                value.expr = self._computed(value.array, value.dtype)
            else:
                value.expr = r.Constant(np.ascontiguousarray(value.array).reshape(value.array.shape))
        return value.expr

    def _computed(self, array: AnyArray, dtype: str) -> r.Var:
        """A tensor of scalar expressions over dimensions."""
        shape, flat = array.shape, [ops.as_expr(value) for value in array.reshape(-1)]

        def from_dimensions(elements: Sequence[PrimExpr]) -> Tensor:
            def element(*index: PrimExpr) -> Any:
                place: PrimExpr = int64(0)
                for position, size in zip(index, shape):
                    place = place * size + position
                found = ops.as_expr(elements[-1]).astype("int64")
                for number in reversed(range(len(elements) - 1)):
                    here = ops.equal(place, ops.const(number, place.dtype))
                    found = n.Select(here, ops.as_expr(elements[number]).astype("int64"), found)
                return found.astype(dtype)

            made: Tensor = compute(shape, element, name="dimensions")
            return made

        return self.te(from_dimensions, flat, name="dimensions")

    def value(self, expr: RelaxExpr, elem: int | None = None, wants: Iterable[str] = ()) -> TensorValue:
        """Hold an expression as a value; a call is emitted.
        `elem` is its ONNX type, by default that of its dtype."""
        if not isinstance(expr, r.Var | r.Constant):
            expr = self.emit(expr)
        info = r.info_of(expr)
        if not isinstance(info, r.TensorStructInfo):
            raise OnnxImportError(f"a tensor is wanted, not {info}")
        array = expr.array if isinstance(expr, r.Constant) else None
        return TensorValue(info.dtype, elem_of(info.dtype) if elem is None else elem, expr, array, frozenset(wants))

    def known(self, array: Any, elem: int | None = None) -> TensorValue:
        """Return a value whose elements are known during the import."""
        held = np.asarray(array)
        if held.dtype == object:
            held = tidy(held, "int64")
        if held.dtype == object:
            return TensorValue("int64", elem_of("int64"), None, held)
        kind = elem_of(held.dtype.name) if elem is None else elem
        return TensorValue(dtype_of(kind), kind, None, held)

    def full(self, number: float, dtype: str) -> r.Constant:
        """A constant without dimensions."""
        return r.Constant(np.array(number).astype(storage_dtype(dtype)))

    # ---------------------------------------------------------------------- what is known

    def info(self, value: TensorValue | RelaxExpr) -> r.TensorStructInfo:
        """Return what is known of a tensor."""
        expr = self.expr(value) if isinstance(value, TensorValue) else value
        found = r.info_of(expr)
        if not isinstance(found, r.TensorStructInfo):
            raise OnnxImportError(f"a tensor is wanted, not {found}")
        return found

    def shape(self, value: TensorValue | RelaxExpr) -> list[PrimExpr]:
        """The dimensions of a tensor; ones that are not known get names first."""
        if isinstance(value, TensorValue) and value.array is not None:
            return [int64(size) for size in value.array.shape]
        if isinstance(value, TensorValue) and value.expr is None and value.deferred is not None:
            return list(value.deferred.dims)
        info = self.info(value)
        if info.dims is None:
            raise OnnxImportError("the shape of a tensor is not known", hint="give the shapes of inputs in shape_dict")
        return list(info.dims)

    def rank(self, value: TensorValue | RelaxExpr) -> int:
        """How many dimensions a tensor has."""
        if isinstance(value, TensorValue) and value.array is not None:
            return value.array.ndim
        if isinstance(value, TensorValue) and value.expr is None and value.deferred is not None:
            return len(value.deferred.dims)
        rank = self.info(value).ndim
        if rank < 0:
            raise OnnxImportError("the number of dimensions of a tensor is not known")
        return rank

    def sizes(self, value: TensorValue | RelaxExpr) -> list[int] | None:
        """The dimensions of a tensor as integers; None where one is symbolic."""
        found = [ops.as_int(size) for size in self.shape(value)]
        return None if None in found else found  # type: ignore[return-value]

    def named_shape(self, expr: RelaxExpr) -> r.Var | RelaxExpr:
        """Return the tensor with a name for each unknown dimension. Its rank must be known."""
        info = self.info(expr)
        if info.dims is not None:
            return expr
        if info.ndim < 0:
            raise OnnxImportError("the number of dimensions of a tensor is not known")
        return self.cast_shape(expr, self.new_symbols(info.ndim), info.dtype)

    def cast_shape(self, expr: RelaxExpr, dims: Sequence[Dim], dtype: str) -> r.Var:
        """Return the tensor after a run-time check of its shape.
        New variables in the shape are known from here on."""
        wanted = r.TensorStructInfo([ops.as_expr(size) for size in dims], dtype)  # type: ignore[arg-type]
        made = self.bb.match_cast(expr, wanted)
        return self.bb.emit_output(made) if self._dataflow is not None and self.has_control_flow else made

    def new_symbols(self, count: int) -> list[n.Var]:
        """New names of dimensions."""
        self._symbols += count
        return [n.Var(f"d{self._symbols - count + i}", "int64") for i in range(count)]

    # ---------------------------------------------------------- parameters that come as tensors

    def static_ints(self, value: TensorValue, what: str) -> list[int]:
        """The integers of a tensor. Raises NeedsValueError where one is not known now."""
        if not value.is_constant:
            raise NeedsValueError.of(what, value.wants)
        assert value.array is not None
        return [int(item) for item in value.array.reshape(-1)]

    def static_numbers(self, value: TensorValue, what: str) -> list[float]:
        """The numbers of a tensor. Raises NeedsValueError where one is not known now."""
        if not value.is_constant:
            raise NeedsValueError.of(what, value.wants)
        assert value.array is not None
        return [float(item) for item in value.array.reshape(-1)]

    def known_ints(self, value: TensorValue) -> list[Dim] | None:
        """The integers of a tensor as expressions over dimensions; None where they are not known."""
        if value.array is None:
            return None
        return [simple(item) for item in value.array.reshape(-1)]

    def sizes_at_run_time(self, vector: RelaxExpr, count: int) -> list[PrimExpr]:
        """Name the integers of a vector that is computed when the program runs.
        None of them may be negative."""
        info = self.info(vector)
        if info.dtype != "int64":
            vector = self.emit(op.astype(vector, "int64"))
        names = self.new_symbols(count)
        self._at_run_time.update(names)
        shape = self.bb.emit(op.tensor_to_shape(vector))
        self.bb.match_cast(shape, r.ShapeStructInfo(tuple(names)))
        return list(names)

    def is_known_at_run_time(self, size: PrimExpr) -> bool:
        """Whether a dimension depends on values that are computed when the program runs."""
        return any(var in self._at_run_time for var in variables(size))

    def vector(self, sizes: Sequence[Dim]) -> TensorValue:
        """Integers as an int64 tensor of the graph."""
        return self.known(plain(list(sizes)))

    def tuple(self, values: Iterable[TensorValue]) -> r.Tuple:
        """Several values as one expression."""
        return r.Tuple(tuple([self.expr(value) for value in values]))

    def shape_expr(self, sizes: Sequence[Dim]) -> r.ShapeExpr:
        """A shape of the graph."""
        return r.ShapeExpr(tuple([ops.as_expr(size) if isinstance(size, PrimExpr) else int64(size) for size in sizes]))
