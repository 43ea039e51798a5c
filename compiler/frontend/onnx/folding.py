"""Compute values while a model is imported: shapes, and what programs compute of them.

A small tensor of integers is known as numbers and as scalar expressions over the model's dimensions. numpy moves both
alike, as elements of an array of objects. Operators that are not in the table are computed when the program runs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto

from compiler.frontend.onnx.element_types import AnyArray, dtype_of
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.values import TensorValue, simple, tidy
from compiler.runtime.core.dtypes import storage_dtype
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

LIMIT = 4096
"""Tensors of more elements are computed when the program runs."""

Arrays = Sequence[AnyArray]
Fold = Callable[[Node, Arrays], Any]
"""The elements of the results, one array or a list; None where they cannot be told."""

FOLDS: dict[str, Fold] = {}
_PLAIN_ELEMS = frozenset({
    TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.BOOL, TensorProto.INT8, TensorProto.INT16, TensorProto.INT32,
    TensorProto.INT64, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
})  # fmt: skip


def fold(*names: str) -> Callable[[Fold], Fold]:
    """Register what computes the operators `names`."""

    def register(function: Fold) -> Fold:
        for name in names:
            FOLDS[name] = function
        return function

    return register


def folded(node: Node) -> list[TensorValue] | None:
    """The results of a node whose inputs are known. None if they are not, or are large."""
    rule = FOLDS.get(node.op) if node.domain == "" else None
    if rule is None:
        return None
    arrays: list[AnyArray] = []
    elem = 0
    for value in node.inputs:
        if value is None:
            arrays.append(np.zeros(0))
            continue
        if not isinstance(value, TensorValue) or value.array is None or value.elem not in _PLAIN_ELEMS:
            return None
        if value.array.size > LIMIT:
            return None
        elem = elem or value.elem
        arrays.append(value.array)
    try:
        with np.errstate(all="ignore"):
            made = rule(node, arrays)
    except (TypeError, AttributeError, OverflowError, MemoryError):  # symbols where numpy needs numbers
        return None
    if made is None:
        return None
    results = made if isinstance(made, list) else [made]
    found = [_value(node, np.asarray(item), elem) for item in results]
    return None if any(item is None for item in found) else [item for item in found if item is not None]


_COMPARISONS = frozenset({"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Xor", "Not"})


def _value(node: Node, array: AnyArray, elem: int) -> TensorValue | None:
    if array.size > LIMIT:
        return None
    if node.op in _COMPARISONS:
        if array.dtype == object:
            array = tidy(array, "bool")
            if array.dtype == object:
                return None
        return TensorValue("bool", int(TensorProto.BOOL), None, array.astype(bool))
    if node.op == "Cast":
        elem = node.int("to", 1)
    elif node.op in ("Shape", "Size"):
        elem = int(TensorProto.INT64)
    elif node.op in ("Where",):
        elem = node.value(1).elem
    elif node.op in ("Constant", "ConstantOfShape"):
        return None
    dtype = dtype_of(elem)
    if array.dtype == object:
        array = tidy(array, dtype)
    if array.dtype == object:
        return TensorValue(dtype, elem, None, array) if dtype in ("int64", "int32") else None
    return TensorValue(dtype, elem, None, array.astype(storage_dtype(dtype)))


def _axes(node: Node, arrays: Arrays, index: int = 1) -> list[int] | None:
    if node.given(index):
        return [int(value) for value in arrays[index].reshape(-1)]
    return node.ints("axes")


def _same_kind(*arrays: AnyArray) -> list[AnyArray]:
    """Arrays as objects if one of them is."""
    if any(array.dtype == object for array in arrays):
        return [array.astype(object) for array in arrays]
    return list(arrays)


# ---------------------------------------------------------------------------------- movement


@fold("Identity")
def _identity(node: Node, arrays: Arrays) -> Any:
    return arrays[0]


@fold("Gather")
def _gather(node: Node, arrays: Arrays) -> Any:
    return np.take(arrays[0], arrays[1].astype(np.int64), axis=node.int("axis", 0))


@fold("Concat")
def _concat(node: Node, arrays: Arrays) -> Any:
    return np.concatenate(_same_kind(*arrays), axis=node.int("axis", 1))


@fold("Unsqueeze")
def _unsqueeze(node: Node, arrays: Arrays) -> Any:
    axes = _axes(node, arrays) or []
    return np.expand_dims(arrays[0], tuple(axes))


@fold("Squeeze")
def _squeeze(node: Node, arrays: Arrays) -> Any:
    axes = _axes(node, arrays)
    return np.squeeze(arrays[0], None if axes is None else tuple(axes))


@fold("Reshape")
def _reshape(node: Node, arrays: Arrays) -> Any:
    if len(arrays) < 2 or arrays[1].dtype == object:
        return None
    wanted = [int(size) for size in arrays[1]]
    if not node.int("allowzero", 0):
        wanted = [arrays[0].shape[axis] if size == 0 else size for axis, size in enumerate(wanted)]
    return arrays[0].reshape(wanted)


@fold("Transpose")
def _transpose(node: Node, arrays: Arrays) -> Any:
    return np.transpose(arrays[0], node.ints("perm"))


@fold("Slice")
def _slice(node: Node, arrays: Arrays) -> Any:
    data = arrays[0]
    if len(node.inputs) == 1:
        starts, ends, axes = node.ints("starts") or [], node.ints("ends") or [], node.ints("axes")
        steps: list[int] | None = None
    else:
        starts, ends = ([int(v) for v in arrays[k].reshape(-1)] for k in (1, 2))
        axes, steps = (
            [int(v) for v in arrays[k].reshape(-1)] if node.given(k) else None for k in (3, 4)
        )  # fmt: skip
    parts = [slice(None)] * data.ndim
    for number, (first, last) in enumerate(zip(starts, ends)):
        axis = number if axes is None else axes[number]
        step = 1 if steps is None else steps[number]
        if step < 0 and last < -data.shape[axis]:
            parts[axis] = slice(first, None, step)
        else:
            parts[axis] = slice(first, last, step)
    return data[tuple(parts)]


@fold("Split")
def _split(node: Node, arrays: Arrays) -> Any:
    axis = node.int("axis", 0)
    sizes = _axes(node, arrays) if node.given(1) else node.ints("split")
    if sizes is None:
        count = node.int("num_outputs", len(node.outputs))
        if count != len(node.outputs) or not count:
            return None
        each = -(-arrays[0].shape[axis] // count)
        return [np.take(arrays[0], range(at, min(at + each, arrays[0].shape[axis])), axis)
                for at in range(0, count * each, max(each, 1))]  # fmt: skip
    return list(np.split(arrays[0], np.cumsum(sizes)[:-1], axis))


@fold("Expand")
def _expand(node: Node, arrays: Arrays) -> Any:
    if arrays[1].dtype == object:
        return None
    wanted = [int(size) for size in arrays[1]]
    if prod(wanted) * arrays[0].size > LIMIT:  # numpy's product would overflow
        return None
    return np.broadcast_to(arrays[0], np.broadcast_shapes(arrays[0].shape, tuple(wanted)))


@fold("Tile")
def _tile(node: Node, arrays: Arrays) -> Any:
    if len(arrays) != 2 or prod(int(times) for times in arrays[1]) * arrays[0].size > LIMIT:
        return None
    return np.tile(arrays[0], [int(times) for times in arrays[1]])


@fold("Where")
def _where(node: Node, arrays: Arrays) -> Any:
    return np.where(arrays[0].astype(bool), *_same_kind(arrays[1], arrays[2])) if arrays[0].dtype != object else None


@fold("Range")
def _range(node: Node, arrays: Arrays) -> Any:
    if any(array.dtype == object for array in arrays):
        return None
    first, last, step = (array.item() for array in arrays)
    if step == 0 or (last - first) / step > LIMIT:
        return None
    return np.arange(first, last, step)




# -------------------------------------------------------------------------------- arithmetic


def _trunc_divide(a: Any, b: Any) -> Any:
    """Integer division rounded towards zero, as ONNX has it; dimensions are never negative."""
    if isinstance(a, PrimExpr) or isinstance(b, PrimExpr):
        return ops.floordiv(ops.as_expr(a), ops.as_expr(b))
    if b == 0:
        raise OverflowError
    found = abs(a) // abs(b)
    return found if (a < 0) == (b < 0) else -found


def _smaller(a: Any, b: Any) -> Any:
    return ops.minimum(a, b) if isinstance(a, PrimExpr) or isinstance(b, PrimExpr) else min(a, b)


def _larger(a: Any, b: Any) -> Any:
    return ops.maximum(a, b) if isinstance(a, PrimExpr) or isinstance(b, PrimExpr) else max(a, b)


def _each(function: Callable[[Any, Any], Any], a: AnyArray, b: AnyArray) -> AnyArray:
    """`function` of pairs of elements, on arrays of objects."""
    left, right = np.broadcast_arrays(a.astype(object), b.astype(object))
    found = np.empty(left.shape, object)
    for index in np.ndindex(left.shape):
        found[index] = simple(function(left[index], right[index]))
    return found


def _binary(numbers: Callable[[Any, Any], Any], symbols: Callable[[Any, Any], Any] | None = None) -> Fold:
    def rule(node: Node, arrays: Arrays) -> Any:
        found = arrays[0]
        for other in arrays[1:]:
            if found.dtype == object or other.dtype == object:
                found = _each(symbols or numbers, found, other)
            else:
                found = np.asarray(numbers(found, other))
        return found

    return rule


def _divide(a: AnyArray, b: AnyArray) -> AnyArray:
    if a.dtype.kind == "f":
        return a / b
    if not np.all(b):
        raise OverflowError
    found: AnyArray = np.trunc(a / b) if np.abs(a).max(initial=0) < 2**52 else _each(_trunc_divide, a, b)
    return found


FOLDS["Add"] = _binary(operator.add)
FOLDS["Sub"] = _binary(operator.sub)
FOLDS["Mul"] = _binary(operator.mul)
FOLDS["Div"] = _binary(_divide, _trunc_divide)
FOLDS["Max"] = _binary(np.maximum, _larger)
FOLDS["Min"] = _binary(np.minimum, _smaller)


def _compared(a: Any, b: Any, compare: Callable[[Any, Any], Any]) -> Any:
    if isinstance(a, PrimExpr) or isinstance(b, PrimExpr):
        return simple(compare(ops.as_expr(a), ops.as_expr(b)))
    return compare(a, b)


def _comparison(numbers: Callable[[Any, Any], Any], symbols: Callable[[Any, Any], Any]) -> Fold:
    return _binary(numbers, lambda a, b: _compared(a, b, symbols))


FOLDS["Equal"] = _comparison(operator.eq, ops.equal)
FOLDS["Less"] = _comparison(operator.lt, ops.less)
FOLDS["Greater"] = _comparison(operator.gt, ops.greater)
FOLDS["LessOrEqual"] = _comparison(operator.le, ops.less_equal)
FOLDS["GreaterOrEqual"] = _comparison(operator.ge, ops.greater_equal)


@fold("And", "Or", "Xor")
def _logical(node: Node, arrays: Arrays) -> Any:
    rule = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}[node.op]
    return rule(arrays[0], arrays[1]) if all(array.dtype == bool for array in arrays) else None


@fold("Not")
def _not(node: Node, arrays: Arrays) -> Any:
    return ~arrays[0] if arrays[0].dtype == bool else None


@fold("Neg")
def _negative(node: Node, arrays: Arrays) -> Any:
    return 0 - arrays[0]


@fold("Abs", "Sqrt", "Floor", "Ceil")
def _unary(node: Node, arrays: Arrays) -> Any:
    rules: dict[str, Any] = {"Abs": np.abs, "Sqrt": np.sqrt, "Floor": np.floor, "Ceil": np.ceil}
    return rules[node.op](arrays[0]) if arrays[0].dtype != object else None


@fold("Mod")
def _mod(node: Node, arrays: Arrays) -> Any:
    if any(array.dtype == object for array in arrays):
        return _each(lambda a, b: ops.floormod(ops.as_expr(a), ops.as_expr(b)), *arrays)
    if arrays[0].dtype.kind != "f" and not np.all(arrays[1]):
        return None
    return (np.fmod if node.int("fmod", 0) else np.mod)(arrays[0], arrays[1])


@fold("Cast")
def _cast(node: Node, arrays: Arrays) -> Any:
    to = node.int("to", 1)
    if to not in _PLAIN_ELEMS:
        return None
    if arrays[0].dtype == object:
        return arrays[0] if to in (TensorProto.INT64, TensorProto.INT32) else None
    if arrays[0].dtype.kind == "f" and to != TensorProto.BOOL and not np.all(np.isfinite(arrays[0])):
        return None
    return arrays[0].astype(storage_dtype(dtype_of(to)))


@fold("ReduceProd", "ReduceSum", "ReduceMin", "ReduceMax")
def _reduced(node: Node, arrays: Arrays) -> Any:
    axes = _axes(node, arrays)
    keep = bool(node.int("keepdims", 1))
    data = arrays[0]
    if not axes and node.int("noop_with_empty_axes", 0):
        return data
    if data.dtype == object and (data.ndim != 1 or data.size == 0):
        return None
    if data.dtype == object:
        rule = {
            "ReduceProd": operator.mul, "ReduceSum": operator.add, "ReduceMin": _smaller, "ReduceMax": _larger
        }[node.op]  # fmt: skip
        total = np.empty((1,) if keep else (), object)
        total[...] = reduce(rule, list(data))
        return total
    known: dict[str, Any] = {"ReduceProd": np.prod, "ReduceSum": np.sum, "ReduceMin": np.min, "ReduceMax": np.max}
    return known[node.op](data, axis=tuple(axes) if axes else None, keepdims=keep)


@fold("CumSum")
def _cumsum(node: Node, arrays: Arrays) -> Any:
    if node.int("exclusive", 0) or node.int("reverse", 0) or arrays[0].dtype == object:
        return None
    return np.cumsum(arrays[0], int(arrays[1].item()))
