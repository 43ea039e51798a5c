"""Products of tiles on Intel's matrix unit (AMX).

`x86_amx_dpbf16ps(c, a, b)`, for i and j of 16:  c[i, j] + Σ_k Σ_g a[i, k, g] * b[k, j, g]  with k of 16 and groups of
two bfloat16 in g; `x86_amx_dpbssd` and its kin the same with groups of four bytes. Tiles are vectors here, rows one
after the other. LLVM keeps such vectors in tile registers, also around loops, and sets the unit up (its pass
X86LowerAMXType), as it does for C's `__tile1024i`. Intel, "Architecture Instruction Set Extensions", chapter 3.
"""

from __future__ import annotations

from compiler.codegen.gen import Gen
from compiler.codegen.types import lanes_of, llvm_type
from compiler.codegen.writer import NO_TILES
from compiler.dtype import element_of
from compiler.errors import CodegenError
from compiler.tir import nodes as n
from compiler.tir.visit import walk
from compiler.tir.x86_intrin import AMX_INT8, TILE

_WORDS = f"<{TILE * TILE} x i32>"  # a tile of 16 rows of 64 bytes
_ROW_BYTES = 4 * TILE
_TO_TILE = "@llvm.x86.cast.vector.to.tile.v256i32"
_TO_VECTOR = "@llvm.x86.cast.tile.to.vector.v256i32"

# By operator: the dtypes of sums and operands, and the feature.
_BYTES = {"s": "int8", "u": "uint8"}
_KINDS = {"x86_amx_dpbf16ps": (("float32", "bfloat16", "bfloat16"), "amx-bf16")} | {
    f"x86_amx_{op}": (("int32", _BYTES[op[3]], _BYTES[op[4]]), "amx-int8") for op in AMX_INT8.values()
}
AMX_PRODUCTS = frozenset(_KINDS)


def amx_product(g: Gen, call: n.Call) -> str:
    """The instruction for a call. Raises CodegenError where dtypes do not fit, or the target has no such one."""
    name = getattr(call.op, "name", "").removeprefix("tir.")
    dtypes, feature = _KINDS[name]
    sums, narrow = TILE * TILE, TILE * _ROW_BYTES // (2 if "bf16" in name else 1)
    found = tuple((element_of(x.dtype), lanes_of(x.dtype)) for x in call.args)
    if found != tuple(zip(dtypes, (sums, narrow, narrow))):
        raise CodegenError(f"{g.symbol}: {name} of {', '.join(x.dtype for x in call.args)} is no instruction")
    if feature not in g.module.options.features:
        raise CodegenError(f"{g.symbol}: {name} needs a CPU with {feature}", hint="name one in the target's mattr")
    g.module.declare(_TO_TILE, f"x86_amx {_TO_TILE}({_WORDS})")
    g.module.declare(_TO_VECTOR, f"{_WORDS} {_TO_VECTOR}(x86_amx)")
    symbol = f"@llvm.x86.t{name.removeprefix('x86_amx_')}.internal"
    g.module.declare(symbol, f"x86_amx {symbol}(i16, i16, i16, x86_amx, x86_amx, x86_amx)")
    tiles = ", ".join(f"x86_amx {_tile(g, x)}" for x in call.args)
    size = f"i16 {TILE}, i16 {_ROW_BYTES}, i16 {_ROW_BYTES}"  # rows, and bytes in a row of sums and of the left operand
    result = g.w.inline(f"call x86_amx {symbol}({size}, {tiles})")
    words = g.w.inline(f"call {_WORDS} {_TO_VECTOR}(x86_amx {result})")
    total = llvm_type(call.dtype)
    return words if total == _WORDS else g.w.inline(f"bitcast {_WORDS} {words} to {total}")


def ask_for_tiles(g: Gen) -> None:
    """Leave the kernel with NO_TILES where the system does not let this process use the unit."""
    g.module.declare("@tunefarm_tiles", "i32 @tunefarm_tiles() nounwind")
    granted = g.w.inline("call i32 @tunefarm_tiles()")
    g.w.fail_unless(g.w.inline(f"icmp ne i32 {granted}, 0"), str(NO_TILES))


def uses_tiles(body: n.Stmt) -> bool:
    names = {f"tir.{name}" for name in AMX_PRODUCTS}
    return any(isinstance(node, n.Call) and getattr(node.op, "name", "") in names for node in walk(body))


def _tile(g: Gen, vector: n.PrimExpr) -> str:
    value, kind = g.value(vector), llvm_type(vector.dtype)
    words = value if kind == _WORDS else g.w.inline(f"bitcast {kind} {value} to {_WORDS}")
    return g.w.inline(f"call x86_amx {_TO_TILE}({_WORDS} {words})")
