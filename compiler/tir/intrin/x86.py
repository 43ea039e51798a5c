"""Tensor intrinsics of x86: products of groups of narrow elements.

On vectors of sums, for all i of `lanes` and k of `group`:

    C[i] += Σ_k A[k] * B[i, k]

| name | sums | A, B | instruction |
| `dot_16x4_vnni`, `dot_8x4_vnni` | 16, 8 int32 | 4 uint8, int8 | vpdpbusd |
| `dot_16x2_bf16` | 16 float32 | 2 bfloat16 | vdpbf16ps |
| `dot_16x2_int16`, `dot_8x2_int16` | 16, 8 int32 | 2 int16 | vpmaddwd and an addition, or vpdpwssd |

Where each sum has numbers of its own (depthwise), rows of A and B may lie apart. For all i of `lanes` and k of 3:

    C[i] += Σ_k A[k, 0, i] * B[k, 0, 0, i]

| name | sums | A, B | instruction |
| `columns_16x3_vnni`, `columns_8x3_vnni` | 16, 8 int32 | 3 uint8, int8 | vpdpbusd |

On tiles (AMX), whose operands both have groups, for all i, j, k of 16 and g of `group`:

    C[i, j] += Σ_{k,g} A[i, k, g] * B[k, j, g]

| name | sums | A, B | instruction |
| `amx_bf16` | float32 | bfloat16, groups of 2 | tdpbf16ps |
| `amx_s8s8`, `amx_s8u8`, `amx_u8s8`, `amx_u8u8` | int32 | 8 bits with and without sign, groups of 4 | tdpbssd, … |

`amx_bf16_rows` and its kin do the same with an A that lies in rows as it is, A[i, 2 k + g] (or 4 k + g). Its tile is
loaded row by row. Tiles may have fewer rows. Rows that are read may lie twice as far apart, as those of a convolution
do: `tile_name("amx_bf16_rows", 14, 2)` is for 14 rows A[2 i, 2 k + g].

`amx_pack_bfloat16`, `amx_pack_int8` and `amx_pack_uint8` make a row of a tile of B out of 2 (4) rows as they are:
D[j, g] = S[g, j]. `amx_turn_bfloat16` and its kin make a tile of B out of columns that lie as rows:
D[k, j, g] = S[j, 2 k + g] (or 4 k + g).

`amx_zero_float32` and `amx_zero_int32` make a tile of sums C[i, j] = 0, `amx_copy_float32` and `amx_copy_int32` copy
one: D[i, j] = C[i, j]. They are there for tiles of fewer rows, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from compiler.dtype import with_lanes
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.intrin import call
from compiler.tir.intrin.tensor_intrin import TensorIntrin

TILE = 16  # rows of an AMX tile, and columns of a tile of sums
TILE_GROUPS = 16  # groups of narrow elements in a row of a tile
TILE_ROWS = (16, 14, 8, 7)  # that a tile may have
TILE_STEPS = (1, 2)  # how far apart rows may lie that are read
COLUMN, GROUP = 3, 4  # numbers of a column, and of the group that it is made
AMX_INT8 = {"amx_s8s8": "dpbssd", "amx_s8u8": "dpbsud", "amx_u8s8": "dpbusd", "amx_u8u8": "dpbuud"}
"""Products of tiles of bytes by the name of the tensor intrinsic: what the instruction is called after its t."""

Indices = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
"""Of A, B and C, by the names of loops; "kg" is k groups and g, "i*" i steps, "" is 0."""


def _register(name: str, op: str, loops: Mapping[str, int], indices: Indices, dtypes: tuple[str, str, str]) -> None:
    if TensorIntrin.get(name, allow_missing=True) is None:
        described = _described(loops, indices, _buffers(loops, indices, dtypes))
        TensorIntrin.register(name, described, _implemented(op, loops, indices, dtypes))


def _vectors(name: str, op: str, lanes: int, group: int, dtypes: tuple[str, str, str]) -> None:
    _register(name, op, {"i": lanes, "k": group}, (("k",), ("i", "k"), ("i",)), dtypes)


def tile_name(name: str, rows: int, step: int = 1) -> str:
    """The name of an intrinsic for tiles of `rows` rows, of which each `step`-th one is read."""
    return f"{name}{'' if rows == TILE else f'_{rows}'}{'' if step == 1 else f'_by_{step}'}"


def _tiles(name: str, op: str, group: int, dtypes: tuple[str, str, str]) -> None:
    loops = {"i": TILE, "j": TILE, "k": TILE_GROUPS, "g": group}
    _register(name, op, loops, (("i", "k", "g"), ("k", "j", "g"), ("i", "j")), dtypes)
    for rows in TILE_ROWS:
        for step in TILE_STEPS:
            indices = (("i*", "kg"), ("k", "j", "g"), ("i", "j"))
            _register(tile_name(f"{name}_rows", rows, step), op, {**loops, "i": rows, "*": step}, indices, dtypes)


def _buffers(loops: Mapping[str, int], indices: Indices, dtypes: tuple[str, str, str]) -> tuple[n.Buffer, ...]:
    """A, B and C; `dtypes` are those of A, B and C."""
    shapes = (tuple(math.prod(loops[axis] for axis in axes) for axes in index) for index in indices)
    return tuple(
        n.decl_buffer(shape, dtype, name, offset_factor=1) for shape, dtype, name in zip(shapes, dtypes, "ABC")
    )


def _function(name: str, buffers: tuple[n.Buffer, ...], body: n.Stmt) -> n.PrimFunc:
    """A function whose root block reads and writes all of the buffers."""
    whole = [n.BufferRegion(b, tuple(n.Range(ops.const(0), size) for size in b.shape)) for b in buffers]
    root = n.Block((), tuple(whole), (whole[-1],), "root", body)
    params = tuple(n.Var(buffer.name.lower(), "handle") for buffer in buffers)
    realize = n.BlockRealize((), ops.const(True, "bool"), root)
    return n.PrimFunc(params, realize, buffer_map=dict(zip(params, buffers)), attrs={"global_symbol": name})


def _described(loops: Mapping[str, int], indices: Indices, buffers: tuple[n.Buffer, ...]) -> n.PrimFunc:
    """for all loops: C[...] += A[...] * B[...]"""
    sizes, loops = loops, {name: extent for name, extent in loops.items() if name != "*"}
    loop_vars = {name: n.Var(name, "int32") for name in loops}
    axis_vars = {name: n.Var(f"v{name}", "int32") for name in loops}
    kept = indices[-1]
    axes = tuple(
        n.IterVar(
            n.Range(ops.const(0), ops.const(extent)), axis_vars[name],
            n.IterType.DATA_PAR if name in kept else n.IterType.COMM_REDUCE,
        )
        for name, extent in loops.items()
    )  # fmt: skip
    places = [tuple(_place(axes, axis_vars, sizes) for axes in index) for index in indices]
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
    return _function("desc", buffers, nest)


def _place(axes: str, axis_vars: Mapping[str, n.Var], loops: Mapping[str, int]) -> n.PrimExpr:
    """The index in a dimension that one axis runs along, or two; 0 for none."""
    place: n.PrimExpr = axis_vars[axes[0]] if axes else ops.const(0)
    for axis in axes[1:]:
        place = ops.mul(place, ops.const(loops[axis])) if loops[axis] > 1 else place
        place = ops.add(place, axis_vars[axis]) if axis in axis_vars else place
    return place


def _implemented(op: str, loops: Mapping[str, int], indices: Indices, dtypes: tuple[str, str, str]) -> n.PrimFunc:
    """C = op(C, A, B), each of them whole, as it lies in memory"""
    buffers = _buffers(loops, indices, dtypes)
    a, b, c = buffers
    left: n.PrimExpr = _rows(a, step=loops["*"]) if "kg" in indices[0] else _whole(a)
    right, total = _whole(b), _whole(c)
    value = call(f"tir.{op}", total.dtype, total, left, right)
    return _function("impl", buffers, n.BufferStore(buffers[-1], value, total.indices))


def _columns(name: str, lanes: int) -> None:
    """The intrinsic for sums with a column of three bytes each. Three rows of bytes are shuffled to groups of four: to
    those of B come zeros, so that the fourth of A may be anything."""
    if TensorIntrin.get(name, allow_missing=True) is not None:
        return
    loops = {"i": lanes, "k": COLUMN}
    indices: Indices = (("k", "", "i"), ("k", "", "", "i"), ("i",))
    shapes = (("A", "uint8", (COLUMN, 1, lanes)), ("B", "int8", (COLUMN, 1, 1, lanes)), ("C", "int32", (lanes,)))

    def buffers() -> tuple[n.Buffer, ...]:
        return tuple(n.decl_buffer(shape, dtype, name, offset_factor=1) for name, dtype, shape in shapes)

    def groups(buffer: n.Buffer, *more: n.PrimExpr) -> n.Shuffle:
        zeros, ramp = [ops.const(0)] * (len(buffer.shape) - 2), n.Ramp(ops.const(0), ops.const(1), lanes)
        rows = (*(n.BufferLoad(buffer, (ops.const(row), *zeros, ramp)) for row in range(COLUMN)), *more)
        order = [min(row, len(rows) - 1) * lanes + lane for lane in range(lanes) for row in range(GROUP)]
        return n.Shuffle(rows, tuple(map(ops.const, order)))

    a, b, c = own = buffers()
    total = _whole(c)
    value = call("tir.x86_dpbusd", total.dtype, total, groups(a), groups(b, n.Broadcast(ops.const(0, "int8"), lanes)))
    impl = _function("impl", own, n.BufferStore(c, value, total.indices))
    TensorIntrin.register(name, _described(loops, indices, buffers()), impl)


def _moves(dtype: str, rows: int) -> None:
    """The intrinsics that zero and copy a tile of sums of `dtype`."""
    shape, place = (rows, TILE), tuple(n.Var(f"v{name}", "int32") for name in "ij")
    source, target = (n.decl_buffer(shape, dtype, name, offset_factor=1) for name in "CD")
    zero = ops.const(0, dtype)
    for name, value, whole, buffers in (
        (tile_name(f"amx_zero_{dtype}", rows), zero, n.Broadcast(zero, rows * TILE), (target,)),
        (tile_name(f"amx_copy_{dtype}", rows), n.BufferLoad(source, place), _kept(source), (source, target)),
    ):
        if TensorIntrin.get(name, allow_missing=True) is None:
            desc = _function("desc", buffers, _each_element(n.BufferStore(target, value, place), place, buffers))
            impl = _function("impl", buffers, n.BufferStore(target, whole, _whole(target).indices))
            TensorIntrin.register(name, desc, impl)


def _each_element(store: n.BufferStore, place: tuple[n.Var, ...], buffers: tuple[n.Buffer, ...]) -> n.Stmt:
    """A loop over a tile's elements around `store`, the last of `buffers` at `place`."""
    extents = [ops.as_int(size) or 1 for size in buffers[-1].shape]
    axes = tuple(
        n.IterVar(n.Range(ops.const(0), ops.const(extent)), axis, n.IterType.DATA_PAR)
        for axis, extent in zip(place, extents)
    )
    loaded = store.value.indices if isinstance(store.value, n.BufferLoad) else ()
    places = (loaded, place)[-len(buffers) :]
    *read, written = (n.BufferRegion(b, tuple(n.Range(x, ops.const(1)) for x in at)) for b, at in zip(buffers, places))
    block = n.Block(axes, tuple(read), (written,), "update", store)
    loop_vars = tuple(n.Var(axis.name[1:], "int32") for axis in place)
    nest: n.Stmt = n.BlockRealize(loop_vars, ops.const(True, "bool"), block)
    for var, extent in zip(reversed(loop_vars), reversed(extents)):
        nest = n.For(var, ops.const(0), ops.const(extent), n.ForKind.SERIAL, nest)
    return nest


