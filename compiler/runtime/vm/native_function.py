"""Functions of the executable that are machine code: arrays in, arrays out, no Python in between."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

from compiler.artifact import FIRST_CHECK, ArgSpec
from compiler.errors import ArgumentError, ArtifactError
from compiler.extents import parse_extent
from compiler.runtime.core.code.cpu_function import CPUCall, CPUFunction, kernel_failure
from compiler.runtime.core.device import cpu
from compiler.runtime.core.ndarray import ArrayKind, NDArray
from compiler.runtime.core.values import ShapeTuple
from compiler.runtime.vm.bytecode import Native
from compiler.runtime.vm.made_results import MadeResults
from compiler.runtime.vm.results import ResultMemory
from compiler.runtime.vm.signature import Info, TupleInfo

Results = list[ArrayKind]
Known = tuple[Results, tuple[int, ...]]
_pointer = attrgetter("_pointer")
signature = attrgetter("_signature")
"""The signature of an array. Raises AttributeError for another value."""
_MOST_SHAPES = 1024  # combinations of arguments' shapes that a function remembers


class NativeFunction:
    """Calls a function's machine code with its arguments, and returns results as the interpreter does.

    A call with known shapes and types is not checked again: `look_up` finds it by them.
    """

    def __init__(self, name: str, native: Native, code: CPUFunction, result: Info, memory: ResultMemory) -> None:
        """`result` is what the function gives; `memory` makes the arrays for it.

        `makes_results`: it allocates memory for some results itself, because their shapes are not known before.
        """
        self.name = name
        self._known: dict[tuple[Any, ...], Known] = {}
        self._last: tuple[tuple[Any, ...], Known] | tuple[None, None] = (None, None)
        self._code = code
        self._take = memory.take
        self._specs = code.entry.args[: len(code.entry.args) - code.entry.results]
        self._outs = code.entry.args[len(self._specs) :]
        slots = len(code.entry.args) + len(code.entry.implicit)
        self._pack_pointers = struct.Struct(f"={slots}q").pack
        self._numbers = native.results
        self._made = MadeResults(code.entry)
        self.makes_results = bool(code.entry.made)
        self._single = not self.makes_results and not isinstance(result, TupleInfo) and native.results == (0,)
        self._result = result

    def __call__(self, *args: Any) -> Any:
        """Run on arguments that were checked: arrays, numbers, shapes and tuples of them."""
        flat = tuple(_flattened(args))
        results, implicit = self._shapes(flat)
        outs = self._memory(results)
        given = self._finish(self._code._call(self._code._pack((*flat, *outs))), flat, outs)
        if not self.makes_results and all(arg.__class__ is NDArray and arg._signature is not None for arg in args):
            if len(self._known) >= _MOST_SHAPES:
                self._known.clear()
            self._known[tuple(map(signature, args))] = results, implicit
        return given

    def look_up(self, signatures: tuple[Any, ...]) -> Known | None:
        """Return the checked call for arrays of these signatures, if such were passed before."""
        last, found = self._last
        if last == signatures:
            return found
        found = self._known.get(signatures)
        if found is not None:
            self._last = signatures, found
        return found

    def again(self, arrays: tuple[NDArray, ...], known: Known) -> Any:
        """Run on arrays that `look_up` has found."""
        results, implicit = known
        outs = list(map(self._take, results))
        slots = self._pack_pointers(*map(_pointer, arrays), *map(_pointer, outs), *implicit)
        status = self._code._call(slots)
        if self._single and not status:
            return outs[0]
        return self._finish(status, arrays, outs)

    def _memory(self, results: Results) -> list[NDArray]:
        """Arrays for the results."""
        outs = list(map(self._take, results))
        if self.makes_results:
            self._made.begin(outs)
        return outs

    @property
    def outs(self) -> tuple[ArgSpec, ...]:
        """The shapes and types of the results for which it allocates memory."""
        return self._outs

    @property
    def numbers(self) -> tuple[int, ...]:
        """The origin of each array that the function returns: i for result i, -1 - i for argument i."""
        return self._numbers

    def sizes(self, args: Sequence[Any]) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
        """Return the shapes of the results for these arguments, and the numbers after them in the slots.

        Arguments are numbers, or anything with a shape.
        """
        known = self._values(args)
        implicit = tuple([parse_extent(arg.value).value(known) for arg in self._code.entry.implicit])
        return [_shape(spec, known) for spec in self._outs], implicit

    def call_at(self, slots: Sequence[int], args: Sequence[Any]) -> None:
        """Run on the caller's memory.

        Its slots are addresses and numbers of the arguments, addresses of the results, and numbers. `args` are what the
        slots stand for. They were checked: shapes, types, 64-byte alignment.
        """
        status = self._code._call(self._pack_pointers(*slots))
        if status:
            raise self._failure(status, args)

    def _failure(self, status: int, flat: Sequence[Any]) -> BaseException:
        checks = self._code.entry.checks
        if 0 <= status - FIRST_CHECK < len(checks):
            message = _filled(checks[status - FIRST_CHECK], self._values(flat))
            return ArgumentError(message, detail={"function": self.name, "code": status})
        return kernel_failure(self.name, status)

    def _finish(self, status: int, flat: Sequence[Any], outs: Sequence[NDArray]) -> Any:
        if status:
            self._made.drop(outs)
            raise self._failure(status, flat)
        if self.makes_results:
            outs = self._made.taken(outs)
        return _nested(self._result, iter([outs[i] if i >= 0 else flat[-1 - i] for i in self._numbers]))

    def bind(self, args: Sequence[Any]) -> CPUCall:
        """A call with its arguments packed and its results allocated, to be timed in a native loop."""
        flat = tuple(_flattened(args))
        outs = self._memory(self._shapes(flat)[0])
        call = self._code.bind((*flat, *outs), cpu())
        self._made.drop_with(call, outs)
        return call

    def _shapes(self, flat: Sequence[Any]) -> tuple[Results, tuple[int, ...]]:
        """The shapes of the results that belong to these arguments, and the numbers that follow the arguments."""
        shapes, implicit = self.sizes(flat)
        return [ArrayKind.of(shape, spec.dtype) for shape, spec in zip(shapes, self._outs)], implicit

    def _values(self, flat: Sequence[Any]) -> dict[str, int]:
        """Return what extents are made of, by name: the numbers that are passed, and the arrays' dimensions."""
        numbers = [(spec.name, arg) for spec, arg in zip(self._specs, flat) if spec.shape is None]
        known = {name: arg for name, arg in numbers if isinstance(arg, int)}
        for spec, arg in zip(self._specs, flat):
            for extent, size in zip(spec.shape or (), getattr(arg, "shape", ())):
                if isinstance(extent, str) and parse_extent(extent).is_name:
                    known.setdefault(extent, size)
        return known


def _filled(message: str, known: dict[str, int]) -> str:
    """A check's message, with values in the place of extents in braces."""

    def value(extent: re.Match[str]) -> str:
        try:
            return str(parse_extent(extent[1]).value(known))
        except (ArtifactError, NameError, ZeroDivisionError):
            return extent[1]

    return re.sub(r"\{([^{}]*)\}", value, message)


def _shape(spec: ArgSpec, known: dict[str, int]) -> tuple[int, ...]:
    return tuple([parse_extent(size).value(known) if isinstance(size, str) else size for size in spec.shape or ()])


def _flattened(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, ShapeTuple):
            yield from value
        elif isinstance(value, tuple):
            yield from _flattened(value)
        else:
            yield value


def _nested(info: Info, given: Iterator[Any]) -> Any:
    return tuple([_nested(item, given) for item in info.fields]) if isinstance(info, TupleInfo) else next(given)
