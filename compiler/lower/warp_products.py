"""Products of matrices that are to be computed on tensor cores become kernels of warps.

A block asks for it by annotations, `warp_tile.m` and so on for each part of a `WarpTile`. It must be a plain product,
and all that its function does:

    C[vi, vj] += A[vi, vk] * B[vk, vj]   or   A[vi, vk] * B[vj, vk]

float16 or bfloat16, summed as float32 whatever C is, and rounded once.
"""

from __future__ import annotations

from dataclasses import fields, replace

from compiler.errors import LoweringError
from compiler.lower.tensor_core import WarpTile, dense
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.visit import walk

WARP_TILE = "warp_tile."
_DTYPES = ("float16", "bfloat16")


def lower_warp_products(func: n.PrimFunc) -> n.PrimFunc:
    """The kernel of a function whose block asks for one; any other as it is. Raises LoweringError for a block that is
    no such product, IRError for sizes that its tile does not divide."""
    asked = [
        b for b in walk(func.body) if isinstance(b, n.Block) and any(k.startswith(WARP_TILE) for k in b.annotations)
    ]
    if not asked:
        return func
    found = product_of(func)
    if found is None:
        raise LoweringError(
            f"block {asked[0].name_hint!r} is no product of two matrices that tensor cores compute",
            hint="a function of one such block, of float16 or bfloat16, in the order rows, columns, sum",
        )
    (m, n_, k), transposed, buffers = found
    made = dense(m, n_, k, buffers[0].dtype, _tile(asked[0]), transposed=transposed, out_dtype=buffers[2].dtype)
    order = [next(p for p, b in func.buffer_map.items() if b is buffer) for buffer in buffers]
    given = dict(zip(order, (made.buffer_map[p] for p in made.params)))
    return replace(made, params=func.params, buffer_map=given, attrs={**func.attrs, **made.attrs})


def _tile(block: n.Block) -> WarpTile:
    said = {key.removeprefix(WARP_TILE): int(v) for key, v in block.annotations.items() if key.startswith(WARP_TILE)}
    warps = said.pop("warps_m", 1), said.pop("warps_n", 1)
    known = {field.name for field in fields(WarpTile)} - {"warps"}
    if said.keys() != known:
        raise LoweringError(f"a warp tile has {sorted(known)}, warps_m and warps_n; not {sorted(said)}")
    return WarpTile(**said, warps=warps)


def product_of(func: n.PrimFunc) -> tuple[tuple[int, int, int], bool, tuple[n.Buffer, n.Buffer, n.Buffer]] | None:
    """(rows, columns, sum), whether the second operand lies in columns, and the operands and the result, when that is
    all that `func` does."""
    leaves = [node for node in walk(func.body) if isinstance(node, n.Block) and node.iter_vars]
    if len(leaves) != 1 or len(leaves[0].iter_vars) != 3 or leaves[0].init is None:
        return None
    [block] = leaves
    kinds = [iv.iter_type is n.IterType.COMM_REDUCE for iv in block.iter_vars]
    sizes = [None if iv.dom is None else ops.as_int(iv.dom.extent) for iv in block.iter_vars]
    if kinds != [False, False, True] or None in sizes:
        return None
    i, j, k = (iv.var for iv in block.iter_vars)
    store = block.body
    if not isinstance(store, n.BufferStore) or not _is(store.indices, i, j) or not isinstance(store.value, n.Add):
        return None
    before, term = store.value.a, store.value.b
    if not isinstance(before, n.BufferLoad) or before.buffer is not store.buffer or not isinstance(term, n.Mul):
        return None
    a, b = _uncast(term.a), _uncast(term.b)
    if not isinstance(a, n.BufferLoad) or not isinstance(b, n.BufferLoad) or not _is(a.indices, i, k):
        return None
    transposed = _is(b.indices, j, k)
    buffers = a.buffer, b.buffer, store.buffer
    arguments = set(func.buffer_map.values())
    dtypes = a.buffer.dtype == b.buffer.dtype in _DTYPES and store.buffer.dtype in ("float32", a.buffer.dtype)
    if not dtypes or not (transposed or _is(b.indices, k, j)) or any(x not in arguments for x in buffers):
        return None
    rows, columns, depth = (size or 0 for size in sizes)
    return (rows, columns, depth), transposed, buffers


def _is(indices: tuple[n.PrimExpr, ...], *wanted: n.Var) -> bool:
    return len(indices) == len(wanted) and all(a is b for a, b in zip(indices, wanted))


def _uncast(value: n.PrimExpr) -> n.PrimExpr:
    return value.value if isinstance(value, n.Cast) else value
