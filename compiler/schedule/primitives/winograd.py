"""Convolution by fast filters, as a product of matrices for each position of a tile: winograd."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from compiler.dtype import parse_dtype
from compiler.schedule.analysis.cook_toom import POINTS, Fast, fast_filter
from compiler.schedule.analysis.dataflow import (
    Member,
    allocated,
    check_leaf,
    fresh_block_name,
    own_nest,
    scope_around,
    with_regions,
)
from compiler.schedule.analysis.reductions import reduction_of
from compiler.schedule.analysis.shared_sums import Matrix, times_vector
from compiler.schedule.core.state import Illegal, StepEffect, replaced
from compiler.schedule.core.step import primitive
from compiler.schedule.primitives.block_axes import loops_by_axis, nest_over_axes
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.intrin import if_then_else
from compiler.tir.nodes import IterType, PrimExpr, Stmt
from compiler.tir.nodes.convert import cast
from compiler.tir.visit import seq


@primitive("block", attrs={"tile": (int,), "band": (int,), "multiple": (int,)}, outputs="block*")
def winograd(func: n.PrimFunc, block: str, tile: int, band: int, multiple: int) -> StepEffect:
    """Compute a convolution without strides in tiles of `tile` × `tile` results, each by a fast filter.

    With r × r taps a tile takes (tile + r - 1)² products in place of tile² · r². For r = 3 these are 16 in place of
    36 with tile 2, and 36 in place of 144 with tile 4. Results differ from the plain sum's by rounding, more so
    with larger tiles. An infinity or NaN spreads over its tile. A band has `band` rows of tiles (0: one band has
    all), and rows are added to the last. Tiles are added until the number in a band is a multiple of `multiple`: each
    row gets more of them, and a single band more rows.

        block C: C[k, y, x] += D[c, y + r, x + s] * W[k, c, r, s]

        →   block D_phases: D_phases[c, y, q, h] = D[c, y, h * tile + q], or 0 beyond D
            block D_lines:  D_lines[band, a, s, c, t, u] = Bᵀ along y    of the tile's D_phases
            block D_tiles:  D_tiles[band, a, b, c, p] = Bᵀ along x       of D_lines, p = t * tiles of a row + u
            block W_lines:  W_lines[a, k, c, s] = G along r              of W
            block W_tiles:  W_tiles[a, b, k, c] = G along s              of W_lines
            block C_tiles:  C_tiles[band, a, b, k, p] += W_tiles[a, b, k, c] * D_tiles[band, a, b, c, p]
            block C_lines:  C_lines[band, i, b, k, t, u] = Aᵀ along y    of C_tiles
            block C:        C[k, y, x] = Aᵀ along x                      of C_lines

    The block must stand in its own loops and add up, from 0, products of two elements in floating point. Elements may
    be cast to the type of the sum, in which all is computed then. Two neighbouring dimensions of its result are those
    of the window. Returns these eight blocks.
    """
    me, scope = scope_around(func, block)
    check_leaf(me)
    loops_by_axis(me)
    conv = _convolution(me)
    plan = _plan(conv, tile, band, multiple, block)
    stages = _Stages(func)
    product = _product(stages, plan, _tiles_of_data(stages, plan), _tiles_of_taps(stages, plan))
    _results(stages, plan, product, block)
    changed = replaced(func, me.path[: own_nest(me) + 1], seq(*stages.nests))
    return StepEffect(allocated(changed, scope, stages.buffers), tuple(stages.names))


# ---------------------------------------------------------------------------------- recognising


@dataclass(frozen=True, slots=True)
class _Convolution:
    """out[…, y, x, …] += data[…, y + r, x + s, …] * taps[…].
    `at`: where y stands in the indices of data and out. The other indices are axes by themselves."""

    out: n.Buffer
    data: n.Buffer
    taps: n.Buffer
    out_axes: tuple[n.Var, ...]
    data_axes: tuple[n.Var, ...]  # y and x in the places of y + r and x + s
    taps_axes: tuple[n.Var, ...]
    out_at: int
    data_at: int
    window: tuple[n.Var, n.Var]
    extents: dict[n.Var, int]

    @property
    def pair(self) -> tuple[n.Var, n.Var]:
        return self.out_axes[self.out_at], self.out_axes[self.out_at + 1]

    @property
    def taps_of(self) -> tuple[int, int]:
        return self.extents[self.window[0]], self.extents[self.window[1]]


def _convolution(me: Member) -> _Convolution:
    """Return what the block computes.
    Raises Illegal where it is no convolution that fast filters can compute."""
    found = reduction_of(me)
    name = me.name
    if found.kind is not n.Add or not ops.is_const(found.init, 0):
        raise Illegal(f"block {name!r} is no sum from 0", name)
    if not isinstance(found.source, n.Mul):
        raise Illegal(f"block {name!r} does not add up products", name)
    factors = (found.source.a, found.source.b)
    loads = tuple(factor.value if isinstance(factor, n.Cast) else factor for factor in factors)
    if not all(isinstance(load, n.BufferLoad) for load in loads):
        raise Illegal(f"block {name!r} does not add up products of two elements", name)
    if any(factor.dtype != found.target.dtype for factor in factors) or not parse_dtype(found.target.dtype).is_float:
        raise Illegal(f"block {name!r} does not compute in one floating-point type: fractions are needed", name)
    extents: dict[n.Var, int] = {}
    for iv in me.block.iter_vars:
        extent = None if iv.dom is None else ops.as_int(iv.dom.extent)
        if extent is None:
            raise Illegal(f"axis {iv.var.name!r} of block {name!r} has no constant extent", name)
        extents[iv.var] = extent
    reduced = {iv.var for iv in me.block.iter_vars if iv.iter_type is IterType.COMM_REDUCE}
    windows = [load for load in loads if isinstance(load, n.BufferLoad) and any(map(_is_sum, load.indices))]
    plain = [load for load in loads if isinstance(load, n.BufferLoad) and not any(map(_is_sum, load.indices))]
    if len(windows) != 1 or len(plain) != 1:
        raise Illegal(f"block {name!r} does not read one buffer in windows and one at its axes", name)
    data, taps = windows[0], plain[0]
    data_axes, window = _without_window(data, reduced, name)
    out_axes, taps_axes = _vars(found.point, name), _vars(taps.indices, name)
    at = [d for d, axis in enumerate(data_axes) if isinstance(data.indices[d], n.Add)]
    if len(at) != 2 or at[1] != at[0] + 1:
        raise Illegal(f"block {name!r} has no window along two neighbouring dimensions of {data.buffer.name!r}", name)
    y, x = (data_axes[d] for d in at)
    if (y, x) not in pairwise(out_axes):
        raise Illegal(f"the window's dimensions are no neighbours in {found.target.name!r}", name)
    if not set(window) <= set(taps_axes) or {y, x} & set(taps_axes) or set(window) & set(data_axes):
        raise Illegal(f"{taps.buffer.name!r} is not indexed by the window", name)
    if (set(data_axes) & reduced) != (set(taps_axes) & reduced) - set(window):
        raise Illegal(f"block {name!r} reduces along an axis that only one of its operands has", name)
    buffers = found.target, data.buffer, taps.buffer
    return _Convolution(*buffers, out_axes, data_axes, taps_axes, out_axes.index(y), at[0], window, extents)


def _is_sum(index: PrimExpr) -> bool:
    return isinstance(index, n.Add)


def _vars(indices: Sequence[PrimExpr], block: str) -> tuple[n.Var, ...]:
    found = tuple(index for index in indices if isinstance(index, n.Var))
    if len(set(found)) != len(indices):
        raise Illegal(f"block {block!r} has an index that is no axis by itself, or an axis twice", block)
    return found


def _without_window(
    data: n.BufferLoad, reduced: set[n.Var], block: str
) -> tuple[tuple[n.Var, ...], tuple[n.Var, n.Var]]:
    """The data axes in the indices of `data`, and the window's axes that are added to two of them."""
    places: list[PrimExpr] = []
    window: list[n.Var] = []
    for index in data.indices:
        if not isinstance(index, n.Add):
            places.append(index)
            continue
        steps = [part for part in (index.a, index.b) if part in reduced]
        rest = [part for part in (index.a, index.b) if part not in reduced]
        if len(steps) != 1 or not isinstance(steps[0], n.Var):
            raise Illegal(f"index {index!r} of block {block!r} is not a data axis plus one of the window", block)
        window.append(steps[0])
        places.append(rest[0])
    if len(window) != 2:
        raise Illegal(f"block {block!r} has no window of two dimensions", block)
    return _vars(places, block), (window[0], window[1])


