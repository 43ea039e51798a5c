"""Requests to a virtual machine that runs a model on the box, and their answers. Values travel flat.

A tuple is a `TupleOf` followed by its items, so that no message nests. Arrays that a model gives become memory of the
session under handles that the executor chooses: negative numbers, which clients do not use.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from rpc_server.wire.bounds import Dtype, Handle, Index, Label, OpenShape, Path, Shape, Tries, WholeMilliseconds

MOST_NESTED = 32
"""Tuples within tuples, of arguments and of results."""


class MemoryRef(msgspec.Struct, frozen=True, tag="memory"):
    """An array of the session. `device_type` and `device_id` say where it is."""

    handle: Handle
    dtype: Dtype
    shape: Shape
    device_type: Label = "cpu"
    device_id: Index = 0


class TupleOf(msgspec.Struct, frozen=True, tag="tuple"):
    """A tuple; its items follow."""

    items: Index


class ShapeOf(msgspec.Struct, frozen=True, tag="shape"):
    """A shape."""

    extents: Shape


Item = MemoryRef | TupleOf | ShapeOf | Path | bool | int | float | None
Items = Annotated[tuple[Item, ...], Meta(max_length=1 << 16)]
Devices = Annotated[tuple[tuple[Label, Index], ...], Meta(max_length=16)]


class Action(StrEnum):
    """The action asked of a machine's function."""

    CALL = "call"
    SET_INPUT = "set_input"
    INVOKE = "invoke"
    OUTPUTS = "outputs"
    SAVE = "save"
    PROFILE = "profile"


class ArrayInfo(msgspec.Struct, frozen=True):
    """The known facts of a parameter. One that is no array has neither."""

    dtype: Dtype = ""
    shape: OpenShape | None = None


class FunctionInfo(msgspec.Struct, frozen=True):
    """A function of a machine: what its parameters are called and take, and how many values it gives."""

    name: Path
    params: Annotated[tuple[Path, ...], Meta(max_length=1 << 16)] = ()
    arrays: Annotated[tuple[ArrayInfo, ...], Meta(max_length=1 << 16)] = ()
    results: Index = 1


class ModelTiming(msgspec.Struct, frozen=True):
    """How a model is timed; the fields are those of `TimeFunction`."""

    number: Tries = 10
    repeat: Tries = 1
    min_repeat_ms: WholeMilliseconds = 0
    cooldown_interval_ms: WholeMilliseconds = 0
    repeats_to_cooldown: Tries = 1
    f_preproc: Path = ""
