"""Calls of the machine's own functions.

Most are resolved when the function is made, and leave no code.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from compiler.python_text import parsed_expression
from compiler.relax.nodes.dims import int64
from compiler.relax.vm_codegen.native.values import (
    Follows,
    Heap,
    NativeStorage,
    NativeTensor,
    NotNative,
    ShapeValue,
    Text,
    Value,
    bytes_of,
)
from compiler.runtime.vm.builtins import MatchCode
from compiler.runtime.vm.number_builtins import UNARY
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.intrin import call_intrin
from compiler.tir.nodes import PrimExpr


class TracedFunction(Protocol):
    """The function that is made."""

    name: str

    def check(self, condition: PrimExpr | NativeTensor, message: str) -> None:
        """Have a condition checked where the function runs."""

    def equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether two extents are known to be the same."""

    def shown(self, extent: PrimExpr) -> str:
        """An extent in a message, to be replaced by its value when the message is shown."""

    def storage(self, nbytes: PrimExpr) -> NativeStorage:
        """New memory of the function's own."""

    def read(self, source: NativeTensor, name: str) -> n.Var:
        """The first number of an int64 array, read when the function runs."""

    def is_late(self, extent: PrimExpr) -> bool:
        """Whether an extent becomes known only when the function runs."""


RULES: dict[str, Callable[..., Value]] = {}
_WORD = 8


def _rule(*names: str) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    def register(function: Callable[..., Value]) -> Callable[..., Value]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


@_rule("copy")
def _copy(made: TracedFunction, value: Value) -> Value:
    return value


@_rule("null_value", "kill_object")
def _nothing(made: TracedFunction) -> Value:
    return ()


@_rule("make_tuple")
def _tuple(made: TracedFunction, *fields: Value) -> Value:
    return fields


@_rule("tuple_getitem")
def _field(made: TracedFunction, value: Value, index: Value) -> Value:
    number = _known(index)
    if not isinstance(value, tuple) or not 0 <= number < len(value):
        raise NotNative(f"field {number} of what is no tuple with such a field")
    return value[number]


# -- shapes ----------------------------------------------------------------------------------------
@_rule("alloc_shape_heap")
def _heap(made: TracedFunction, size: Value) -> Value:
    return Heap()


@_rule("match_shape")
def _match_shape(made: TracedFunction, value: Value, heap: Value, size: Value, *rest: Value) -> Value:
    *codes, what = rest
    message = _text(what)
    if not isinstance(value, NativeTensor | ShapeValue):
        raise NotNative("a shape that is not known")
    if len(value.dims) != _known(size):
        made.check(_FALSE, f"{message}: it must have {_known(size)} dimensions")
        return ()
    shape = f"({', '.join(map(made.shown, value.dims))}{',' if len(value.dims) == 1 else ''})"
    for axis, extent in enumerate(value.dims):
        said = f"{message}: dimension {axis} of the shape {shape}"
        _match(made, extent, heap, codes[2 * axis], codes[2 * axis + 1], said)
    return ()


@_rule("match_prim_value")
def _match_number(made: TracedFunction, value: Value, heap: Value, code: Value, number: Value, what: Value) -> Value:
    if not isinstance(value, PrimExpr):
        raise NotNative("a number that is read from an array")
    _match(made, ops.cast("int64", value), heap, code, number, _text(what))
    return ()


def _match(made: TracedFunction, extent: PrimExpr, heap: Value, code: Value, number: Value, what: str) -> None:
    match MatchCode(_known(code)):
        case MatchCode.STORE:
            _slots(heap)[_known(number)] = extent
        case MatchCode.EQUAL_NUMBER:
            _same(made, extent, int64(_known(number)), what)
        case MatchCode.EQUAL_HEAP:
            _same(made, extent, _slot(heap, number), what)
        case MatchCode.IGNORE:
            pass


def _same(made: TracedFunction, extent: PrimExpr, wanted: PrimExpr, what: str) -> None:
    if not made.equal(extent, wanted):
        made.check(ops.equal(extent, wanted), f"{what} is {made.shown(extent)}, and must be {made.shown(wanted)}")


@_rule("make_shape")
def _make_shape(made: TracedFunction, heap: Value, size: Value, *codes: Value) -> Value:
    pairs = zip(codes[::2], codes[1::2])
    return ShapeValue(tuple([_slot(heap, x) if _known(code) else int64(_known(x)) for code, x in pairs]))


@_rule("make_prim_value")
def _make_number(made: TracedFunction, heap: Value, code: Value, number: Value) -> Value:
    return _slot(heap, number) if _known(code) else int64(_known(number))


