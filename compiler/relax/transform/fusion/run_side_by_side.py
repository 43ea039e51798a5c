"""Neighbouring kernels that do not need each other's results run at the same time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.analysis.reshape_pattern import has_reshape_pattern
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.fusion.merge import KernelCall, MergedKernel
from compiler.relax.fusion.side_by_side import Stage, beside, seconds_of, stages_of
from compiler.relax.op.execution.calls import call_tir
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr

_NEAR = 4  # kernels further on: results of those far apart would take memory for longer
_LEAST_GAIN = 0.03  # of the kernels' time: less than that is lost where threads begin in another kernel's data


@relax_pass("RunSideBySide", opt_level=1)
def run_side_by_side(mod: IRModule, context: PassContext) -> IRModule:
    """Make one kernel of neighbours that need nothing of each other, where that leaves fewer threads idle.

    lv = R.call_tir(cls.conv, (x,), …)     →    both = R.call_tir(cls.conv_and_conv1, (x,), […])
    lv1 = R.call_tir(cls.conv1, (x,), …)        lv = both[0]
                                                lv1 = both[1]

    Only in dataflow blocks, for the current target, a CPU of several cores. The kernels are scheduled. The number of
    their tasks tells how long threads wait for the last of them: see `fusion/side_by_side.py`.
    """
    target = Target.current(allow_none=True)
    threads = (target.num_cores or len(os.sched_getaffinity(0))) if target is not None and target.is_cpu else 1
    return rewritten(mod, lambda own: _SideBySide(own, threads)) if threads > 1 else mod


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A call of a kernel with one result."""

    var: r.Var
    call: r.Call
    gvar: GlobalVar
    func: n.PrimFunc
    stages: tuple[Stage, ...]

    @property
    def args(self) -> tuple[RelaxExpr, ...]:
        assert isinstance(self.call.args[1], r.Tuple)
        return self.call.args[1].fields


@dataclass(frozen=True, slots=True)
class _Step:
    """A binding, or kernels that run side by side. A fixed step stays where it is among the others."""

    binding: r.Binding
    kernels: tuple[_Kernel, ...]
    makes: frozenset[r.Var]
    needs: frozenset[r.Var]
    is_fixed: bool


