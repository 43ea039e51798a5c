"""Recompute values for the gradients, so that they need not be kept until then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from compiler.ir.base import Op, RelaxExpr
from compiler.ir.visit import walk
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import Binding, Call, DataflowVar, Function, Var, VarBinding
from compiler.relax.nodes.renew import Renewal
from compiler.relax.op.grad import start_checkpoint

_START, _END = "relax.grad.start_checkpoint", "relax.grad.end_checkpoint"


@dataclass(slots=True)
class Checkpoints:
    """A function without marks of checkpoints, and how values between marks are computed again.

    A value is between marks if it follows from what `start_checkpoint` gives, other than through `end_checkpoint`.
    """

    bindings: list[Binding] = field(default_factory=list)
    _renewal: Renewal = field(default_factory=Renewal)
    _between: dict[Var, RelaxExpr] = field(default_factory=dict)
    _kept: dict[Var, RelaxExpr] = field(default_factory=dict)
    _again: dict[Var, RelaxExpr] = field(default_factory=dict)

    @staticmethod
    def of(func: Function) -> tuple[Checkpoints, RelaxExpr]:
        """The checkpoints of `func`, and its result."""
        found = Checkpoints()
        for block in func.body.blocks:
            for binding in block.bindings:
                found._take(binding)
        return found, found._renewal.expr(func.body.body)

    def _take(self, binding: Binding) -> None:
        value = binding.value
        mark = value.op.name if isinstance(value, Call) and isinstance(value.op, Op) else ""
        if mark in (_START, _END) and isinstance(value, Call):
            kept = self._renewal.expr(value.args[0])
            if mark == _START:
                self._kept[binding.var] = kept
            if isinstance(binding.var, DataflowVar) or not isinstance(kept, DataflowVar):
                self._renewal.variables[binding.var] = kept
            else:  # what comes after the block uses it
                self.bindings.append(VarBinding(binding.var, kept, binding.span))
            return
        marked = any(node in self._between or node in self._kept for node in walk(value))
        if marked and isinstance(binding, VarBinding):
            self._between[binding.var] = value
        self.bindings.append(self._renewal.binding(binding))

    def again(self, exprs: Sequence[RelaxExpr], builder: BlockBuilder) -> list[RelaxExpr]:
        """Return `exprs` in terms of recomputed values. What was not recomputed yet is emitted here."""
        missing = self._missing(exprs)
        for var, value in self._between.items() if missing else ():
            if var in missing:
                self._again[var] = builder.emit(self._anew(value, builder), f"{var.name_hint}_cp")
        used = {node for expr in exprs for node in walk(expr) if isinstance(node, Var) and node in self._between}
        over = {var: self._again[var] for var in used}
        return [Renewal(over).expr(expr) for expr in exprs] if over else list(exprs)

    def _missing(self, exprs: Sequence[RelaxExpr]) -> set[Var]:
        """The values between marks that `exprs` need, directly or not, and that were not computed again."""
        found: set[Var] = set()
        stack = list(exprs)
        while stack:
            for node in walk(stack.pop()):
                if isinstance(node, Var) and node in self._between and node not in found and node not in self._again:
                    found.add(node)
                    stack.append(self._between[node])
        return found

    def _anew(self, value: RelaxExpr, builder: BlockBuilder) -> RelaxExpr:
        """A value between marks, over what is computed again and what is kept.

        It begins with a mark, so that nobody takes it for the value that was there before.
        """
        over: dict[Var, RelaxExpr] = {}
        for var in [node for node in walk(value) if isinstance(node, Var)]:
            if var in self._kept and var not in self._again:
                self._again[var] = builder.emit(start_checkpoint(self._kept[var]), f"{var.name_hint}_cp")
            found = self._again.get(var, self._renewal.variables.get(var))
            if found is not None:
                over[var] = found
        anew: RelaxExpr = Renewal(over).expr(value)
        return anew