@dataclass(frozen=True, slots=True)
class _Plan:
    conv: _Convolution
    tile: int
    bands: int
    rows: int  # of tiles in a band
    columns: int  # tiles in a row
    filters: tuple[Fast, Fast]


def _plan(conv: _Convolution, tile: int, band: int, multiple: int, block: str) -> _Plan:
    taps = conv.taps_of
    if tile < 2 or max(taps) < 2 or tile + max(taps) - 2 > len(POINTS):
        hint = f"tile and taps together are at most {len(POINTS) + 2}"
        raise Illegal(f"there is no fast filter for tiles of {tile} and {taps[0]} × {taps[1]} taps", block, hint=hint)
    y, x = conv.pair
    rows, columns = -(-conv.extents[y] // tile), -(-conv.extents[x] // tile)
    if not 0 <= band <= rows:
        raise Illegal(f"{rows} rows of tiles hold no band of {band}", block)
    if multiple < 1:
        raise Illegal(f"tiles cannot be a multiple of {multiple}", block)
    each, columns = whole_tiles(rows, columns, band, multiple)
    bands = -(-rows // band) if band else 1
    filters = math.prod(conv.extents[axis] for axis in conv.taps_axes if axis not in conv.window)
    lines = math.prod(conv.extents[axis] for axis in conv.data_axes if axis not in (y, x))
    fewer = lines * bands * each * columns < filters  # which are multiplied by fractions
    along_y, along_x = (fast_filter(tile, many, scaled_data=fewer) for many in taps)
    return _Plan(conv, tile, bands, each, columns, (along_y, along_x))


def whole_tiles(rows: int, columns: int, band: int, multiple: int) -> tuple[int, int]:
    """Return the rows of a band and the tiles in a row.
    The tiles of a band must be a multiple of `multiple`: the fewest tiles win, then the longest rows."""
    each = [band] if band else range(rows, rows + multiple)
    found = [(r, c) for r in each for c in range(columns, columns + multiple) if r * c % multiple == 0]
    return min(found, key=lambda size: (size[0] * size[1], size[0]))


# ------------------------------------------------------------------------------------ building

Vars = Sequence[PrimExpr]


@dataclass(slots=True)
class _Stages:
    """Blocks in loops of their own, one after the other, and what they write."""

    func: n.PrimFunc
    nests: list[Stmt] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    buffers: list[n.Buffer] = field(default_factory=list)

    def add(self, name: str, dtype: str, extents: Sequence[int], value: Callable[[Vars], PrimExpr]) -> n.Buffer:
        """A block that computes each element of a new buffer of `extents`, and the buffer."""
        buffer = n.decl_buffer(tuple(map(ops.const, extents)), dtype, name)
        axes = [_axis(e, f"v{d}") for d, e in enumerate(extents)]
        point = tuple(iv.var for iv in axes)
        self.block(name, axes, n.BufferStore(buffer, value(point), point))
        self.buffers.append(buffer)
        return buffer

    def block(self, name: str, axes: Sequence[n.IterVar], body: Stmt, init: Stmt | None = None) -> None:
        own = fresh_block_name(self.func, name, self.names)
        made = n.Block(tuple(axes), (), (), own, body, init)
        self.nests.append(nest_over_axes(with_regions(made)))
        self.names.append(own)


def _axis(extent: int, name: str, kind: IterType = IterType.DATA_PAR) -> n.IterVar:
    return n.IterVar(n.Range(ops.const(0), ops.const(extent)), n.Var(name, "int32"), kind)


def _tiles_of_data(stages: _Stages, plan: _Plan) -> n.Buffer:
    """D_phases, D_lines, D_tiles. In the phases what neighbouring tiles read is side by side."""
    conv, tile, at = plan.conv, plan.tile, plan.conv.data_at
    data, shape, dtype = conv.data, [ops.as_int(size) for size in conv.data.shape], conv.out.dtype
    high = tile * plan.bands * plan.rows + conv.taps_of[0] - 1
    wide = -(-(tile * plan.columns + conv.taps_of[1] - 1) // tile)
    around = [conv.extents[axis] for axis in conv.data_axes]
    before, after = around[:at], around[at + 2 :]

    def phase(v: Vars) -> PrimExpr:
        y, x = v[at], v[at + 2] * tile + v[at + 1]
        value = cast(dtype, data[(*v[:at], y, x, *v[at + 3 :])])
        beyond = [(y, shape[at], high), (x, shape[at + 1], wide * tile)]
        inside = [ops.less(index, size) for index, size, most in beyond if size is None or size < most]
        return if_then_else(ops.logical_and(*inside), value, ops.const(0.0, dtype)) if inside else value

    phases = stages.add(f"{data.name}_phases", dtype, [*before, high, tile, wide, *after], phase)
    along_y, along_x = plan.filters
    many = (along_y.products, along_x.products)

    def line(v: Vars) -> PrimExpr:
        band, a, s, *rest = v
        outer, t, u, inner = rest[:at], rest[at], rest[at + 1], rest[at + 2 :]
        y, q, h = (band * plan.rows + t) * tile, s % tile, u + s // tile
        return _transformed(along_y.data, a, lambda r: phases[(*outer, y + r, q, h, *inner)])

    lines = stages.add(f"{data.name}_lines", dtype, [plan.bands, *many, *before, plan.rows, plan.columns, *after], line)
    name = f"{data.name}_tiles"
    flat = [plan.bands, *many, *before, plan.rows * plan.columns, *after]
    buffer = n.decl_buffer(tuple(map(ops.const, flat)), dtype, name)
    axes = [_axis(e, f"v{d}") for d, e in enumerate([plan.bands, *many, *before, plan.rows, plan.columns, *after])]
    band, a, b, *rest = [iv.var for iv in axes]
    value = _transformed(along_x.data, b, lambda s: lines[(band, a, s, *rest)])
    place = (band, a, b, *rest[:at], rest[at] * plan.columns + rest[at + 1], *rest[at + 2 :])
    stages.block(name, axes, n.BufferStore(buffer, value, place))
    stages.buffers.append(buffer)
    return buffer


def _tiles_of_taps(stages: _Stages, plan: _Plan) -> n.Buffer:
    """W_lines, W_tiles."""
    conv, (along_y, along_x) = plan.conv, plan.filters
    taps, dtype = conv.taps, conv.out.dtype
    r_at, s_at = (conv.taps_axes.index(axis) for axis in conv.window)
    others = [conv.extents[axis] for axis in conv.taps_axes if axis not in conv.window]

    def at(others: Vars, r: PrimExpr | int, s: PrimExpr | int) -> tuple[PrimExpr | int, ...]:
        """The indices of `taps`: the window's put where they belong."""
        left = iter(others)
        return tuple(r if d == r_at else s if d == s_at else next(left) for d in range(len(conv.taps_axes)))

    lines = stages.add(
        f"{taps.name}_lines", dtype, [along_y.products, *others, conv.taps_of[1]],
        lambda v: _transformed(along_y.taps, v[0], lambda r: cast(dtype, taps[at(v[1:-1], r, v[-1])])),
    )  # fmt: skip
    return stages.add(
        f"{taps.name}_tiles", dtype, [along_y.products, along_x.products, *others],
        lambda v: _transformed(along_x.taps, v[1], lambda s: lines[(v[0], *v[2:], s)]),
    )  # fmt: skip


def _product(stages: _Stages, plan: _Plan, data: n.Buffer, taps: n.Buffer) -> n.Buffer:
    """C_tiles: a product of matrices for each position in a tile."""
    conv, many = plan.conv, [f.products for f in plan.filters]
    band, a, b = _axis(plan.bands, "vband"), _axis(many[0], "va"), _axis(many[1], "vb")
    y, x = conv.pair
    tiles = plan.rows * plan.columns
    spatial = {v: _axis(conv.extents[v], v.name) for v in conv.out_axes if v not in (y, x)} | {y: _axis(tiles, "vp")}
    inner = [v for v in conv.data_axes if v not in conv.out_axes]
    reduced = {v: _axis(conv.extents[v], v.name, IterType.COMM_REDUCE) for v in inner}
    var = {v: iv.var for v, iv in (spatial | reduced).items()}

    def place(axes: Sequence[n.Var]) -> tuple[PrimExpr, ...]:
        return tuple(var[v] for v in axes if v in var)

    order = [v for v in conv.out_axes if v is not x]
    shape = [plan.bands, *many, *(tiles if v is y else conv.extents[v] for v in order)]
    buffer = n.decl_buffer(tuple(map(ops.const, shape)), conv.out.dtype, f"{conv.out.name}_tiles")
    point = (band.var, a.var, b.var, *place(order))
    factors = taps[(a.var, b.var, *place(conv.taps_axes))], data[(band.var, a.var, b.var, *place(conv.data_axes))]
    update = n.BufferStore(buffer, buffer[point] + factors[0] * factors[1], point)
    axes = [band, a, b, *(spatial[v] for v in order), *reduced.values()]
    stages.block(buffer.name, axes, update, n.BufferStore(buffer, ops.const(0.0, buffer.dtype), point))
    stages.buffers.append(buffer)
    return buffer


def _results(stages: _Stages, plan: _Plan, product: n.Buffer, block: str) -> None:
    """C_lines, and C itself."""
    conv, (along_y, along_x) = plan.conv, plan.filters
    at, tile = conv.out_at, plan.tile
    around = [conv.extents[axis] for axis in conv.out_axes]
    before, after = around[:at], around[at + 2 :]

    def line(v: Vars) -> PrimExpr:
        band, i, b, *rest = v
        p = rest[at] * plan.columns + rest[at + 1]
        return _transformed(along_y.result, i, lambda a: product[(band, a, b, *rest[:at], p, *rest[at + 2 :])])

    lines = stages.add(
        f"{conv.out.name}_lines", conv.out.dtype,
        [plan.bands, tile, along_x.products, *before, plan.rows, plan.columns, *after], line,
    )  # fmt: skip
    axes = [_axis(conv.extents[axis], axis.name) for axis in conv.out_axes]
    point = tuple(iv.var for iv in axes)
    y, x = point[at], point[at + 1]
    high = plan.rows * tile

    def of_lines(b: int) -> PrimExpr:
        t, u = y % high // tile, x // tile
        return lines[(y // high, y % tile, b, *point[:at], t, u, *point[at + 2 :])]

    value = _transformed(along_x.result, x % tile, of_lines)
    nest = n.BufferStore(conv.out, value, point)
    own = n.Block(tuple(axes), (), (), block, nest)
    stages.nests.append(nest_over_axes(with_regions(own)))
    stages.names.append(block)


def _transformed(matrix: Matrix, row: PrimExpr, term: Callable[[int], PrimExpr]) -> PrimExpr:
    """Row number `row` of `matrix` times the terms."""
    terms = [term(k) for k in range(len(matrix[0]))]
    *first, value = times_vector(matrix, terms, lambda own, c: own * ops.const(float(c), own.dtype))
    for at, own in reversed(list(enumerate(first))):
        value = n.Select(ops.equal(row, at), own, value)
    return value
