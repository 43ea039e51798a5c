"""The subject of a trial: a function with its arguments, ready to run, on a device that may be lost.

Candidates that pack operands ahead of time are measured as they are used: packed once, timed without. Such an
artifact has three entries (`split_preproc` of lowering): `main`; `main_weight_prepack`, which packs; and
`main_prepacked`, which takes packed operands. The outputs of the last one are checked.

Weights are not in the caches when a model calls a kernel, because it has read its other weights since the last call.
So timed calls take turns with copies of the weights, enough to fill the caches. The copies are made for the first
such call. A kernel that is too slow with its weights in the caches needs none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from compiler.artifact import PREPACK, PREPACKED, EntryPoint
from compiler.errors import DeviceError
from compiler.runtime.core.backends import DEVICE_BACKENDS
from compiler.runtime.core.code.kernel_function import BoundCall, KernelFunction
from compiler.runtime.core.device import Device, used_device_types
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import NDArray, empty
from compiler.runtime.measure.preprocess import last_level_cache_bytes
from rpc_server.machine.crash import GPU_LOST


class Subject:
    """A bound call on a device that may get lost.
    Methods raise KernelError or DeviceError when the function fails."""

    def __init__(self, function: KernelFunction, arguments: list[Any], place: Device, cold: Sequence[int] = ()) -> None:
        """Have timed calls find the arguments at the positions `cold` out of a CPU's caches.
        Raises DeviceError when the device does not take the function."""
        self._place = place
        with ending_if_lost(place):
            self._bound: BoundCall = function.bind(tuple(arguments), place)
        self._turns: list[BoundCall] = [self._bound]
        self._turn = 0
        self._to_copy: Iterator[BoundCall] = iter(())
        if place.device_type == function.device_type == "cpu":
            self._to_copy = (function.bind(copy, place) for copy in _copies(arguments, cold))

    def call(self) -> None:
        """Run it once, to its end."""
        with ending_if_lost(self._place):
            self._bound.call()

    def timed_warm(self, number: int) -> int:
        """Run it `number` times with all its arguments where they are. Returns nanoseconds."""
        with ending_if_lost(self._place):
            return self._bound.timed(number)

    def timed(self, number: int) -> int:
        """Run it `number` times. Returns nanoseconds."""
        with ending_if_lost(self._place):
            self._turns += self._to_copy
            if len(self._turns) == 1:
                return self._bound.timed(number)
            return sum(self._next().timed(1) for _ in range(number))

    def _next(self) -> BoundCall:
        self._turn = (self._turn + 1) % len(self._turns)
        return self._turns[self._turn]

    def flush(self) -> None:
        """Empty the caches that the arguments may be in."""
        with ending_if_lost(self._place):
            self._bound.flush()

    def environment(self) -> dict[str, float]:
        """Return what may explain an odd time, as numbers, beside what the host tells."""
        return self._bound.environment()


_LEAST_COLD, _MOST_COPIED, _MOST_COPIES = 1 << 16, 1 << 27, 64
"""Bytes of weights from which on it matters where they lie, of all copies of them, and how many there are at most."""


def _copies(arguments: Sequence[Any], cold: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """The arguments, with copies of those at `cold` that together fill the largest cache."""
    places = [at for at in cold if isinstance(arguments[at], NDArray)]
    each = sum(arguments[at].nbytes for at in places)
    if each < _LEAST_COLD:
        return
    wanted = min(last_level_cache_bytes() or 0, _MOST_COPIED)
    for _ in range(min(_MOST_COPIES, wanted // each)):
        copied = list(arguments)
        for at in places:
            copied[at] = empty(arguments[at].shape, arguments[at].dtype).copyfrom(arguments[at])
        yield tuple(copied)


@contextmanager
def ending_if_lost(place: Device) -> Iterator[None]:
    """`end_if_lost` for a DeviceError raised inside."""
    try:
        yield
    except DeviceError as error:
        end_if_lost(error, place)
        raise


def end_if_lost(error: DeviceError, place: Device | None = None) -> None:
    """End this process when `error` turns out to have spoiled its context on the device `place`.

    Without `place`, it is the first device of any type that this process has used: an executor sees one GPU. After
    an access to memory that is not the kernel's, every GPU call of the process fails for good, so only a fresh
    process can go on. The client reads the error's words from stderr.
    """
    places = [place] if place is not None else [Device(used) for used in used_device_types()]
    if any(_is_lost(at) for at in places):
        sys.stderr.write(f"the GPU context is spoiled: {error.message}\n")
        sys.stderr.flush()
        os._exit(GPU_LOST)  # not sys.exit: destructors would call the driver, which may hang


def _is_lost(place: Device) -> bool:
    backend = DEVICE_BACKENDS.find_for_device(place.device_type)
    return backend is not None and place.device_type in used_device_types() and backend.is_lost(place)


def prepacked(
    module: Module, function: Any, arguments: list[Any], place: Device, weights: Sequence[int] = ()
) -> tuple[Any, list[Any], tuple[int, ...]]:
    """Return the function to time, its arguments, and which of these are weights.
    They are those given, unless `module` packs operands of `function` ahead. Raises KernelError or DeviceError when
    packing fails."""
    cold = tuple(at for at in weights if at < len(arguments))
    names = set(module.get_function_list())
    before, after = (f"{function.name}{suffix}" for suffix in (PREPACK, PREPACKED))
    if before not in names or after not in names:
        return function, arguments, cold
    pack, packed = module.get_function(before), module.get_function(after)
    if not isinstance(pack, KernelFunction) or not isinstance(packed, KernelFunction):
        return function, arguments, cold
    by_name = dict(zip(_names(function.entry), arguments))
    sources = [by_name[name] for name in _names(pack.entry) if name in by_name]
    made = [
        empty([size for size in spec.shape or () if isinstance(size, int)], spec.dtype, place)
        for spec in pack.entry.args[len(sources) :]
    ]
    pack(*sources, *made)
    by_name.update(zip(_names(pack.entry)[len(sources) :], made))
    names_of_weights = {_names(function.entry)[at] for at in cold} | set(_names(pack.entry)[len(sources) :])
    taken = _names(packed.entry)
    places = tuple(at for at, name in enumerate(taken) if name in names_of_weights)
    return packed, [by_name[name] for name in taken], places


def _names(entry: EntryPoint) -> list[str]:
    return [spec.name for spec in entry.args]
