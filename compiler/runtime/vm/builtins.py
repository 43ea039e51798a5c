"""Built-in functions of the virtual machine: memory, shapes, tuples, closures, checks.

Instructions call them by these names, like any other function; some take the machine first. Instructions may come from
anybody, so each function checks its arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import IntEnum
from math import prod
from threading import local
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from compiler.errors import ArgumentError, DeviceError
from compiler.extents import parse_extent
from compiler.runtime.core.device import Device
from compiler.runtime.core.dtypes import storage_dtype
from compiler.runtime.core.ndarray import NDArray, empty
from compiler.runtime.core.ndarray import array as make_array
from compiler.runtime.core.packed import PackedFunc
from compiler.runtime.core.values import ShapeTuple
from compiler.runtime.vm.memory import MachineMemory, Storage

Heap = list[int]


class VMError(DeviceError, kind="vm"):
    """An error at run time: a check failed, or an instruction got a value that does not fit."""


class Machine(Protocol):
    """The machine's interface for functions that take it."""

    @property
    def memory(self) -> MachineMemory:
        """Where storage comes from."""

    def device(self, index: int) -> Device:
        """A device of the machine by its number. Raises ArgumentError where there is none."""

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Call a closure, a function or a name."""


class VMClosure(PackedFunc):
    """A function of the graph with values for its last parameters."""

    def __init__(self, name: str, function: Callable[..., Any], captured: tuple[Any, ...] = ()) -> None:
        self.name = name
        self._function = function
        self._captured = captured

    def __call__(self, *args: Any) -> Any:
        return self._function(*args, *self._captured)


BUILTINS: dict[str, Callable[..., Any]] = {}


def builtin(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of the machine under a name."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if name in BUILTINS:
            raise ValueError(f"two functions of the machine are called {name}")
        BUILTINS[name] = function
        return function

    return register


# -- shapes ----------------------------------------------------------------------------------------
MAX_HEAP = 1 << 20
_NUMBER, _LOAD = range(2)  # codes of make_shape


class MatchCode(IntEnum):
    """The action of `match_shape` for an extent."""

    EQUAL_NUMBER = 0
    STORE = 1
    IGNORE = 2
    EQUAL_HEAP = 3


_EQUAL_NUMBER, _STORE, _IGNORE, _EQUAL_HEAP = map(int, MatchCode)


@builtin("vm.builtin.alloc_shape_heap")
def alloc_shape_heap(machine: Machine, size: int) -> Heap:
    """Room for the extents that a function computes: `size` integers."""
    if not 0 <= size <= MAX_HEAP:
        raise VMError(f"a shape heap of {size} numbers")
    return [0] * size


@builtin("vm.builtin.match_shape")
def match_shape(value: NDArray | tuple[int, ...], heap: Heap, size: int, *rest: Any) -> None:
    """Compare a shape with the known extents, and keep the new ones.

    There is a code and a number for each of `size` extents. The last argument says, in words, what was matched. Raises
    ArgumentError where an extent differs.
    """
    codes, what = rest[:-1], str(rest[-1])
    shape = value.shape if isinstance(value, NDArray) else value
    if not isinstance(shape, tuple):
        raise ArgumentError(f"{what}: a shape is wanted, not a {type(value).__name__}")
    if len(shape) != size:
        raise ArgumentError(f"{what}: it has {len(shape)} dimensions, {tuple(shape)}, and must have {size}")
    if len(codes) != 2 * size:
        raise VMError(f"match_shape of {size} extents with {len(codes)} numbers")
    for index, extent in enumerate(shape):
        code, number = codes[2 * index], codes[2 * index + 1]
        if code == _STORE:
            heap[_slot(heap, number)] = int(extent)
        elif code in (_EQUAL_NUMBER, _EQUAL_HEAP):
            wanted = number if code == _EQUAL_NUMBER else heap[_slot(heap, number)]
            if extent != wanted:
                raise ArgumentError(
                    f"{what}: dimension {index} of the shape {tuple(shape)} is {extent}, and must be {wanted}",
                    detail={"dimension": index, "expected": wanted, "actual": extent},
                )
        elif code != _IGNORE:
            raise VMError(f"match_shape with code {code}")


@builtin("vm.builtin.match_prim_value")
def match_prim_value(value: Any, heap: Heap, code: int, number: int, what: str) -> None:
    """Match one number, as `match_shape` does several."""
    if isinstance(value, NDArray):
        value = int(value.numpy().item())
    if not isinstance(value, int):
        raise ArgumentError(f"{what}: an integer is wanted, not a {type(value).__name__}")
    match_shape((value,), heap, 1, code, number, what)


@builtin("vm.builtin.make_shape")
def make_shape(heap: Heap, size: int, *codes: int) -> ShapeTuple:
    """A shape of numbers and of extents on the heap."""
    if len(codes) != 2 * size:
        raise VMError(f"make_shape of {size} extents with {len(codes)} numbers")
    return ShapeTuple(
        codes[i + 1] if codes[i] == _NUMBER else heap[_slot(heap, codes[i + 1])] for i in range(0, 2 * size, 2)
    )


@builtin("vm.builtin.make_prim_value")
def make_prim_value(heap: Heap, code: int, number: int) -> int:
    """A number, given or from the heap."""
    return number if code == _NUMBER else heap[_slot(heap, number)]


@builtin("vm.builtin.set_heap")
def set_heap(heap: Heap, slot: int, value: int) -> None:
    """Put a number on the heap."""
    heap[_slot(heap, slot)] = int(value)


@builtin("vm.builtin.compute_extent")
def compute_extent(heap: Heap, slot: int, text: str) -> None:
    """Put the value of an expression over slots on the heap: "s0*2 + s1". Slot i is called s<i>."""
    extent = parse_extent(text)
    try:
        known = {name: heap[_slot(heap, int(name[1:]))] for name in extent.names if name[0] == "s"}
        heap[_slot(heap, slot)] = extent.value(known)
    except (ValueError, NameError):
        raise VMError(f"the extent {text!r} names what is no slot") from None
    except ZeroDivisionError:
        raise VMError(f"the extent {text!r} divides by 0") from None


def _slot(heap: Heap, number: int) -> int:
    if not 0 <= number < len(heap):
        raise VMError(f"slot {number} of a shape heap of {len(heap)}")
    return number


@builtin("vm.builtin.shape_of")
def shape_of(value: NDArray) -> ShapeTuple:
    """An array's shape."""
    return ShapeTuple(_tensor(value, "shape_of").shape)


