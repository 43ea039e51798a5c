"""Call machine code with tensors where they lie.

An array is copied only if it is scattered or badly aligned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch

from compiler.frontend.torch.compile.region import Region
from compiler.frontend.torch.dtypes import DTYPES
from compiler.frontend.torch.tensors import from_torch, to_torch
from compiler.runtime.core.device import cpu
from compiler.runtime.vm.machine import VirtualMachine
from compiler.runtime.vm.native_function import NativeFunction
from compiler.runtime.vm.vm_executable import VMExecutable

_ALIGNMENT = 63
_MOST_SIZES = 1024
"""Combinations of sizes whose results' shapes are remembered."""


class CompiledRegion(torch.nn.Module):  # type: ignore[misc]
    """A part of a graph that is compiled. Takes what the graph takes, gives what it gives."""

    def __init__(self, region: Region, executable: VMExecutable) -> None:
        super().__init__()
        machine = VirtualMachine(executable, cpu())
        main: Any = machine["main"]
        self._machine = machine  # the constants that the machine code reads are its
        self.single = len(region.results) == 1
        self._call: Callable[[Sequence[Any]], list[Any]]
        native = None if main.native is None or main.native.makes_results else main.native
        self._call = _called(main) if native is None else _Native(native)
        sizes = _Sizes(region.inputs)
        self._finish = [_finisher(known, place, sizes) for known, place in zip(region.results, region.made)]

    def forward(self, *args: Any) -> Any:
        made = self._call(args)
        results = [finish(args, made) for finish in self._finish]
        return results[0] if self.single else tuple(results)


class _Native:
    """Passes addresses to a function of machine code. Its results are memory of torch."""

    def __init__(self, native: NativeFunction) -> None:
        self._native = native
        self._dtypes = [DTYPES[spec.dtype] for spec in native.outs]
        self._known: dict[tuple[Any, ...], tuple[list[tuple[int, ...]], tuple[int, ...]]] = {}

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        held, slots, key = [], [], []
        for arg in args:
            if arg.__class__ is int:
                held.append(arg)
                slots.append(arg)
                key.append(arg)
                continue
            tensor = arg if arg.is_contiguous() else arg.contiguous()
            address = tensor.data_ptr()
            if address & _ALIGNMENT:
                tensor = tensor.clone(memory_format=torch.contiguous_format)
                address = tensor.data_ptr()
            held.append(tensor)
            slots.append(address)
            key.append(tensor.shape)
        known = self._known.get(tuple(key))
        if known is None:
            known = self._known[tuple(key)] = self._native.sizes(held)
            if len(self._known) > _MOST_SIZES:
                self._known.clear()
        shapes, numbers = known
        outs = [torch.empty(shape, dtype=dtype) for shape, dtype in zip(shapes, self._dtypes)]
        self._native.call_at((*slots, *[out.data_ptr() for out in outs], *numbers), held)
        return [outs[place] if place >= 0 else held[-1 - place] for place in self._native.numbers]


def _called(main: Any) -> Callable[[Sequence[Any]], list[Any]]:
    """Call a function in the general way.
    It is not machine code as a whole, or makes memory for its results."""

    def call(args: Sequence[Any]) -> list[Any]:
        found = main(*[arg if isinstance(arg, int) else from_torch(arg) for arg in args])
        return [to_torch(item) for item in found]

    return call


# -- results -------------------------------------------------------------------------------------


class _Sizes:
    """The values of torch's symbols in a call."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self._places: dict[Any, tuple[int, int | None]] = {}
        for index, value in enumerate(inputs):
            sizes = list(enumerate(value.shape)) if hasattr(value, "shape") else [(None, value)]
            for axis, size in sizes:
                expr = getattr(getattr(size, "node", None), "expr", None)
                if isinstance(expr, sympy.Symbol):
                    self._places.setdefault(expr, (index, axis))

    def value(self, size: Any, args: Sequence[Any]) -> int:
        """A size in this call."""
        node = getattr(size, "node", None)
        if node is None:
            return int(size)
        expr = node.expr
        values = {symbol: self._of(symbol, args) for symbol in expr.free_symbols}
        return int(expr.xreplace(values) if values else expr)

    def _of(self, symbol: Any, args: Sequence[Any]) -> Any:
        index, axis = self._places[symbol]
        return sympy.Integer(args[index] if axis is None else args[index].shape[axis])


def _finisher(known: Any, place: int, sizes: _Sizes) -> Callable[[Sequence[Any], Sequence[Any]], Any]:
    """Return what makes a result of a call: of its arguments and of what the machine code made."""
    if place < 0:
        if known is None or isinstance(known, bool | int | float):
            return lambda args, made: known
        return lambda args, made: sizes.value(known, args)
    if known.is_contiguous():
        return lambda args, made: made[place]

    def laid_out(args: Sequence[Any], made: Sequence[Any]) -> Any:
        """Return the result in torch's layout, on which later operators may rely."""
        shape = [sizes.value(size, args) for size in known.shape]
        strides = [sizes.value(step, args) for step in known.stride()]
        return torch.empty_strided(shape, strides, dtype=known.dtype).copy_(made[place])

    return laid_out
