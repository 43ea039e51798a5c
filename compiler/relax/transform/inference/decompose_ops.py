"""Operators that are made of others are taken apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.errors import ArgumentError
from compiler.ir.base import RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.nodes import Call, Constant, Function, TensorStructInfo, Tuple, const, info_of
from compiler.relax.op.elementwise.binary import add, divide, multiply, subtract
from compiler.relax.op.elementwise.unary import sqrt
from compiler.relax.op.movement.dimensions import expand_dims
from compiler.relax.op.reduction.statistical import mean, variance
from compiler.relax.transform.call_rewriter import CallRewriter, Rule, rewrite_calls
from compiler.relax.transform.passes import relax_pass


@relax_pass("DecomposeOpsForInference", opt_level=1)
def decompose_ops_for_inference(mod: IRModule, context: PassContext, *, func_name: str | None = None) -> IRModule:
    """Decompose batch norm, with its moving mean and variance, whatever its `training` says.

    lv = R.nn.batch_norm(x, gamma, beta, mean, var, axis=1)    →    lv = (x - mean) / sqrt(var + epsilon)
    gv = lv[0]                                                      gv = lv * gamma + beta

    In all functions, or in `func_name`. The moving values come back as they were.
    """
    return _in_functions(mod, func_name, {"relax.nn.batch_norm": _with_moving})


@relax_pass("DecomposeOpsForTraining", opt_level=1)
def decompose_ops_for_training(mod: IRModule, context: PassContext, *, func_name: str | None = None) -> IRModule:
    """Decompose batch norm, in training with the data's own mean and variance, and layer norm.

    lv = R.nn.batch_norm(x, gamma, beta, mean, var, axis=1)    →    own = R.mean(x, axes but 1)
    gv = lv[0]                                                      lv = (x - own) / sqrt(R.variance(x) + epsilon)
                                                                    gv = lv * gamma + beta
                                                                    new_mean = 0.9 * mean + 0.1 * own

    In all functions, or in `func_name`.
    """
    return _in_functions(mod, func_name, {"relax.nn.batch_norm": _batch_norm, "relax.nn.layer_norm": _layer_norm})


def _in_functions(mod: IRModule, func_name: str | None, rules: Mapping[str, Rule]) -> IRModule:
    if func_name is None:
        return rewrite_calls(mod, rules)
    func = mod.get(func_name)
    if not isinstance(func, Function):
        raise ArgumentError(f"{func_name!r} is no graph function of the module")
    name = mod.get_global_var(func_name)
    made = rewrite_calls(mod, {key: _only_in(func, rule) for key, rule in rules.items()})
    return mod.with_functions({**mod.functions, name: made[name]})


def _only_in(func: Function, rule: Rule) -> Rule:
    return lambda rewriter, call: rule(rewriter, call) if rewriter.function is func else None


def number(value: float, like: RelaxExpr) -> Constant:
    """A constant of the element type of a tensor."""
    info = info_of(like)
    assert isinstance(info, TensorStructInfo)
    return const(value, info.dtype)


def along(vector: RelaxExpr, axis: int, rank: int) -> RelaxExpr:
    """Reshape a vector so that it broadcasts along `axis` of a tensor of `rank` dimensions."""
    others = [dim for dim in range(rank) if dim != axis]
    return expand_dims(vector, others) if others else vector


def _normalized(call: Call, average: RelaxExpr, spread: RelaxExpr, axis: int, rank: int) -> RelaxExpr:
    data, gamma, beta = call.args[:3]
    deviation = sqrt(add(spread, number(call.attrs["epsilon"], data)))
    made: Any = divide(subtract(data, along(average, axis, rank)), along(deviation, axis, rank))
    if call.attrs["scale"]:
        made = multiply(made, along(gamma, axis, rank))
    return add(made, along(beta, axis, rank)) if call.attrs["center"] else made


def _axis(call: Call) -> tuple[int, int] | None:
    """The dimension of channels, and how many dimensions there are."""
    info = info_of(call.args[0])
    if not isinstance(info, TensorStructInfo) or info.ndim < 1:
        return None
    return int(call.attrs["axis"]) % info.ndim, info.ndim


def _with_moving(rewriter: CallRewriter, call: Call) -> RelaxExpr | None:
    place = _axis(call)
    if place is None:
        return None
    moving_mean, moving_var = call.args[3:5]
    return Tuple((_normalized(call, moving_mean, moving_var, *place), moving_mean, moving_var))


def _batch_norm(rewriter: CallRewriter, call: Call) -> RelaxExpr | None:
    place = _axis(call)
    if place is None or not call.attrs["training"]:
        return _with_moving(rewriter, call)
    axis, rank = place
    data, moving = call.args[0], call.args[3:5]
    rest = [dim for dim in range(rank) if dim != axis]
    builder = rewriter.builder_
    own = [builder.emit(mean(data, rest)), builder.emit(variance(data, rest))]
    share = call.attrs["momentum"]
    moved = [
        add(multiply(number(1.0 - share, data), before), multiply(number(share, data), now))
        for before, now in zip(moving, own)
    ]
    return Tuple((_normalized(call, own[0], own[1], axis, rank), *moved))


def _layer_norm(rewriter: CallRewriter, call: Call) -> RelaxExpr | None:
    data, gamma, beta = call.args
    info = info_of(data)
    if not isinstance(info, TensorStructInfo) or info.ndim < 1:
        return None
    given = call.attrs["axes"]
    axes: Sequence[int] = [given] if isinstance(given, int) else [int(axis) for axis in given]
    if sorted(axis % info.ndim for axis in axes) != list(range(info.ndim - len(axes), info.ndim)):
        return None  # weights along other dimensions would have to be moved
    average = mean(data, list(axes), keepdims=True)
    spread = variance(data, list(axes), keepdims=True)
    made: Any = divide(subtract(data, average), sqrt(add(spread, number(call.attrs["epsilon"], data))))
    if call.attrs["scale"]:
        made = multiply(made, gamma)
    return add(made, beta) if call.attrs["center"] else made
