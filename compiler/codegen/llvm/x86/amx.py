"""Products of tiles on Intel's matrix unit (AMX).

`x86_amx_dpbf16ps(c, a, b)` is `c[i, j] + Σ_k Σ_g a[i, k, g] * b[k, j, g]` for up to 16 i and for j of 16, with k of 16
and groups of two bfloat16 in g. `x86_amx_dpbssd` and the like do the same with groups of four bytes. Tiles are vectors
here, rows one after the other. `x86_amx_rows(r0, ..., r15)` is the tile of rows that lie apart in memory, as far from
each other as the first two. `x86_amx_zero(z)` is a tile of zeros, z. Two can only be stored: `x86_amx_kept(c)`, which
is c, and `x86_amx_turned(r0, ..., r15)`, where word k of row j becomes word j of row k. LLVM keeps sums in tile
registers, also around loops, and sets the unit up (its pass X86LowerAMXType), as it does for C's `__tile1024i`.
Operands are loaded as tiles from the start: a vector that two products use would pass through memory on its way to
each. Intel, "Architecture Instruction Set Extensions", chapter 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from compiler.codegen.llvm.gen import Gen, stores
from compiler.codegen.llvm.memory import element_pointer, read
from compiler.codegen.llvm.types import element_bytes, lanes_of, llvm_type
from compiler.codegen.llvm.writer import NO_TILES
from compiler.dtype import element_of
from compiler.errors import CodegenError
from compiler.ir.visit import walk
from compiler.tir import nodes as n
from compiler.tir.intrin.amx import AMX_INT8, TILE

_ROW_BYTES = 4 * TILE

# By operator: the dtypes of sums and operands, and the feature.
_BYTES = {"s": "int8", "u": "uint8"}
_KINDS = {"x86_amx_dpbf16ps": (("float32", "bfloat16", "bfloat16"), "amx-bf16")} | {
    f"x86_amx_{op}": (("int32", _BYTES[op[3]], _BYTES[op[4]]), "amx-int8") for op in AMX_INT8.values()
}
AMX_PRODUCTS = frozenset(_KINDS)


def amx_product(g: Gen, call: n.Call) -> str:
    """The instruction for a call.
    Raises CodegenError where dtypes do not fit, or the target has no such one."""
    name = getattr(call.op, "name", "").removeprefix("tir.")
    dtypes, feature = _KINDS[name]
    rows = lanes_of(call.args[0].dtype) // TILE
    in_row = _ROW_BYTES // (2 if "bf16" in name else 1)
    found = tuple((element_of(x.dtype), lanes_of(x.dtype)) for x in call.args)
    if rows > TILE or found != tuple(zip(dtypes, (rows * TILE, rows * in_row, TILE * in_row))):
        raise CodegenError(f"{g.symbol}: {name} of {', '.join(x.dtype for x in call.args)} is no instruction")
    if feature not in g.module.options.features:
        raise CodegenError(f"{g.symbol}: {name} needs a CPU with {feature}", hint="name one in the target's mattr")
    symbol = f"@llvm.x86.t{name.removeprefix('x86_amx_')}.internal"
    g.module.declare(symbol, f"x86_amx {symbol}(i16, i16, i16, x86_amx, x86_amx, x86_amx)")
    operands = (_tile(g, call.args[0]), _operand(g, call.args[1], rows), _operand(g, call.args[2], TILE))
    tiles = ", ".join(f"x86_amx {x}" for x in operands)
    size = f"i16 {rows}, i16 {_ROW_BYTES}, i16 {_ROW_BYTES}"  # rows, and bytes in a row of sums and of the left operand
    result = g.w.inline(f"call x86_amx {symbol}({size}, {tiles})")
    return _vector(g, result, call.dtype)


def ask_for_tiles(g: Gen) -> None:
    """Make the kernel return NO_TILES if the system does not let this process use the unit."""
    g.module.declare("@tunefarm_tiles", "i32 @tunefarm_tiles() nounwind")
    granted = g.w.inline("call i32 @tunefarm_tiles()")
    g.w.fail_unless(g.w.inline(f"icmp ne i32 {granted}, 0"), str(NO_TILES))


def uses_tiles(body: n.Stmt) -> bool:
    names = {f"tir.{name}" for name in AMX_PRODUCTS}
    return any(isinstance(node, n.Call) and getattr(node.op, "name", "") in names for node in walk(body))


@stores("tir.x86_amx_kept")
def _kept(g: Gen, call: n.Call, place: str) -> None:
    """Write a tile to memory by the tile instruction, so that reads of its parts find them there.

    As vectors, parts of a tile register would make LLVM spill the whole tile.
    """
    symbol = "@llvm.x86.tilestored64.internal"
    g.module.declare(symbol, f"void {symbol}(i16, i16, ptr, i64, x86_amx)")
    tile, rows = _tile(g, call.args[0]), lanes_of(call.dtype) // TILE
    g.w.effect(f"call void {symbol}(i16 {rows}, i16 {_ROW_BYTES}, ptr {place}, i64 {_ROW_BYTES}, x86_amx {tile})")


@stores("tir.x86_amx_turned")
def _turned(g: Gen, call: n.Call, place: str) -> None:
    """Write 16 vectors of 32-bit words transposed.
    It takes four steps; each exchanges quarters of 2 × 2 blocks."""
    kind = f"<{TILE} x i32>"
    rows = [g.w.inline(f"bitcast {llvm_type(x.dtype)} {g.value(x)} to {kind}") for x in call.args]
    for step in (1, 2, 4, 8):
        for low in (i for i in range(TILE) if not i & step):
            pair = f"{kind} {rows[low]}, {kind} {rows[low + step]}"
            first = [j if not j & step else TILE + j - step for j in range(TILE)]
            second = [j + step if not j & step else TILE + j for j in range(TILE)]
            rows[low], rows[low + step] = (
                g.w.inline(f"shufflevector {pair}, {kind} <{', '.join(f'i32 {j}' for j in picks)}>")
                for picks in (first, second)
            )
    for at, row in enumerate(rows):
        pointer = g.w.inline(f"getelementptr i8, ptr {place}, i64 {at * _ROW_BYTES}")
        g.w.effect(f"store {kind} {row}, ptr {pointer}, align 4")


def amx_zero(g: Gen, call: n.Call) -> str:
    """Return a tile of zeros as a vector.
    LLVM would make one of all zero vectors, and copy it through memory: registers of tiles have no copy."""
    symbol = "@llvm.x86.tilezero.internal"
    g.module.declare(symbol, f"x86_amx {symbol}(i16, i16)")
    rows = lanes_of(call.dtype) // TILE
    return _vector(g, g.w.inline(f"call x86_amx {symbol}(i16 {rows}, i16 {_ROW_BYTES})"), call.dtype)


def amx_rows(g: Gen, call: n.Call) -> str:
    """Return a tile of rows as a vector, for uses other than products."""
    return _vector(g, _operand(g, call, len(call.args)), call.dtype)


def _operand(g: Gen, vector: n.PrimExpr, rows: int) -> str:
    """The tile `vector`, straight from memory where it lies there."""
    match vector:
        case n.BufferLoad(indices=(n.Ramp(stride=n.IntImm(value=1)),), predicate=None):
            return _load(g, vector, rows, _ROW_BYTES)
        case n.Call(args=args) if getattr(vector.op, "name", "") == "tir.x86_amx_rows":
            return _load(g, args[0], rows, _distance(g, args))
    return _tile(g, vector)


def _load(g: Gen, first: n.PrimExpr, rows: int, stride: int) -> str:
    """The tile whose rows lie `stride` bytes apart, beginning at vector `first`.
    It is loaded once between stores."""
    assert isinstance(first, n.BufferLoad)
    assert isinstance(first.indices[0], n.Ramp)
    symbol = "@llvm.x86.tileloadd64.internal"
    g.module.declare(symbol, f"x86_amx {symbol}(i16, i16, ptr, i64)")
    pointer = element_pointer(g, n.BufferLoad(first.buffer, (first.indices[0].base,)))
    return read(g, first.buffer, f"call x86_amx {symbol}(i16 {rows}, i16 {_ROW_BYTES}, ptr {pointer}, i64 {stride})")


def _distance(g: Gen, rows: Sequence[n.PrimExpr]) -> int:
    """The bytes between neighbouring `rows`.
    Raises CodegenError if they differ, or are no rows of one buffer."""
    forms = []
    for row in rows:
        match row:
            case n.BufferLoad(indices=(n.Ramp(base=base, stride=n.IntImm(value=1), lanes=lanes),), predicate=None):
                if row.buffer is rows[0].buffer and lanes * element_bytes(row.dtype) == _ROW_BYTES:  # type: ignore[attr-defined]
                    forms.append(g.forms.form(base))
    steps = {b.offset - a.offset for a, b in pairwise(forms)}
    apart = len(steps) == 1 and all(form.terms == forms[0].terms for form in forms)
    if not apart or len(forms) != len(rows) or len(rows) > TILE:
        raise CodegenError(f"{g.symbol}: x86_amx_rows takes 2 to {TILE} rows of {_ROW_BYTES} bytes, equally far apart")
    return steps.pop() * element_bytes(rows[0].dtype)


def _tile(g: Gen, vector: n.PrimExpr) -> str:
    value, kind = g.value(vector), llvm_type(vector.dtype)
    words, name = _words(vector.dtype)
    symbol = f"@llvm.x86.cast.vector.to.tile.{name}"
    g.module.declare(symbol, f"x86_amx {symbol}({words})")
    held = value if kind == words else g.w.inline(f"bitcast {kind} {value} to {words}")
    return g.w.inline(f"call x86_amx {symbol}({words} {held})")


def _vector(g: Gen, tile: str, dtype: str) -> str:
    words, name = _words(dtype)
    symbol = f"@llvm.x86.cast.tile.to.vector.{name}"
    g.module.declare(symbol, f"{words} {symbol}(x86_amx)")
    made, kind = g.w.inline(f"call {words} {symbol}(x86_amx {tile})"), llvm_type(dtype)
    return made if kind == words else g.w.inline(f"bitcast {words} {made} to {kind}")


def _words(dtype: str) -> tuple[str, str]:
    """The type of a tile's 32-bit words, and what intrinsics call it."""
    count = lanes_of(dtype) * element_bytes(element_of(dtype)) // 4
    return f"<{count} x i32>", f"v{count}i32"
