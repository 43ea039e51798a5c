"""Messages between a controller and its workers."""

from __future__ import annotations

from typing import Any

import msgspec

from compiler.errors import ArgumentError, TunefarmError
from compiler.runtime.core.device import Device
from compiler.runtime.core.values import DataType, ShapeTuple

MAX_MESSAGE = 1 << 33
"""The bytes of a message; arrays are most of it."""


class DiscoError(TunefarmError, RuntimeError, kind="disco"):
    """A worker failed, died, or is gone."""


class Ref(msgspec.Struct, frozen=True, tag="r"):
    """A reference to a register of the worker."""

    register: int


class Shape(msgspec.Struct, frozen=True, tag="s"):
    """A shape."""

    sizes: tuple[int, ...]


class ElementType(msgspec.Struct, frozen=True, tag="k"):
    """An element type."""

    dtype: str


class WorkerDevice(msgspec.Struct, frozen=True, tag="p"):
    """A device."""

    device_type: str
    number: int


Argument = Ref | Shape | ElementType | WorkerDevice | None | bool | int | float | str


class Find(msgspec.Struct, frozen=True, tag="find"):
    """Put the global function `name` into a register."""

    register: int
    name: str


class Invocation(msgspec.Struct, frozen=True, tag="run"):
    """Call the function in one register; its result goes into another."""

    register: int
    function: int
    args: tuple[Argument, ...]


class Forget(msgspec.Struct, frozen=True, tag="forget"):
    """Empty registers."""

    registers: tuple[int, ...]


class Put(msgspec.Struct, frozen=True, tag="put"):
    """Write an array into the one that a register holds; into an empty register, as a new array."""

    register: int
    shape: tuple[int, ...]
    dtype: str
    data: bytes


class Get(msgspec.Struct, frozen=True, tag="get"):
    """Answer with what a register holds."""

    register: int


class Sync(msgspec.Struct, frozen=True, tag="sync"):
    """Answer when all before is done."""


class StopWorker(msgspec.Struct, frozen=True, tag="stop"):
    """End."""


Instruction = Find | Invocation | Forget | Put | Get | Sync | StopWorker


class Value(msgspec.Struct, frozen=True, tag="value"):
    """An answer: an array where `shape` is there, else `plain`."""

    shape: tuple[int, ...] | None = None
    dtype: str = ""
    data: bytes = b""
    plain: Argument = None


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """An answer: the first thing that went wrong since the last one."""

    error: str


class Part(msgspec.Struct, frozen=True, tag="part"):
    """A worker's part of a collective operation. Its bytes lie in memory whose descriptor comes along."""

    group: bool
    size: int


class Left(msgspec.Struct, frozen=True, tag="left"):
    """A worker has read the others' parts."""

    group: bool


class Broken(msgspec.Struct, frozen=True, tag="broken"):
    """A worker failed, so the others need not wait for it. Without an error, it works again."""

    error: str


class Parts(msgspec.Struct, frozen=True, tag="parts"):
    """The sizes of all workers' parts, whose memory comes along, or the error that prevents the exchange."""

    sizes: tuple[int, ...] = ()
    error: str = ""


Answer = Value | Failed | Part | Left | Broken
ToWorker = Instruction | Parts


def argument(value: Any, reference: Any) -> Argument:
    """Return a value of the controller as it is sent to workers.
    `reference(value)` gives the register of a remote object."""
    found = reference(value)
    if found is not None:
        return Ref(found)
    match value:
        case None | bool() | int() | float():
            return value
        case DataType():
            return ElementType(str(value))
        case str():
            return value
        case Device():
            return WorkerDevice(value.device_type, value.device_id)
        case tuple() | list():
            return Shape(tuple(ShapeTuple(value)))
    raise ArgumentError(
        f"a {type(value).__name__} cannot be sent to workers",
        hint="numbers, text, shapes, devices and what workers hold can; arrays go by copy_to_worker_0",
    )


def plain(value: Argument) -> Any:
    """An argument as functions take it; devices are for the worker to find."""
    match value:
        case Shape():
            return ShapeTuple(value.sizes)
        case ElementType():
            return DataType(value.dtype)
    return value