@builtin("vm.builtin.tensor_to_shape")
def tensor_to_shape(value: NDArray) -> ShapeTuple:
    """The integers of a one-dimensional array, as a shape."""
    array = _tensor(value, "tensor_to_shape")
    if array.ndim != 1:
        raise ArgumentError(f"tensor_to_shape takes a one-dimensional array, not one of shape {array.shape}")
    return ShapeTuple(int(extent) for extent in array.numpy())


# -- checks ----------------------------------------------------------------------------------------
@builtin("vm.builtin.check_tensor_info")
def check_tensor_info(value: Any, ndim: int, *rest: Any) -> None:
    """Check that a value is an array of `ndim` dimensions (-1: any) and, where given, of a dtype."""
    dtype, what = ("" if len(rest) == 1 else str(rest[0])), str(rest[-1])
    if not isinstance(value, NDArray):
        raise ArgumentError(f"{what}: an array is wanted, not a {type(value).__name__}")
    if ndim >= 0 and value.ndim != ndim:
        raise ArgumentError(f"{what}: it has shape {value.shape}, and must have {ndim} dimensions")
    if dtype and value.dtype != dtype:
        raise ArgumentError(f"{what}: its dtype is {value.dtype}, and must be {dtype}")


@builtin("vm.builtin.check_shape_info")
def check_shape_info(value: Any, ndim: int, what: str) -> None:
    """Check that a value is a shape of `ndim` extents (-1: any)."""
    if not isinstance(value, ShapeTuple):
        raise ArgumentError(f"{what}: a shape is wanted, not a {type(value).__name__}")
    if ndim >= 0 and len(value) != ndim:
        raise ArgumentError(f"{what}: the shape {tuple(value)} must have {ndim} extents")


