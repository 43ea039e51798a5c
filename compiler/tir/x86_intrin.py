"""Tensor intrinsics of x86: products of groups of narrow elements, one vector of sums at a time.

`dot_16x4_vnni`: C[i] += Σ_k A[k] * B[i, k], for 16 i and 4 k; uint8 times int8 into int32 (AVX-512 VNNI, vpdpbusd).
`dot_16x2_bf16`: the same for 2 k; bfloat16 into float32 (AVX512-BF16, vdpbf16ps).
"""

from __future__ import annotations

from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import call
from compiler.tir.tensor_intrin import TensorIntrin

LANES = 16


def _register(name: str, op: str, group: int, dtypes: tuple[str, str, str]) -> TensorIntrin:
    found = TensorIntrin.get(name, allow_missing=True)
    return found or TensorIntrin.register(name, _described(group, dtypes), _implemented(op, group, dtypes))


def _buffers(group: int, dtypes: tuple[str, str, str]) -> tuple[n.Buffer, n.Buffer, n.Buffer]:
    c, a, b = dtypes
    return (
        n.decl_buffer((group,), a, "A", offset_factor=1),
        n.decl_buffer((LANES, group), b, "B", offset_factor=1),
        n.decl_buffer((LANES,), c, "C", offset_factor=1),
    )


def _function(name: str, buffers: tuple[n.Buffer, ...], block: n.Block) -> n.PrimFunc:
    params = tuple(n.Var(buffer.name.lower(), "handle") for buffer in buffers)
    root = n.BlockRealize((), ops.const(True, "bool"), block)
    return n.PrimFunc(params, root, buffer_map=dict(zip(params, buffers)), attrs={"global_symbol": name})


def _regions(buffers: tuple[n.Buffer, n.Buffer, n.Buffer]) -> tuple[tuple[n.BufferRegion, ...], ...]:
    """What is read and written: all of the arguments."""
    whole = [n.BufferRegion(b, tuple(n.Range(ops.const(0), size) for size in b.shape)) for b in buffers]
    return tuple(whole), (whole[2],)


def _described(group: int, dtypes: tuple[str, str, str]) -> n.PrimFunc:
    """for i, k: C[i] += A[k] * B[i, k]"""
    a, b, c = buffers = _buffers(group, dtypes)
    i, k = n.Var("i", "int32"), n.Var("k", "int32")
    vi, vk = n.Var("vi", "int32"), n.Var("vk", "int32")
    wide = dtypes[0]
    product = ops.mul(ops.cast(wide, a[(vk,)]), ops.cast(wide, b[(vi, vk)]))
    axes = (
        n.IterVar(n.Range(ops.const(0), ops.const(LANES)), vi, n.IterType.DATA_PAR),
        n.IterVar(n.Range(ops.const(0), ops.const(group)), vk, n.IterType.COMM_REDUCE),
    )

    def point(buffer: n.Buffer, *index: n.PrimExpr) -> n.BufferRegion:
        return n.BufferRegion(buffer, tuple(n.Range(x, ops.const(1)) for x in index))

    body = n.BufferStore(c, ops.add(c[(vi,)], product), (vi,))
    touched = (point(c, vi), point(a, vk), point(b, vi, vk))
    inner = n.Block(axes, touched, (point(c, vi),), "update", body)
    nest: n.Stmt = n.BlockRealize((i, k), ops.const(True, "bool"), inner)
    for var, extent in ((k, group), (i, LANES)):
        nest = n.For(var, ops.const(0), ops.const(extent), n.ForKind.SERIAL, nest)
    reads, writes = _regions(buffers)
    return _function("desc", buffers, n.Block((), reads, writes, "root", nest))


def _implemented(op: str, group: int, dtypes: tuple[str, str, str]) -> n.PrimFunc:
    """C[0:16] = op(C[0:16], A[0:group], B[0:16, 0:group])"""
    a, b, c = buffers = _buffers(group, dtypes)
    zero = ops.const(0)
    sums = n.BufferLoad(c, (n.Ramp(zero, ops.const(1), LANES),))
    left = n.BufferLoad(a, (n.Ramp(zero, ops.const(1), group),))
    right = n.BufferLoad(b, (zero, n.Ramp(zero, ops.const(1), LANES * group)))
    value = call(f"tir.{op}", sums.dtype, sums, left, right)
    body = n.BufferStore(c, value, (n.Ramp(zero, ops.const(1), LANES),))
    reads, writes = _regions(buffers)
    return _function("impl", buffers, n.Block((), reads, writes, "root", body))


VNNI = _register("dot_16x4_vnni", "x86_dpbusd", 4, ("int32", "uint8", "int8"))
BF16 = _register("dot_16x2_bf16", "x86_dpbf16ps", 2, ("float32", "bfloat16", "bfloat16"))