@_rule("compute_extent")
def _compute(made: TracedFunction, heap: Value, slot: Value, text: Value) -> Value:
    _slots(heap)[_known(slot)] = extent_expression(
        _text(text), {f"s{index}": value for index, value in _slots(heap).items()}
    )
    return ()


_ARITHMETIC: dict[str, Callable[[Any, Any], PrimExpr]] = {
    "add": ops.add,
    "sub": ops.sub,
    "mul": ops.mul,
    "div": ops.div,
    "min": ops.minimum,
    "max": ops.maximum,
}


@_rule("compute_number")
def _compute_number(made: TracedFunction, heap: Value, *steps: Value) -> Value:
    stack: list[PrimExpr] = []
    rest = iter(steps)
    for step in rest:
        match _text(step):
            case "slot":
                stack.append(_slot(heap, next(rest)))
            case "number":
                dtype, value = _text(next(rest)), next(rest)
                if not isinstance(value, PrimExpr):
                    raise NotNative("a number that is none")
                stack.append(ops.cast(dtype, value))
            case "cast":
                stack.append(ops.cast(_text(next(rest)), stack.pop()))
            case word if word in UNARY:
                argument = stack.pop()
                stack.append(call_intrin(argument.dtype, f"tir.{word}", argument))
            case "pow":
                power, base = stack.pop(), stack.pop()
                stack.append(call_intrin(base.dtype, "tir.pow", base, power))
            case word if word in _ARITHMETIC:
                right, left = stack.pop(), stack.pop()
                stack.append(_ARITHMETIC[word](left, right))
            case word:
                raise NotNative(f"a number that is computed by {word}")
    (result,) = stack
    return result


@_rule("shape_of")
def _shape_of(made: TracedFunction, value: Value) -> Value:
    return ShapeValue(_tensor(value).dims)


@_rule("tensor_to_shape")
def _tensor_to_shape(made: TracedFunction, value: Value) -> Value:
    array = _tensor(value)
    if len(array.dims) != 1 or not isinstance(array.dims[0], n.IntImm):
        raise NotNative("a shape of a number of extents that is not known")
    if array.dtype != "int64":
        raise NotNative(f"a shape of {array.dtype} numbers")
    places = [ops.add(array.offset, int64(_WORD * axis)) for axis in range(array.dims[0].value)]
    numbers = [NativeTensor(array.storage, (int64(1),), "int64", place) for place in places]
    return ShapeValue(tuple([made.read(number, f"read_{axis}") for axis, number in enumerate(numbers)]))


# -- checks ----------------------------------------------------------------------------------------
_FALSE = n.IntImm("bool", 0)


def _require(made: TracedFunction, holds: bool, message: str) -> Value:
    if not holds:
        made.check(_FALSE, message)
    return ()


@_rule("check_tensor_info")
def _check_tensor(made: TracedFunction, value: Value, ndim: Value, *rest: Value) -> Value:
    what, count = _text(rest[-1]), _known(ndim)
    dtype = "" if len(rest) == 1 else _text(rest[0])
    if not isinstance(value, NativeTensor):
        return _require(made, False, f"{what}: an array is wanted")
    _require(made, count in (-1, len(value.dims)), f"{what}: it must have {count} dimensions")
    return _require(made, dtype in ("", value.dtype), f"{what}: its dtype is {value.dtype}, and must be {dtype}")


@_rule("check_shape_info")
def _check_shape(made: TracedFunction, value: Value, ndim: Value, what: Value) -> Value:
    count = _known(ndim)
    fits = isinstance(value, ShapeValue) and count in (-1, len(value.dims))
    return _require(made, fits, f"{_text(what)}: a shape of {count} extents is wanted")


@_rule("check_prim_value_info")
def _check_number(made: TracedFunction, value: Value, dtype: Value, what: Value) -> Value:
    wanted = _text(dtype).startswith(("float", "bfloat"))
    fits = isinstance(value, PrimExpr) and value.dtype.startswith(("float", "bfloat")) == wanted
    return _require(made, fits, f"{_text(what)}: a number of {_text(dtype)} is wanted")


@_rule("check_tuple_info")
def _check_tuple(made: TracedFunction, value: Value, size: Value, what: Value) -> Value:
    fits = isinstance(value, tuple) and len(value) == _known(size)
    return _require(made, fits, f"{_text(what)}: a tuple of {_known(size)} fields is wanted")


@_rule("assert_op")
def _assert(made: TracedFunction, condition: Value, message: Value, *values: Value) -> Value:
    if not isinstance(condition, NativeTensor | PrimExpr):
        raise NotNative("an assertion of what is neither an array nor a number")
    made.check(condition, _text(message) or "an assertion of the graph does not hold")
    return ()