@builtin("vm.builtin.check_prim_value_info")
def check_prim_value_info(value: Any, dtype: str, what: str) -> None:
    """Check that a value is a number of the kind that `dtype` names."""
    wanted = float if str(dtype).startswith(("float", "bfloat")) else int
    if not isinstance(value, wanted):
        raise ArgumentError(f"{what}: a number of {dtype} is wanted, not a {type(value).__name__}")


@builtin("vm.builtin.check_tuple_info")
def check_tuple_info(value: Any, size: int, what: str) -> None:
    """Check that a value is a tuple of `size` fields."""
    if not isinstance(value, tuple) or isinstance(value, ShapeTuple):
        raise ArgumentError(f"{what}: a tuple is wanted, not a {type(value).__name__}")
    if len(value) != size:
        raise ArgumentError(f"{what}: the tuple has {len(value)} fields, and must have {size}")


@builtin("vm.builtin.check_func_info")
def check_func_info(value: Any, what: str) -> None:
    """Check that a value can be called."""
    if not callable(value):
        raise ArgumentError(f"{what}: a function is wanted, not a {type(value).__name__}")


@builtin("vm.builtin.read_if_cond")
def read_if_cond(value: Any) -> int:
    """A condition as 0 or 1: of an array of one number, or a number."""
    if isinstance(value, NDArray):
        if value.size != 1:
            raise ArgumentError(f"a condition is one number, not an array of shape {value.shape}")
        return int(bool(value.numpy().item()))
    if isinstance(value, int | float):
        return int(bool(value))
    raise ArgumentError(f"a condition is a number, not a {type(value).__name__}")


@builtin("vm.builtin.assert_op")
def assert_op(condition: Any, message: str, *values: Any) -> None:
    """Go on if the condition holds. If not, raise VMError with the message, formatted with the values."""
    if not read_if_cond(condition):
        raise VMError(_formatted(str(message), values) or "an assertion of the graph does not hold")


@builtin("vm.builtin.print")
def print_values(form: str, *values: Any) -> None:
    """Write values to standard output, by `form` as `str.format` does it.
    An empty form writes one after the other."""
    sys.stdout.write((_formatted(str(form), values) or " ".join(map(_shown, values))) + "\n")


def _formatted(form: str, values: tuple[Any, ...]) -> str:
    """`form` with each "{}" replaced by the next value.
    Nothing else has a meaning, because the text may be anybody's."""
    parts = form.split("{}")
    shown = [_shown(value) for value in values] + ["{}"] * len(parts)
    return parts[0] + "".join(value + part for value, part in zip(shown, parts[1:]))


def _shown(value: Any) -> str:
    return str(value.numpy()) if isinstance(value, NDArray) else str(value)


# -- memory ----------------------------------------------------------------------------------------
@builtin("vm.builtin.alloc_storage")
def alloc_storage(machine: Machine, shape: ShapeTuple, device: int, dtype: str, scope: str = "global") -> Storage:
    """Memory of `shape` elements of `dtype` on a device of the machine."""
    return machine.memory.allocate(machine.device(device), prod(shape) * storage_dtype(str(dtype)).itemsize)


@builtin("vm.builtin.alloc_tensor")
def alloc_tensor(storage: Storage, offset: int, shape: ShapeTuple, dtype: str) -> NDArray:
    """An array in memory that was allocated before, from byte `offset` on."""
    if not isinstance(storage, Storage):
        raise VMError(f"alloc_tensor in a {type(storage).__name__}")
    return storage.tensor(int(offset), tuple(shape), str(dtype))


@builtin("vm.builtin.new_tensor")
def new_tensor(machine: Machine, shape: ShapeTuple, device: int, dtype: str) -> NDArray:
    """An array with memory of its own."""
    return empty(tuple(shape), str(dtype), machine.device(device))


@builtin("vm.builtin.kill_object")
def kill_object() -> None:
    """Return the value that replaces one that is no longer needed."""
    return


@builtin("vm.builtin.null_value")
def null_value() -> None:
    """Nothing."""
    return


