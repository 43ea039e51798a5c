"""Attention: of batches, with and without bias, and of sequences of several lengths laid end to end."""

from __future__ import annotations

from typing import Any

from compiler import topi
from compiler.relax.nodes import Call, Expr, StructInfo, TensorStructInfo, info_of
from compiler.relax.nodes.dims import simplified
from compiler.relax.op.core.layout import as_written
from compiler.relax.op.core.params import OptionalTensor, TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator, refused
from compiler.relax.op.core.rules import broadcast_dims_to, check_kind, tensor
from compiler.relax.op.core.use import Use, shown
from compiler.relax.op.gradients import attention as slopes
from compiler.te.operation import compute, const, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var

__all__ = ["attention", "attention_bias", "attention_var_len"]

_MASKS = (None, "TopLeft", "BottomRight")


def _mixed(use: Use, query: str, key: str, value: str) -> tuple[TensorStructInfo, TensorStructInfo, StructInfo]:
    """Check query and key; return their StructInfo and the result's.
    The result has the query's shape and the width of the values."""
    q, k, v = use.tensor(query, 4), use.tensor(key, 4), use.tensor(value, 4)
    use.check_float(query, key, value)
    dtype, device = use.dtype(query, key, value), use.vdevice(query, key, value)
    mask, window = use.call.attrs["causal_mask"], use.call.attrs["window_size"]
    if mask not in _MASKS:
        use.fail(f"causal_mask is {mask!r}, it must be None, 'TopLeft' or 'BottomRight'")
    if window is not None and (mask is None or window < 1):
        use.fail(f"window_size is {window}, it must be positive, and needs a causal_mask")
    if q.dims is not None and k.dims is not None:
        use.check_equal(f"the batches of {query} and {key}", q.dims[0], k.dims[0], query, key)
        use.check_equal(f"the widths of {query} and {key}", q.dims[3], k.dims[3], query, key)
        many, few = ops.as_int(q.dims[2]), ops.as_int(k.dims[2])
        if many is not None and few is not None and (many % few if few else many):
            use.fail(f"the {few} heads of {key} do not divide the {many} of {query}")
    if k.dims is not None and v.dims is not None:
        for axis, what in enumerate(("batches", "lengths", "heads")):
            use.check_equal(f"the {what} of {key} and {value}", k.dims[axis], v.dims[axis], key, value)
    dims = None if q.dims is None or v.dims is None else [*q.dims[:3], v.dims[3]]
    return q, k, tensor(dims, dtype, 4, device)


def _info(use: Use) -> StructInfo:
    q, k, result = _mixed(use, "query", "key", "value")
    if use.rest("bias"):
        bias = use.tensor("bias")
        check_kind(use, ("bias",), floats=True, integers=False, bools=False)
        if bias.ndim > 4:
            use.fail(f"bias must have at most 4 dimensions, got {shown(bias)}")
        if bias.dims is not None and q.dims is not None and k.dims is not None:
            broadcast_dims_to(use, "bias", bias.dims, [q.dims[0], q.dims[2], q.dims[1], k.dims[1]])
    return result


def _flops(call: Call) -> PrimExpr | None:
    """Two products of queries by keys, and some for softmax."""
    q, k, v = (info_of(arg) for arg in call.args[:3])
    known = [info.dims for info in (q, k, v) if isinstance(info, TensorStructInfo) and info.dims is not None]
    if len(known) != 3:
        return None
    (batch, queries, heads, width), keys, wide = known[0], known[1][1], known[2][3]
    return simplified(batch * heads * queries * keys * (width * 2 + wide * 2 + 5))


def _attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None = None, *, scale: float | None,
    causal_mask: str | None, window_size: int | None,
) -> Tensor:  # fmt: skip
    return topi.nn.attention(query, key, value, bias, scale, causal_mask, window_size)


_PARTS: dict[str, Any] = {
    "pattern": OpPatternKind.OUT_ELEMWISE_FUSABLE, "flops": _flops, "layout": as_written, "gradient": slopes.attention,
    "precision": "always",
}  # fmt: skip


@operator("relax.nn.attention", infer=_info, te=_attention, **_PARTS)
def _plain_attention(
    query: TensorArg, key: TensorArg, value: TensorArg, bias: OptionalTensor = None, scale: float | None = None,
    causal_mask: str | None = None, window_size: int | None = None,
) -> Expr:  # fmt: skip
    """Take softmax(query key^T * scale) value, of (batch, length, heads, width) tensors.

    `scale` is 1 / sqrt(width) unless given. `causal_mask` lets a query see keys up to its own position, counted from
    the start ("TopLeft") or from the end ("BottomRight"). `window_size` limits these to the last ones. A head of key
    and value may serve several heads of query.
    """


