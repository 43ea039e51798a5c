"""Declarations that differ in little: elementwise operators of one tensor and of two."""

from __future__ import annotations

from collections.abc import Callable

from compiler.relax.nodes import Call, Expr
from compiler.relax.op.core.backward import Backward, Gradients
from compiler.relax.op.core.layout import follows
from compiler.relax.op.core.params import TensorArg
from compiler.relax.op.core.registry import Gradient, InferRule, OpPatternKind, RefusedPart, TeForm, operator, refused
from compiler.relax.op.core.rules import broadcast, like
from compiler.relax.op.core.work import per_output

NOT_SMOOTH = refused("its result is no floating point number, or a choice")
BITS = refused("it works on whole numbers")


def flat(use: Backward) -> Gradients:
    """The gradient of what is constant nearly everywhere: none passes."""
    return (None,) * len(use.call.args)


def unary(
    name: str, te: TeForm, doc: str, *, infer: InferRule | None = None, flops: int = 1, gradient: Gradient | RefusedPart
) -> Callable[[TensorArg], Call]:
    """The operator `relax.<name>` of one tensor `x`; it needs floats unless `infer` says otherwise."""

    def declared(x: TensorArg) -> Expr:
        raise AssertionError("a declaration")

    infer = like("x", floats=True) if infer is None else infer
    return elementwise(f"relax.{name}", declared, doc, te, infer, flops, gradient)


def elementwise(
    name: str, declared: Callable[..., Expr], doc: str, te: TeForm, infer: InferRule, flops: int,
    gradient: Gradient | RefusedPart, pattern: OpPatternKind = OpPatternKind.ELEMWISE,
) -> Callable[..., Call]:  # fmt: skip
    """Make an operator of `declared`, which only has the parameters; its layout follows its inputs."""
    declared.__name__ = declared.__qualname__ = name.rpartition(".")[2]
    declared.__doc__ = doc
    return operator(
        name, infer=infer, te=te, pattern=pattern, flops=per_output(flops), layout=follows, gradient=gradient
    )(declared)


def binary(
    name: str, te: TeForm, doc: str, *, infer: InferRule | None = None, gradient: Gradient | RefusedPart
) -> Callable[[TensorArg, TensorArg], Call]:
    """The operator `relax.<name>` of two tensors `x1` and `x2` that broadcast."""

    def declared(x1: TensorArg, x2: TensorArg) -> Expr:
        raise AssertionError("a declaration")

    doc = f"{doc}, elementwise with broadcasting."
    infer = broadcast() if infer is None else infer
    return elementwise(f"relax.{name}", declared, doc, te, infer, 1, gradient, OpPatternKind.BROADCAST)