def _packing(dtype: str, group: int) -> None:
    """The intrinsic that makes a row of a tile of B from a group of rows of `dtype`."""
    name = f"amx_pack_{dtype}"
    if TensorIntrin.get(name, allow_missing=True) is not None:
        return
    source = n.decl_buffer((group, TILE), dtype, "S", offset_factor=1)
    target = n.decl_buffer((TILE, group), dtype, "D", offset_factor=1)
    buffers, (j, g) = (source, target), (n.Var(f"v{axis}", "int32") for axis in "jg")
    each = _each_element(n.BufferStore(target, n.BufferLoad(source, (g, j)), (j, g)), (j, g), buffers)
    zero, one = ops.const(0), ops.const(1)
    rows = tuple(n.BufferLoad(source, (ops.const(row), n.Ramp(zero, one, TILE))) for row in range(group))
    order = tuple(ops.const(row * TILE + lane) for lane in range(TILE) for row in range(group))
    store = n.BufferStore(target, n.Shuffle(rows, order), (zero, n.Ramp(zero, one, TILE * group)))
    TensorIntrin.register(name, _function("desc", buffers, each), _function("impl", buffers, store))


def _turning(dtype: str, group: int) -> None:
    """The intrinsic that makes a tile of B from columns of `dtype` that lie as rows."""
    name = f"amx_turn_{dtype}"
    if TensorIntrin.get(name, allow_missing=True) is not None:
        return
    source = n.decl_buffer((TILE, TILE_GROUPS * group), dtype, "S", offset_factor=1)
    target = n.decl_buffer((TILE_GROUPS, TILE, group), dtype, "D", offset_factor=1)
    buffers, (k, j, g) = (source, target), (n.Var(f"v{axis}", "int32") for axis in "kjg")
    read = n.BufferLoad(source, (j, ops.add(ops.mul(k, ops.const(group)), g)))
    each = _each_element(n.BufferStore(target, read, (k, j, g)), (k, j, g), buffers)
    store = n.BufferStore(target, _rows(source, "x86_amx_turned"), _whole(target).indices)
    TensorIntrin.register(name, _function("desc", buffers, each), _function("impl", buffers, store))