# -- memory ----------------------------------------------------------------------------------------
@_rule("alloc_storage")
def _alloc_storage(made: TracedFunction, shape: Value, device: Value, dtype: Value, *scope: Value) -> Value:
    if not isinstance(shape, ShapeValue):
        raise NotNative("memory of an unknown size")
    if _known(device) not in (0, -1):
        raise NotNative("memory of another device")
    return made.storage(bytes_of(shape.dims, _text(dtype)))


@_rule("alloc_tensor")
def _alloc_tensor(made: TracedFunction, storage: Value, offset: Value, shape: Value, dtype: Value) -> Value:
    if not isinstance(storage, NativeStorage) or not isinstance(shape, ShapeValue) or not isinstance(offset, PrimExpr):
        raise NotNative("an array of an unknown shape")
    _check_extents(made, shape.dims)
    return NativeTensor(storage, shape.dims, _text(dtype), ops.cast("int64", offset))


@_rule("new_tensor")
def _new_tensor(made: TracedFunction, shape: Value, device: Value, dtype: Value) -> Value:
    storage = _alloc_storage(made, shape, device, dtype)
    return _alloc_tensor(made, storage, int64(0), shape, dtype)


@_rule("reshape")
def _reshape(made: TracedFunction, value: Value, shape: Value) -> Value:
    array = _tensor(value)
    if not isinstance(shape, ShapeValue):
        raise NotNative("a reshape whose shape is not known")
    dims = list(shape.dims)
    open_axes = [axis for axis, extent in enumerate(dims) if isinstance(extent, n.IntImm) and extent.value == -1]
    if open_axes:
        rest = _product([extent for axis, extent in enumerate(dims) if axis not in open_axes])
        dims[open_axes[0]] = ops.floordiv(_product(array.dims), rest)
    _check_extents(made, dims)
    before, after = _product(array.dims), _product(dims)
    if not made.equal(before, after):
        made.check(ops.equal(before, after), f"{made.name}: an array cannot have the shape that a reshape gives it")
    return NativeTensor(array.storage, tuple(dims), array.dtype, array.offset)


def _check_extents(made: TracedFunction, dims: Sequence[PrimExpr]) -> None:
    """Have the function check that extents which it computes are not negative."""
    for extent in dims:
        if made.is_late(extent):
            made.check(ops.greater_equal(extent, int64(0)), f"{made.name}: the graph computes an extent below 0")


def _product(dims: Sequence[PrimExpr]) -> PrimExpr:
    total: PrimExpr = int64(1)
    for extent in dims:
        total = ops.mul(total, extent)
    return total


# -- what arguments are ------------------------------------------------------------------------------
def _known(value: Value) -> int:
    if not isinstance(value, n.IntImm):
        raise NotNative("an instruction with a number that is not known")
    return value.value


def _text(value: Value) -> str:
    if not isinstance(value, Text):
        raise NotNative("an instruction with a text that is not known")
    return value.text


def _tensor(value: Value) -> NativeTensor:
    if not isinstance(value, NativeTensor):
        raise NotNative("the shape of what is no array")
    return value


def _slots(heap: Value) -> dict[int, PrimExpr]:
    if not isinstance(heap, Heap):
        raise NotNative("numbers that are on no heap")
    return heap.slots


def _slot(heap: Value, number: Value) -> PrimExpr:
    """A number on the heap. Slots of the interpreter's values are not there."""
    found = _slots(heap).get(_known(number))
    if found is None:
        raise Follows("an extent that the interpreter finds out")
    return found


def extent_expression(text: str, names: Mapping[str, PrimExpr]) -> PrimExpr:
    """An extent's text, as `compiler.extents` has it, as an expression over what the names stand for."""
    return _expression(parsed_expression(text), names)


_BINARY: dict[type[ast.operator], Callable[[Any, Any], PrimExpr]] = {
    ast.Add: ops.add,
    ast.Sub: ops.sub,
    ast.Mult: ops.mul,
    ast.FloorDiv: ops.floordiv,
    ast.Mod: ops.floormod,
}


def _expression(node: ast.expr, names: Mapping[str, PrimExpr]) -> PrimExpr:
    match node:
        case ast.Constant(value=int(value)):
            return int64(value)
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Name(id=name) if name[:1] == "s":
            raise Follows("an extent that the interpreter finds out")
        case ast.BinOp(left, operator, right) if type(operator) in _BINARY:
            return _BINARY[type(operator)](_expression(left, names), _expression(right, names))
        case ast.UnaryOp(ast.USub(), operand):
            return ops.neg(_expression(operand, names))
        case ast.Call(ast.Name(id=("min" | "max") as name), [left, right], []):
            choose = ops.minimum if name == "min" else ops.maximum
            return choose(_expression(left, names), _expression(right, names))
    raise NotNative("an extent that cannot be computed")
