"""The functions that tensor intrinsics consist of: sums of products of groups, and moves of tiles.

An index is the steps that loops make in it: `at(i=2)` is 2 i, `at(k=4, g=1)` is 4 k + g, and `at()` is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.intrin import call

Place = Mapping[str, int]
"""The steps of loops in one index."""
Indices = tuple[tuple[Place, ...], tuple[Place, ...], tuple[Place, ...]]
"""Of A, B and C."""


def at(**steps: int) -> Place:
    return steps


def function(name: str, buffers: tuple[n.Buffer, ...], body: n.Stmt) -> n.PrimFunc:
    """A function whose root block reads and writes all of the buffers."""
    everything = [n.BufferRegion(b, tuple(n.Range(ops.const(0), size) for size in b.shape)) for b in buffers]
    root = n.Block((), tuple(everything), (everything[-1],), "root", body)
    params = tuple(n.Var(buffer.name.lower(), "handle") for buffer in buffers)
    realize = n.BlockRealize((), ops.const(True, "bool"), root)
    return n.PrimFunc(params, realize, buffer_map=dict(zip(params, buffers)), attrs={"global_symbol": name})


def buffers_of(loops: Mapping[str, int], indices: Indices, dtypes: tuple[str, str, str]) -> tuple[n.Buffer, ...]:
    """A, B and C, as large as the loops reach."""
    return tuple(
        n.decl_buffer(tuple(_reach(place, loops) for place in index), dtype, name, offset_factor=1)
        for index, dtype, name in zip(indices, dtypes, "ABC")
    )


def _reach(place: Place, loops: Mapping[str, int]) -> int:
    return 1 + sum(step * (loops[name] - 1) for name, step in place.items())


def described(loops: Mapping[str, int], indices: Indices, buffers: tuple[n.Buffer, ...]) -> n.PrimFunc:
    """for all loops: C[...] += A[...] * B[...]"""
    loop_vars = {name: n.Var(name, "int32") for name in loops}
    axis_vars = {name: n.Var(f"v{name}", "int32") for name in loops}
    kept = {name for place in indices[-1] for name in place}
    axes = tuple(
        n.IterVar(
            n.Range(ops.const(0), ops.const(extent)), axis_vars[name],
            n.IterType.DATA_PAR if name in kept else n.IterType.COMM_REDUCE,
        )
        for name, extent in loops.items()
    )  # fmt: skip
    places = [tuple(_index(place, axis_vars) for place in index) for index in indices]
    left, right, total = (n.BufferLoad(buffer, place) for buffer, place in zip(buffers, places))
    product = ops.mul(ops.cast(total.dtype, left), ops.cast(total.dtype, right))
    update = n.BufferStore(buffers[-1], ops.add(total, product), places[-1])
    a, b, c = (
        n.BufferRegion(buffer, tuple(n.Range(x, ops.const(1)) for x in place)) for buffer, place in zip(buffers, places)
    )
    inner = n.Block(axes, (c, a, b), (c,), "update", update)
    nest: n.Stmt = n.BlockRealize(tuple(loop_vars.values()), ops.const(True, "bool"), inner)
    for name, extent in reversed(list(loops.items())):
        nest = n.For(loop_vars[name], ops.const(0), ops.const(extent), n.ForKind.SERIAL, nest)
    return function("desc", buffers, nest)


def _index(place: Place, axes: Mapping[str, n.Var]) -> n.PrimExpr:
    terms = [axes[name] if step == 1 else ops.mul(axes[name], ops.const(step)) for name, step in place.items()]
    total: n.PrimExpr = terms[0] if terms else ops.const(0)
    for term in terms[1:]:
        total = ops.add(total, term)
    return total


def whole(buffer: n.Buffer) -> n.BufferLoad:
    """All elements of `buffer`, as they lie in memory."""
    elements = 1
    for size in buffer.shape:
        extent = ops.as_int(size)
        assert extent is not None
        elements *= extent
    start = ops.const(0)
    return n.BufferLoad(buffer, (*[start] * (len(buffer.shape) - 1), n.Ramp(start, ops.const(1), elements)))


def implemented(op: str, buffers: tuple[n.Buffer, ...], left: Callable[[n.Buffer], n.PrimExpr] = whole) -> n.PrimFunc:
    """C = op(C, A, B), each of them whole, or what `left` makes of A."""
    a, b, c = buffers
    total = whole(c)
    value = call(f"tir.{op}", total.dtype, total, left(a), whole(b))
    return function("impl", buffers, n.BufferStore(c, value, total.indices))