class _SideBySide(PyExprMutator):
    def __init__(self, mod: IRModule, threads: int) -> None:
        super().__init__(mod)
        self._threads = threads
        self._stages: dict[GlobalVar, tuple[Stage, ...]] = {}
        self._made: dict[tuple[object, ...], tuple[GlobalVar, tuple[object, ...]]] = {}

    def visit_dataflow_block_(self, block: r.DataflowBlock) -> r.BindingBlock:
        steps = [self._step(binding) for binding in block.bindings]
        at = 0
        while at < len(steps):
            partner = self._partner(steps, at)
            if partner is None:
                at += 1
            else:
                steps = _joined(steps, at, partner)
        if len(steps) == len(block.bindings):
            return super().visit_dataflow_block_(block)
        bindings = [binding for step in steps for binding in self._bindings(step)]
        return super().visit_dataflow_block_(r.DataflowBlock(tuple(bindings), block.span))

    # -------------------------------------------------------------------------- what may run together

    def _step(self, binding: r.Binding) -> _Step:
        value = binding.value
        kernel = self._kernel(binding) if isinstance(binding, r.VarBinding) else None
        needs = frozenset(node for node in walk(value) if isinstance(node, r.Var))
        fixed = not _only_computes(value) or not isinstance(binding, r.VarBinding)
        return _Step(binding, () if kernel is None else (kernel,), frozenset({binding.var}), needs, fixed)

    def _kernel(self, binding: r.VarBinding) -> _Kernel | None:
        call = binding.value
        if not isinstance(call, r.Call) or not isinstance(call.op, Op) or call.op.name != "relax.call_tir":
            return None
        gvar, *rest = call.args
        func = self.builder_.get().get(gvar) if isinstance(gvar, GlobalVar) else None
        if not isinstance(gvar, GlobalVar) or not isinstance(func, n.PrimFunc) or len(rest) != 1:
            return None
        if not isinstance(rest[0], r.Tuple) or not isinstance(call.sinfo_args[0], r.TensorStructInfo):
            return None
        if not all(isinstance(arg, r.Var | r.Constant) for arg in rest[0].fields):
            return None
        if gvar not in self._stages:
            self._stages[gvar] = () if has_reshape_pattern(func) else stages_of(func)
        stages = self._stages[gvar]
        return _Kernel(binding.var, call, gvar, func, stages) if stages else None

    def _partner(self, steps: Sequence[_Step], at: int) -> int | None:
        """The step after `at` beside which it gains most; None where there is none."""
        first = steps[at]
        if not first.kernels:
            return None
        after = set(first.makes)  # what needs a result of the step
        best, found, seen = _LEAST_GAIN, None, 0
        for place in range(at + 1, len(steps)):
            step = steps[place]
            if step.is_fixed or seen == _NEAR:
                break
            seen += bool(step.kernels)
            if not step.needs.isdisjoint(after):
                after |= step.makes
            elif step.kernels:
                gain = self._gain(first, step)
                best, found = (gain, place) if gain > best else (best, found)
        return found

    def _gain(self, one: _Step, other: _Step) -> float:
        """How much less time two steps take as one, of their time."""
        stages = [[kernel.stages for kernel in step.kernels] for step in (one, other)]
        apart = sum(seconds_of(kernels, self._threads) for kernels in stages)
        return 1 - seconds_of([*stages[0], *stages[1]], self._threads) / apart if apart else 0.0  # arrays may be empty

    # ------------------------------------------------------------------------------------ the kernel

    def _bindings(self, step: _Step) -> list[r.Binding]:
        if len(step.kernels) < 2:
            return [step.binding]
        args = list({id(arg): arg for kernel in step.kernels for arg in kernel.args}.values())
        numbers = {id(arg): number for number, arg in enumerate(args)}
        places = tuple([tuple([numbers[id(arg)] for arg in kernel.args]) for kernel in step.kernels])
        key = tuple([kernel.gvar for kernel in step.kernels]), places
        if key not in self._made:
            made = self._merged(step.kernels, places)
            name = "_and_".join(kernel.gvar.name_hint for kernel in step.kernels)
            self._made[key] = self.builder_.add_func(made.func, name), made.inputs
        gvar, inputs = self._made[key]
        infos: list[Any] = [kernel.call.sinfo_args[0] for kernel in step.kernels]
        call = call_tir(gvar, [args[place] for place in inputs if isinstance(place, int)], infos)
        both = r.DataflowVar("both", r.TupleStructInfo(tuple(infos)))
        made_of = [r.VarBinding(kernel.var, r.TupleGetItem(both, i)) for i, kernel in enumerate(step.kernels)]
        return [r.VarBinding(both, call), *made_of]

    def _merged(self, kernels: Sequence[_Kernel], places: Sequence[Sequence[int]]) -> MergedKernel:
        shapes: dict[object, tuple[PrimExpr, ...]] = {}
        steps: list[KernelCall] = []
        results = [f"result {number}" for number in range(len(kernels))]
        for kernel, inputs, result in zip(kernels, places, results):
            buffers = [kernel.func.buffer_map[param] for param in kernel.func.params]
            shapes |= {key: buffer.shape for key, buffer in zip([*inputs, result], buffers)}
            steps.append(KernelCall(kernel.func, tuple(inputs), (result,), ()))
        return beside(steps, results, shapes, self._threads)


def _only_computes(value: RelaxExpr) -> bool:
    """Whether a value may be computed earlier or later than others."""
    match value:
        case r.Var() | r.TupleGetItem() | r.Tuple() | r.Constant():
            return True
        case r.Call(op=Op(name=name)):
            return name in ("relax.call_tir", "relax.reshape")
    return False


def _joined(steps: Sequence[_Step], one: int, other: int) -> list[_Step]:
    """The steps with two as one, and what needs the first one's results behind it."""
    first, second = steps[one], steps[other]
    before: list[_Step] = []
    behind: list[_Step] = []
    after = set(first.makes)
    for step in steps[one + 1 : other]:
        late = not step.needs.isdisjoint(after)
        after |= step.makes if late else frozenset()
        (behind if late else before).append(step)
    both = _Step(
        first.binding, (*first.kernels, *second.kernels), first.makes | second.makes, first.needs | second.needs, False
    )
    return [*steps[:one], *before, both, *behind, *steps[other + 1 :]]
