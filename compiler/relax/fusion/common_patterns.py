"""Patterns that backends have in common.

Each comes with names for its parts, as `FusionPattern` takes them.
"""

from __future__ import annotations

from collections.abc import Mapping

from compiler.errors import ArgumentError
from compiler.relax.dpl.make import is_const, is_op, is_tuple_get_item, wildcard
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


def make_matmul_dequantize_pattern(transposed_rhs: bool = False) -> Annotated:
    """A product of short integers, "lhs" and "rhs", as numbers of a constant "scale" and zero point "zp"."""
    root, names = make_matmul_pattern(transposed_rhs=transposed_rhs)
    scale, zero = names["scale"], names["zp"] = is_const(), is_const()
    return is_op("relax.dequantize")(root, scale, zero), names


def make_matmul_multiply_pattern(transposed_rhs: bool = False) -> Annotated:
    """A product of "lhs" and "rhs", multiplied with "scaleA" times "scaleB", as another type."""
    root, names = make_matmul_pattern(transposed_rhs=transposed_rhs)
    first, second = names["scaleA"], names["scaleB"] = wildcard(), wildcard()
    scale = is_op("relax.multiply")(first, second)
    return is_op("relax.astype")(is_op("relax.multiply")(root, scale)), names


def make_attention_pattern(with_bias: bool = False, var_len: bool = False) -> Annotated:
    """Attention as one operator, of "query", "key" and "value", with a "bias" if `with_bias` says so.

    `var_len` makes it that of sequences of several lengths, with their starts and greatest lengths.
    """
    names: dict[str, DFPattern] = {name: wildcard() for name in ("query", "key", "value")}
    if var_len:
        names |= {name: wildcard() for name in ("seqstart_q", "max_seqlen_q", "seqstart_k", "max_seqlen_k")}
        return is_op("relax.nn.attention_var_len")(*names.values()), names
    if with_bias:
        names["bias"] = wildcard()
        return is_op("relax.nn.attention_bias")(*names.values()), names
    return is_op("relax.nn.attention")(*names.values()), names


def make_stacked_attention_pattern(start_op: str, with_bias: bool = False, layout: str = "BS3NH") -> Annotated:
    """Attention of queries, keys and values that are side by side in "stacked_qkv".

    `start_op`, "split" or "strided_slice", takes them apart, and reshapes make heads. `layout` "SBN3H" has lengths
    before batches, so they and the result are transposed. Raises ArgumentError for others.
    """
    if start_op not in ("split", "strided_slice"):
        raise ArgumentError(f"start_op is {start_op!r}", hint="it is split or strided_slice")
    if layout not in ("BS3NH", "SBN3H"):
        raise ArgumentError(f"layout is {layout!r}", hint="it is BS3NH or SBN3H")
    stacked = wildcard()
    names: dict[str, DFPattern] = {"stacked_qkv": stacked}
    if start_op == "split":
        names["split"] = is_op("relax.split")(stacked)
    parts: list[DFPattern] = []
    for place, what in enumerate(("query", "key", "value")):
        if start_op == "split":
            part: DFPattern = is_tuple_get_item(names["split"], place)
        else:
            part = is_op("relax.strided_slice")(stacked, varg_default_wildcard=True)
            names[f"strided_slice_{what}"] = part
        shape = names[f"{what}_reshape_list"] = wildcard()
        part = is_op("relax.reshape")(part, shape)
        if layout == "SBN3H":
            part = names[f"{what[0]}_transpose"] = is_op("relax.permute_dims")(part)
        parts.append(part)
    if with_bias:
        names["bias"] = wildcard()
        parts.append(names["bias"])
    made: DFPattern = is_op("relax.nn.attention_bias" if with_bias else "relax.nn.attention")(*parts)
    names["attention"] = made
    return (is_op("relax.permute_dims")(made) if layout == "SBN3H" else made), names


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