def _kept(buffer: n.Buffer) -> n.Call:
    """Store a tile of sums that is still in registers."""
    whole = _whole(buffer)
    return call("tir.x86_amx_kept", whole.dtype, whole)


def _rows(buffer: n.Buffer, op: str = "x86_amx_rows", step: int = 1) -> n.Call:
    """The tile of each `step`-th row of a buffer, which may lie apart, or what else `op` makes of them."""
    rows, length = (ops.as_int(size) for size in buffer.shape)
    assert rows is not None
    assert length is not None
    ramp = n.Ramp(ops.const(0), ops.const(1), length)
    loads = [n.BufferLoad(buffer, (ops.const(row), ramp)) for row in range(0, rows, step)]
    return call(f"tir.{op}", with_lanes(buffer.dtype, len(loads) * length), *loads)


def _whole(buffer: n.Buffer) -> n.BufferLoad:
    elements = 1
    for size in buffer.shape:
        extent = ops.as_int(size)
        assert extent is not None
        elements *= extent
    start = ops.const(0)
    return n.BufferLoad(buffer, (*[start] * (len(buffer.shape) - 1), n.Ramp(start, ops.const(1), elements)))


_vectors("dot_16x4_vnni", "x86_dpbusd", 16, 4, ("uint8", "int8", "int32"))
_vectors("dot_8x4_vnni", "x86_dpbusd", 8, 4, ("uint8", "int8", "int32"))
_columns("columns_16x3_vnni", 16)
_columns("columns_8x3_vnni", 8)
_vectors("dot_16x2_bf16", "x86_dpbf16ps", 16, 2, ("bfloat16", "bfloat16", "float32"))
_vectors("dot_16x2_int16", "x86_pmaddwd", 16, 2, ("int16", "int16", "int32"))
_vectors("dot_8x2_int16", "x86_pmaddwd", 8, 2, ("int16", "int16", "int32"))
_tiles("amx_bf16", "x86_amx_dpbf16ps", 2, ("bfloat16", "bfloat16", "float32"))
for _name, _instruction in AMX_INT8.items():
    _signs = ["int8" if sign == "s" else "uint8" for sign in (_name[-4], _name[-2])]
    _tiles(_name, f"x86_amx_{_instruction}", 4, (_signs[0], _signs[1], "int32"))
for _dtype in ("float32", "int32"):
    for _extent in TILE_ROWS:
        _moves(_dtype, _extent)
for _dtype, _group in (("bfloat16", 2), ("int8", 4), ("uint8", 4)):
    _packing(_dtype, _group)
    _turning(_dtype, _group)
