"""Go through a function's bindings from the result back, and add up the gradient of each value."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.dtype import parse_dtype
from compiler.errors import IRError
from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.op.core.registry import RefusedPart, operator_of
from compiler.relax.op.elementwise.binary import add
from compiler.relax.op.movement.create import ones, zeros, zeros_like
from compiler.relax.transform.gradient.checkpoints import Checkpoints
from compiler.te.where import at

Slope = RelaxExpr | list["Slope | None"]
"""The gradient of a value: an expression, or for a tuple a list that says it field by field. None: 0."""


class BackwardPass:
    """The gradients, so far, of values that depend on `params`. It emits the sums."""

    def __init__(self, builder: BlockBuilder, params: Sequence[r.Var], checkpoints: Checkpoints) -> None:
        self._builder = builder
        self._checkpoints = checkpoints
        self._slopes: dict[r.Var, Slope] = {}
        self._depends: set[r.Var] = set(params)
        for binding in checkpoints.bindings:
            if _has_floats(r.info_of(binding.var)) and any(node in self._depends for node in walk(binding.value)):
                self._depends.add(binding.var)

    def run(self, target: RelaxExpr, info: r.TensorStructInfo) -> None:
        """Go back from `target`, one number, of which `info` is known."""
        whole = target.tuple_value if isinstance(target, r.TupleGetItem) else target
        if not isinstance(whole, r.Var) or whole not in self._depends:
            return
        self._add(target, self._builder.emit(ones((), info.dtype), f"{whole.name_hint}_adjoint"))
        for binding in reversed(self._checkpoints.bindings):
            slope = self._slopes.pop(binding.var, None)
            if slope is not None:
                self._pass(binding, slope)

    def gradient_of(self, param: r.Var) -> RelaxExpr:
        """The gradient of a parameter, once all bindings were gone through."""
        return self._whole(self._slopes.get(param), param)

    # ------------------------------------------------------------------------- one binding

    def _pass(self, binding: r.Binding, slope: Slope) -> None:
        """Pass the gradient of a variable on to the operands of its value."""
        value = binding.value
        match value:
            case r.Var() | r.Tuple() | r.TupleGetItem():
                self._add(value, slope)
            case r.Call(op=Op()):
                self._operator(binding.var, value, slope)
            case r.Call():
                raise _refusal(
                    binding, f"the call of {r.describe(value.op)}",
                    "put its body in its place: relax.transform.InlinePrivateFunctions"
                    if isinstance(value.op, GlobalVar) else "call_tir_with_grad calls a kernel with a gradient",
                )  # fmt: skip
            case r.If():
                raise _refusal(binding, "a condition", "choose between values with relax.op.where")
            case r.Function():
                raise _refusal(binding, "a function", "lift it with relax.transform.LambdaLift")

    def _operator(self, var: r.Var, call: r.Call, slope: Slope) -> None:
        operator = operator_of(call.op)  # type: ignore[arg-type]
        if isinstance(operator.gradient, RefusedPart):
            raise IRError(
                f"{operator.name} has no gradient: {operator.gradient.reason}{at(call.span)}",
                hint="relax.op.grad.no_grad ends gradients; call_tir_with_grad calls a kernel with one",
            )
        result, again = self._checkpoints.again((var, call), self._builder)
        known = self._builder.normalize(again)
        found = operator.gradients(result, known, self._whole(slope, result), self._builder)
        for arg, part in zip(call.args, found):
            if part is not None:
                self._add(arg, part)

    # -------------------------------------------------------------------------------- sums

    def _add(self, target: RelaxExpr, slope: Slope) -> None:
        """Add to the gradient of a value."""
        match target:
            case r.Var() if target in self._depends:
                held = self._slopes.get(target)
                self._slopes[target] = self._sum(held, slope, r.info_of(target), target.name_hint)
            case r.Tuple():
                for index, item in enumerate(target.fields):
                    part = self._field(slope, index, item)
                    if part is not None:
                        self._add(item, part)
            case r.TupleGetItem():
                info = r.info_of(target.tuple_value)
                assert isinstance(info, r.TupleStructInfo)
                fields: list[Slope | None] = [None] * len(info.fields)
                fields[target.index] = slope
                self._add(target.tuple_value, fields)

    def _field(self, slope: Slope, index: int, of: RelaxExpr | None) -> Slope | None:
        """The gradient of a field of a tuple.
        None also for a field that depends on no parameter in question."""
        if isinstance(slope, list):
            return slope[index]
        if isinstance(of, r.Var) and of not in self._depends:
            return None
        return slope.fields[index] if isinstance(slope, r.Tuple) else self._builder.emit(r.TupleGetItem(slope, index))

    def _sum(self, held: Slope | None, more: Slope | None, info: r.StructInfo | None, name: str) -> Slope:
        if isinstance(info, r.TupleStructInfo):
            found: list[Slope | None] = []
            for index, item in enumerate(info.fields):
                a, b = (None if s is None else self._field(s, index, None) for s in (held, more))
                found.append(None if a is None and b is None else self._sum(a, b, item, name))
            return found
        if held is None or more is None:
            kept = held if more is None else more
            assert kept is not None
            return kept
        assert not isinstance(held, list)
        assert not isinstance(more, list)
        return self._builder.emit(add(held, more), f"{name}_adjoint")

    def _whole(self, slope: Slope | None, of: RelaxExpr) -> RelaxExpr:
        """The gradient of the value `of` as one expression, with zeros where there is none."""
        info = r.info_of(of)
        if isinstance(info, r.TupleStructInfo):
            if slope is not None and not isinstance(slope, list):
                return slope
            parts = slope if isinstance(slope, list) else [None] * len(info.fields)
            made = []
            for index, part in enumerate(parts):
                read = r.TupleGetItem(of, index)
                field = of.fields[index] if isinstance(of, r.Tuple) else self._builder.normalize(read)
                made.append(self._whole(part, field))
            return r.Tuple(tuple(made))
        if isinstance(slope, RelaxExpr):
            return slope
        assert isinstance(info, r.TensorStructInfo)
        return self._builder.emit(
            zeros_like(of) if info.dims is None or not info.dtype else zeros(r.ShapeExpr(info.dims), info.dtype)
        )


def _has_floats(info: r.StructInfo | None) -> bool:
    """Whether a value may hold floating point numbers: only those have gradients."""
    match info:
        case r.TensorStructInfo():
            return not info.dtype or parse_dtype(info.dtype).is_float
        case r.TupleStructInfo():
            return any(map(_has_floats, info.fields))
    return True


def _refusal(binding: r.Binding, what: str, hint: str) -> IRError:
    return IRError(f"gradients do not pass through {what}: {binding.var.name_hint}{at(binding.span)}", hint=hint)
