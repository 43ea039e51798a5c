"""Patterns that backends have in common. Each comes with names for its parts, as `FusionPattern` takes them."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.relax.dpl.make import is_op, wildcard
from compiler.relax.dpl.pattern import DFPattern

Annotated = tuple[DFPattern, dict[str, DFPattern]]


def make_fused_bias_activation_pattern(
    op_name: str, with_bias: bool = False, activation: str | None = None, allow_reshape: bool = False
) -> Annotated:
    """An operator of "lhs" and "rhs" (its call is "root"), a "bias" added, and an activation of that."""
    lhs, rhs = wildcard(), wildcard()
    root = is_op(op_name)(lhs, rhs)
    return _finished(root, {"lhs": lhs, "rhs": rhs, "root": root}, with_bias, activation, allow_reshape)


def make_conv2d_pattern(with_bias: bool = False, activation: str | None = None) -> Annotated:
    """A 2-D convolution of "lhs" with the weights "rhs"; its "bias" may be reshaped."""
    return make_fused_bias_activation_pattern("relax.nn.conv2d", with_bias, activation, allow_reshape=True)


def make_matmul_pattern(
    with_bias: bool = False, activation: str | None = None, transposed_rhs: bool = False
) -> Annotated:
    """A product of "lhs" and "rhs", the latter transposed if `transposed_rhs` says so."""
    lhs, rhs = wildcard(), wildcard()
    root = is_op("relax.matmul")(lhs, is_op("relax.permute_dims")(rhs) if transposed_rhs else rhs)
    return _finished(root, {"lhs": lhs, "rhs": rhs, "root": root}, with_bias, activation, False)


def make_residual_block_pattern(
    node_output: DFPattern | tuple[DFPattern, Mapping[str, DFPattern]],
    binary_op: str = "relax.add",
    activation: str | None = None,
) -> Annotated:
    """A pattern combined with a "residual" on either side by a binary operator, and an activation of that."""
    inner, names = node_output if isinstance(node_output, tuple) else (node_output, {})
    residual = wildcard()
    made: DFPattern = is_op(binary_op)(inner, residual) | is_op(binary_op)(residual, inner)
    if activation is not None:
        made = is_op(activation)(made)
    return made, {**names, "residual": residual}


def make_attention_pattern(with_bias: bool = False) -> Annotated:
    """Attention as one operator, of "query", "key" and "value", with a "bias" if `with_bias` says so."""
    names: dict[str, DFPattern] = {name: wildcard() for name in ("query", "key", "value")}
    if with_bias:
        names["bias"] = wildcard()
        return is_op("relax.nn.attention_bias")(*names.values()), names
    return is_op("relax.nn.attention")(*names.values()), names


def make_layer_norm_pattern() -> Annotated:
    """A layer norm of "data" with "gamma" and "beta"."""
    names: dict[str, DFPattern] = {name: wildcard() for name in ("data", "gamma", "beta")}
    return is_op("relax.nn.layer_norm")(*names.values()), names


def make_rms_norm_pattern() -> Annotated:
    """A norm of "data" by its root mean square, with "weight"."""
    names: dict[str, DFPattern] = {name: wildcard() for name in ("data", "weight")}
    return is_op("relax.nn.rms_norm")(*names.values()), names


def _finished(
    made: DFPattern, names: dict[str, DFPattern], with_bias: bool, activation: str | None, allow_reshape: bool
) -> Annotated:
    if with_bias:
        bias = names["bias"] = wildcard()
        shaped = is_op("relax.reshape")(bias, varg_default_wildcard=True) if allow_reshape else bias
        made = is_op("relax.add")(made, shaped)
    return (made if activation is None else is_op(activation)(made)), names
