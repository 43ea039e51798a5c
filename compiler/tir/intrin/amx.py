"""Tensor intrinsics of Intel's matrix unit (AMX): products of tiles, and what moves tiles.

Both operands have groups along the reduction, of 2 bfloat16 or 4 bytes. For all i, j, k of 16 and g of `group`:

    C[i, j] += Σ_{k,g} A[i, k, g] * B[k, j, g]

| name | sums | A, B | instruction |
| `amx_bf16` | float32 | bfloat16, groups of 2 | tdpbf16ps |
| `amx_s8s8`, `amx_s8u8`, `amx_u8s8`, `amx_u8u8` | int32 | 8 bits with and without sign, groups of 4 | tdpbssd, … |

Their kin take an A that lies as it is (`left_tile_name`). Its tile is loaded row by row, and may have fewer rows:

| name | A |
| `amx_bf16_rows` | rows of a matrix: A[i, 2 k + g] |
| `amx_bf16_rows_14_by_2` | 14 rows, each second one of an image's: A[2 i, 2 k + g] |
| `amx_bf16_apart` | rows with others between them, such as those of one head: A[i, 0, 2 k + g] |
| `amx_bf16_along_by_2` | windows that overlap, along an image's row: A[2 i + 2 k + g] |

`amx_pack_bfloat16`, `amx_pack_int8` and `amx_pack_uint8` make a row of a tile of B out of 2 (4) rows as they are:
D[j, g] = S[g, j]. `amx_turn_bfloat16` and its kin make a tile of B out of columns that lie as rows:
D[k, j, g] = S[j, 2 k + g] (or 4 k + g).

`amx_zero_float32` and `amx_zero_int32` make a tile of sums C[i, j] = 0, `amx_copy_float32` and `amx_copy_int32` copy
one: D[i, j] = C[i, j]. They are there for tiles of fewer rows, too.

All are made when they are first asked for.
"""

from __future__ import annotations

from functools import partial

from compiler.dtype import with_lanes
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.group_products import Indices, Place, at, buffers_of, described, function, implemented, whole
from compiler.tir.intrin.intrin import call
from compiler.tir.intrin.tensor_intrin import TensorIntrin

TILE = 16  # rows of an AMX tile, and columns of a tile of sums
TILE_GROUPS = 16  # groups of narrow elements in a row of a tile
TILE_ROWS = (16, 14, 8, 7)  # that a tile may have
ROW_STEPS = {"rows": (1, 2), "apart": (1,), "along": (1, 2, 3, 4, 6, 8, 16)}
"""How rows of A may lie, and how far apart those may be that are read."""
AMX_INT8 = {"amx_s8s8": "dpbssd", "amx_s8u8": "dpbsud", "amx_u8s8": "dpbusd", "amx_u8u8": "dpbuud"}
"""Products of tiles of bytes by the name of the tensor intrinsic: what the instruction is called after its t."""


def tile_name(name: str, rows: int) -> str:
    """The name of an intrinsic for tiles of `rows` rows."""
    return name if rows == TILE else f"{name}_{rows}"


def left_tile_name(name: str, lie: str, rows: int, step: int) -> str:
    """The name of a product with `rows` rows of A that `lie` so, of which each `step`-th one is read."""
    return tile_name(f"{name}_{lie}", rows) + ("" if step == 1 else f"_by_{step}")


def _left(lie: str, step: int, group: int) -> tuple[Place, ...]:
    row = at(k=group, g=1)
    return {"rows": (at(i=step), row), "apart": (at(i=step), at(), row), "along": (at(i=step, k=group, g=1),)}[lie]


def _tiles(name: str, op: str, group: int, dtypes: tuple[str, str, str]) -> None:
    packed = (at(i=1), at(k=1), at(g=1))
    TensorIntrin.declare(name, partial(_product, op, group, dtypes, packed, TILE))
    for lie, steps in ROW_STEPS.items():
        for rows in TILE_ROWS:
            for step in steps:
                made = partial(_product, op, group, dtypes, _left(lie, step, group), rows, step)
                TensorIntrin.declare(left_tile_name(name, lie, rows, step), made)


def _product(
    op: str, group: int, dtypes: tuple[str, str, str], left: tuple[Place, ...], rows: int, step: int | None = None
) -> TensorIntrin:
    """The product with A at `left`; without a `step`, A is a packed tile."""
    loops = {"i": rows, "j": TILE, "k": TILE_GROUPS, "g": group}
    indices: Indices = (left, (at(k=1), at(j=1), at(g=1)), (at(i=1), at(j=1)))
    desc = described(loops, indices, buffers_of(loops, indices, dtypes))
    own = buffers_of(loops, indices, dtypes)
    if step is None:
        return TensorIntrin(desc, implemented(op, own))
    return TensorIntrin(desc, implemented(op, own, partial(_rows, rows=rows, step=step, length=TILE_GROUPS * group)))


def _rows(buffer: n.Buffer, rows: int, step: int, length: int, op: str = "x86_amx_rows") -> n.Call:
    """The tile of each `step`-th row of a buffer, or what else `op` makes of them.
    Rows of a vector begin at each `step`-th element."""
    between = [ops.const(0)] * (len(buffer.shape) - 2)
    starts = [[ops.const(row), *between, ops.const(0)] for row in range(0, rows * step, step)]
    if len(buffer.shape) == 1:
        starts = [[ops.const(row)] for row in range(0, rows * step, step)]
    loads = [n.BufferLoad(buffer, (*outer, n.Ramp(begin, ops.const(1), length))) for *outer, begin in starts]
    return call(f"tir.{op}", with_lanes(buffer.dtype, rows * length), *loads)