@operator("relax.nn.attention_bias", infer=_info, te=_attention, **_PARTS)
def attention_bias(
    query: TensorArg, key: TensorArg, value: TensorArg, bias: OptionalTensor = None, scale: float | None = None,
    causal_mask: str | None = None, window_size: int | None = None,
) -> Expr:  # fmt: skip
    """Take softmax(query key^T * scale + bias) value; `bias` broadcasts to (batch, heads, queries, keys)."""


def attention(
    query: Any, key: Any, value: Any, bias: Any = None, scale: float | None = None, causal_mask: str | None = None,
    window_size: int | None = None,
) -> Call:  # fmt: skip
    """Call `relax.nn.attention`, or with a bias `relax.nn.attention_bias`."""
    declared = _plain_attention if bias is None else attention_bias
    return declared(query, key, value, bias, scale, causal_mask, window_size)


# -------------------------------------------------------------------- sequences laid end to end


def _var_len_info(use: Use) -> StructInfo:
    q, k, result = _mixed(use, "queries", "keys", "values")
    for name in ("seqstart_q", "max_seqlen_q", "seqstart_k", "max_seqlen_k"):
        if use.rest(name):
            use.tensor(name)
            check_kind(use, (name,), floats=False, integers=True, bools=False)
    use.tensor("seqstart_q", 1)
    if use.rest("seqstart_k"):
        use.tensor("seqstart_k", 1)
    for name, info in (("queries", q), ("keys", k)):
        if info.dims is not None and use.differ(info.dims[0], info.dims[0] * 0 + 1):
            use.fail(f"{name} must be one batch, its sequences laid end to end; it is {shown(info)}")
    return result


def _sequence_of(starts: Tensor, length: PrimExpr, name: str) -> Tensor:
    """For each position, the number of sequences that begin at or before it.
    The last start is the end of all."""
    k = reduce_axis((0, starts.shape[0]), name="k")
    result: Tensor = compute(
        (length,),
        lambda i: te_sum(ops.cast("int32", ops.less_equal(starts(k.var), ops.cast(starts.dtype, i))), axis=k),
        name=name,
        tag="comm_reduce",
    )
    return result


def _bound(starts: Tensor, index: PrimExpr) -> PrimExpr:
    """Return entry `index` of the starts. Positions outside of any sequence take the nearest one."""
    inside = ops.maximum(ops.minimum(index, ops.cast(index.dtype, ops.sub(starts.shape[0], 1))), 0)
    return ops.cast("int64", starts(inside))


def _attention_var_len(
    queries: Tensor, keys: Tensor, values: Tensor, seqstart_q: Tensor, max_seqlen_q: Tensor,
    seqstart_k: Tensor | None = None, max_seqlen_k: Tensor | None = None, *, scale: float | None,
    causal_mask: str | None, window_size: int | None,
) -> Tensor:  # fmt: skip
    starts_k = seqstart_q if seqstart_k is None else seqstart_k
    of_query = _sequence_of(seqstart_q, queries.shape[1], "T_sequence_of_query")
    of_key = _sequence_of(starts_k, keys.shape[1], "T_sequence_of_key")
    dtype = "float32" if queries.dtype in ("float16", "bfloat16") else queries.dtype

    def seen(b: Var, h: Var, i: Var, j: Var) -> PrimExpr:
        sequence = of_query(i)
        allowed = ops.equal(sequence, of_key(j))
        if causal_mask is not None:
            edge = ops.sub(sequence, 1 if causal_mask == "TopLeft" else 0)
            last = ops.sub(i, _bound(seqstart_q, edge))
            place = ops.sub(j, _bound(starts_k, edge))
            allowed = ops.logical_and(allowed, ops.less_equal(place, last))
            if window_size is not None:
                allowed = ops.logical_and(allowed, ops.greater(place, ops.sub(last, window_size)))
        return intrin.select(allowed, const(0.0, dtype), ops.min_value(dtype))

    one = ops.const(1)
    mask: Tensor = compute((one, one, queries.shape[1], keys.shape[1]), seen, name="T_sequences", tag="injective")
    return topi.nn.attention(queries, keys, values, mask, scale)


_VAR_LEN = {**_PARTS, "gradient": refused("training takes sequences of one length, padded, through attention")}


@operator("relax.nn.attention_var_len", infer=_var_len_info, te=_attention_var_len, **_VAR_LEN)
def attention_var_len(
    queries: TensorArg, keys: TensorArg, values: TensorArg, seqstart_q: TensorArg, max_seqlen_q: TensorArg,
    seqstart_k: OptionalTensor = None, max_seqlen_k: OptionalTensor = None, scale: float | None = None,
    causal_mask: str | None = None, window_size: int | None = None,
) -> Expr:  # fmt: skip
    """Take attention of sequences of several lengths that lie end to end in one batch.

    `seqstart_q` has the start of each sequence, and the end of the last; `seqstart_k` likewise for keys (those of
    queries unless given). A query sees only keys of its own sequence. The greatest lengths only inform libraries.
    """
