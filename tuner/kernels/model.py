"""The kernels of a model: what a build of it would schedule, equal kernels once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from compiler.driver.graph import unscheduled
from compiler.driver.kernel_schedules import schedulable_work, separate_kernels
from compiler.ir.module import IRModule
from compiler.relax.nodes import Function
from compiler.relax.transform.packing.attach_layout_free_buffers import kernel_calls
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir.text.print_func import workload_key
from tuner.families.function import FunctionSpec
from tuner.families.sizes import SizeList

LEAST_WORK = 1 << 12
"""Operations of a kernel from which on it is a task: shorter ones take less than a microsecond."""

LEAST_FAMILY_WORK = 1 << 17
"""The same of a family, where all its sizes are `_USUAL`: it takes many trials."""
_USUAL = 64


@dataclass(frozen=True, slots=True)
class ModelKernel:
    """A kernel of a model, or a part of one that is scheduled by itself.
    `weight` says how many of the model's calls it stands for, `names` what they call it. Calls of a kernel of
    several parts are those of its largest part."""

    name: str
    names: tuple[str, ...]
    func: n.PrimFunc
    weight: int

    @property
    def key(self) -> str:
        """Its workload's key."""
        return workload_key(self.func)


def model_kernels(
    mod: IRModule | Function, target: Target, params: Mapping[str, Any] | None = None
) -> tuple[ModelKernel, ...]:
    """The kernels that a build of `mod` for `target` schedules, those with the most work first.

    Parts of a kernel that are scheduled apart, as those of attention, are kernels of their own. `params` are values
    of parameters of "main": known weights may be packed. Kernels with dimensions that are only known at run time are
    left out, and so are kernels of a few operations.
    """
    return kernels_in(unscheduled(mod, target.resolved(), params))


def kernels_in(module: IRModule) -> tuple[ModelKernel, ...]:
    """The kernels worth tuning whose sizes are known. `unscheduled` made the module."""
    calls = Counter(gvar for func in module.values() if isinstance(func, Function) for _, gvar, _ in kernel_calls(func))
    found: dict[str, ModelKernel] = {}
    work: dict[str, float] = {}
    for gvar, count in calls.items():
        func = module.get(gvar)
        if not isinstance(func, n.PrimFunc) or not _is_static(func):
            continue
        parts = separate_kernels(func)
        largest = max(parts, key=lambda part: schedulable_work(part) or 0.0)
        for number, part in enumerate(parts, 1):
            each = schedulable_work(part)
            if each is None or each < LEAST_WORK:
                continue
            key, name = workload_key(part), gvar.name_hint
            before = found.get(key) or ModelKernel(f"{name}.{number}" if len(parts) > 1 else name, (), part, 0)
            called = (name,) if part is largest else ()
            found[key] = replace(before, names=(*before.names, *called), weight=before.weight + count)
            work[key] = each * found[key].weight
    return tuple(found[key] for key in sorted(found, key=lambda key: -work[key]))


def parts_of_calls(module: IRModule) -> dict[str, tuple[str, ...]]:
    """The keys of the kernels that each function of the graph is scheduled as, by its name.
    `unscheduled` made the module."""
    return {
        gvar.name_hint: tuple(map(workload_key, separate_kernels(func)))
        for gvar, func in module.functions_items()
        if isinstance(func, n.PrimFunc) and _is_static(func)
    }


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """A kernel of a model whose sizes only a call tells; equal ones are one.
    `weight` is how often the model calls it."""

    spec: FunctionSpec
    names: tuple[str, ...]
    weight: int


def families_in(module: IRModule) -> tuple[ModelFamily, ...]:
    """The kernels worth tuning of a model with symbolic dimensions, as families.
    `unscheduled` made the module."""
    calls = Counter(gvar for func in module.values() if isinstance(func, Function) for _, gvar, _ in kernel_calls(func))
    found: dict[str, ModelFamily] = {}
    for gvar, count in calls.items():
        func = module.get(gvar)
        if not isinstance(func, n.PrimFunc) or _is_static(func) or schedulable_work(func) is None:
            continue
        spec = FunctionSpec.of(func, gvar.name_hint)
        if spec is None or not _is_worth_it(spec):
            continue
        before = found.get(spec.key) or ModelFamily(spec, (), 0)
        found[spec.key] = replace(before, names=(*before.names, gvar.name_hint), weight=before.weight + count)
    return tuple(found.values())


def _is_worth_it(spec: FunctionSpec) -> bool:
    sizes = SizeList(spec.symbols, ((_USUAL,) * len(spec.symbols),))
    work = schedulable_work(spec.func_at(sizes, sizes.sizes[0]))
    return work is not None and work >= LEAST_FAMILY_WORK


def _is_static(func: n.PrimFunc) -> bool:
    shapes = [buffer.shape for buffer in func.buffer_map.values()]
    return len(func.params) == len(shapes) and all(isinstance(size, n.IntImm) for shape in shapes for size in shape)