def _moves(dtype: str, rows: int) -> None:
    """The intrinsics that zero and copy a tile of sums of `dtype`."""
    TensorIntrin.declare(tile_name(f"amx_zero_{dtype}", rows), partial(_zero, dtype, rows))
    TensorIntrin.declare(tile_name(f"amx_copy_{dtype}", rows), partial(_copy, dtype, rows))


def _zero(dtype: str, rows: int) -> TensorIntrin:
    target, zero = n.decl_buffer((rows, TILE), dtype, "D", offset_factor=1), ops.const(0, dtype)
    place = _tile_place()
    desc = function("desc", (target,), _each_element(n.BufferStore(target, zero, place), place, (target,)))
    zeros = n.Broadcast(zero, rows * TILE)
    store = n.BufferStore(target, call("tir.x86_amx_zero", zeros.dtype, zeros), whole(target).indices)
    return TensorIntrin(desc, function("impl", (target,), store))


def _copy(dtype: str, rows: int) -> TensorIntrin:
    source, target = buffers = tuple(n.decl_buffer((rows, TILE), dtype, name, offset_factor=1) for name in "CD")
    place = _tile_place()
    each = _each_element(n.BufferStore(target, n.BufferLoad(source, place), place), place, buffers)
    tile = whole(source)
    kept = n.BufferStore(target, call("tir.x86_amx_kept", tile.dtype, tile), whole(target).indices)
    return TensorIntrin(function("desc", buffers, each), function("impl", buffers, kept))


def _tile_place() -> tuple[n.Var, ...]:
    return tuple(n.Var(f"v{name}", "int32") for name in "ij")


def _each_element(store: n.BufferStore, place: tuple[n.Var, ...], buffers: tuple[n.Buffer, ...]) -> n.Stmt:
    """A loop over a tile's elements around `store`, the last of `buffers` at `place`."""
    extents = [ops.as_int(size) or 1 for size in buffers[-1].shape]
    axes = tuple(
        n.IterVar(n.Range(ops.const(0), ops.const(extent)), axis, n.IterType.DATA_PAR)
        for axis, extent in zip(place, extents)
    )
    loaded = store.value.indices if isinstance(store.value, n.BufferLoad) else ()
    places = (loaded, place)[-len(buffers) :]
    *read, written = (
        n.BufferRegion(b, tuple(n.Range(x, ops.const(1)) for x in index)) for b, index in zip(buffers, places)
    )
    block = n.Block(axes, tuple(read), (written,), "update", store)
    loop_vars = tuple(n.Var(axis.name[1:], "int32") for axis in place)
    nest: n.Stmt = n.BlockRealize(loop_vars, ops.const(True, "bool"), block)
    for var, extent in zip(reversed(loop_vars), reversed(extents)):
        nest = n.For(var, ops.const(0), ops.const(extent), n.ForKind.SERIAL, nest)
    return nest


def _packing(dtype: str, group: int) -> TensorIntrin:
    """The intrinsic that makes a row of a tile of B from a group of rows of `dtype`."""
    source = n.decl_buffer((group, TILE), dtype, "S", offset_factor=1)
    target = n.decl_buffer((TILE, group), dtype, "D", offset_factor=1)
    buffers, (j, g) = (source, target), (n.Var(f"v{axis}", "int32") for axis in "jg")
    each = _each_element(n.BufferStore(target, n.BufferLoad(source, (g, j)), (j, g)), (j, g), buffers)
    zero, one = ops.const(0), ops.const(1)
    rows = tuple(n.BufferLoad(source, (ops.const(row), n.Ramp(zero, one, TILE))) for row in range(group))
    order = tuple(ops.const(row * TILE + lane) for lane in range(TILE) for row in range(group))
    store = n.BufferStore(target, n.Shuffle(rows, order), (zero, n.Ramp(zero, one, TILE * group)))
    return TensorIntrin(function("desc", buffers, each), function("impl", buffers, store))


def turning(dtype: str, group: int, between: int = 0) -> TensorIntrin:
    """The intrinsic that makes a tile of B from columns of `dtype` that lie as rows.
    So many dimensions lie `between` the columns and the reduction."""
    length = TILE_GROUPS * group
    source = n.decl_buffer((TILE, *[1] * between, length), dtype, "S", offset_factor=1)
    target = n.decl_buffer((TILE_GROUPS, TILE, group), dtype, "D", offset_factor=1)
    buffers, (k, j, g) = (source, target), (n.Var(f"v{axis}", "int32") for axis in "kjg")
    read = n.BufferLoad(source, (j, *[ops.const(0)] * between, ops.add(ops.mul(k, ops.const(group)), g)))
    each = _each_element(n.BufferStore(target, read, (k, j, g)), (k, j, g), buffers)
    turned = _rows(source, TILE, 1, length, "x86_amx_turned")
    store = n.BufferStore(target, turned, whole(target).indices)
    return TensorIntrin(function("desc", buffers, each), function("impl", buffers, store))


_tiles("amx_bf16", "x86_amx_dpbf16ps", 2, ("bfloat16", "bfloat16", "float32"))
for _name, _instruction in AMX_INT8.items():
    _signs = ["int8" if sign == "s" else "uint8" for sign in (_name[-4], _name[-2])]
    _tiles(_name, f"x86_amx_{_instruction}", 4, (_signs[0], _signs[1], "int32"))
for _dtype in ("float32", "int32"):
    for _extent in TILE_ROWS:
        _moves(_dtype, _extent)
for _dtype, _group in (("bfloat16", 2), ("int8", 4), ("uint8", 4)):
    TensorIntrin.declare(f"amx_pack_{_dtype}", partial(_packing, _dtype, _group))
    TensorIntrin.declare(f"amx_turn_{_dtype}", partial(turning, _dtype, _group))
