"""Candidates that pack operands ahead of time are measured as they are used: packed once, timed without.

Such an artifact has three entries (`split_preproc` of lowering): `main`, `main_weight_prepack`, which packs, and
`main_prepacked`, which takes what that made in place of the operands. The outputs of the last are those checked.
"""

from __future__ import annotations

from typing import Any

from compiler.artifact import PREPACK, PREPACKED, EntryPoint
from compiler.runtime.core.device import Device
from compiler.runtime.core.kernel_function import KernelFunction
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import empty


def prepacked(module: Module, function: Any, arguments: list[Any], place: Device) -> tuple[Any, list[Any]]:
    """The function to time and its arguments: those given, unless `module` packs operands of `function` ahead. Raises
    KernelError or DeviceError when packing fails."""
    names = set(module.get_function_list())
    before, after = (f"{function.name}{suffix}" for suffix in (PREPACK, PREPACKED))
    if before not in names or after not in names:
        return function, arguments
    pack, packed = module.get_function(before), module.get_function(after)
    if not isinstance(pack, KernelFunction) or not isinstance(packed, KernelFunction):
        return function, arguments
    by_name = dict(zip(_names(function.entry), arguments))
    sources = [by_name[name] for name in _names(pack.entry) if name in by_name]
    made = [
        empty([size for size in spec.shape or () if isinstance(size, int)], spec.dtype, place)
        for spec in pack.entry.args[len(sources) :]
    ]
    pack(*sources, *made)
    by_name.update(zip(_names(pack.entry)[len(sources) :], made))
    return packed, [by_name[name] for name in _names(packed.entry)]


def _names(entry: EntryPoint) -> list[str]:
    return [spec.name for spec in entry.args]