@builtin("vm.builtin.copy")
def copy(value: Any) -> Any:
    """Return the value itself, because the machine never changes values except by kernels that own them."""
    return value


@builtin("vm.builtin.reshape")
def reshape(value: NDArray, shape: ShapeTuple) -> NDArray:
    """The same elements in another shape, sharing memory. One extent may be -1."""
    array = _tensor(value, "reshape")
    extents = tuple(int(extent) for extent in shape)
    if prod(extents) != array.size:
        raise ArgumentError(f"an array of shape {array.shape} cannot have the shape {extents}")
    if array.is_host:
        return array._create_view(extents)
    return NDArray(extents, array.dtype, array.device, array.handle, owner=array)


@builtin("vm.builtin.to_device")
def to_device(value: NDArray, device_type: int, device_id: int) -> NDArray:
    """A copy of an array on another device; the array itself where it is there."""
    from_array = _tensor(value, "to_device")
    target = Device(device_type, int(device_id))  # type: ignore[arg-type]
    return from_array if from_array.device == target else from_array.copyto(target)


# -- tuples and functions --------------------------------------------------------------------------
@builtin("vm.builtin.make_tuple")
def make_tuple(*fields: Any) -> tuple[Any, ...]:
    """A tuple."""
    return fields


@builtin("vm.builtin.tuple_getitem")
def tuple_getitem(value: tuple[Any, ...], index: int) -> Any:
    """A field of a tuple."""
    if not isinstance(value, tuple) or not 0 <= index < len(value):
        size = f" of {len(value)} fields" if isinstance(value, tuple) else ""
        raise VMError(f"field {index} of a {type(value).__name__}{size}")
    return value[index]


@builtin("vm.builtin.make_closure")
def make_closure(machine: Machine, function: Any, *captured: Any) -> VMClosure:
    """A function that calls `function` with more arguments after its own."""
    name = function if isinstance(function, str) else getattr(function, "name", "closure")
    return VMClosure(str(name), lambda *args: machine.call(function, args), captured)


@builtin("vm.builtin.invoke_closure")
def invoke_closure(machine: Machine, closure: Any, *args: Any) -> Any:
    """Call a closure or a function."""
    return machine.call(closure, args)


# -- memory that is kept from call to call -----------------------------------------------------------
_KEPT: WeakKeyDictionary[Any, local] = WeakKeyDictionary()
"""What `cuda_graph.get_cached_alloc` keeps, for each machine and thread."""


@builtin("vm.builtin.cuda_graph.get_cached_alloc")
def get_cached_alloc(machine: Machine, function: Any, key: int) -> Any:
    """Return the storages that a function made at the first call with this number in this thread."""
    kept = _KEPT.setdefault(machine, local()).__dict__
    name = str(int(key))
    if name not in kept:
        kept[name] = machine.call(function, ())
    return kept[name]


@builtin("vm.builtin.cuda_graph.run_or_capture")
def run_or_capture(
    machine: Machine, function: Any, args: tuple[Any, ...], key: int, sizes: tuple[int, ...] = ()
) -> Any:
    """Call a function whose kernels always use the same memory for the same `sizes`.
    It is run, not recorded."""
    if not isinstance(args, tuple):
        raise VMError(f"run_or_capture of a {type(args).__name__}, where a tuple belongs")
    return machine.call(function, args)


@builtin("vm.builtin.call_tir_dyn")
def call_tir_dyn(machine: Machine, function: Any, *args: Any) -> None:
    """Call a kernel whose last arguments are the extents of a shape, which comes last here."""
    if not args or not isinstance(args[-1], tuple):
        raise VMError("call_tir_dyn without a shape")
    machine.call(function, (*args[:-1], *args[-1]))


def _tensor(value: Any, name: str) -> NDArray:
    if not isinstance(value, NDArray):
        raise ArgumentError(f"{name} takes an array, not a {type(value).__name__}")
    return value


def as_array(value: Any) -> Any:
    """A numpy array copied into an `NDArray`; other values as they are."""
    return make_array(value) if isinstance(value, np.ndarray) else value
