"""Instructions that only GPU threads have.

Numbers, barriers, exchange in a warp, atomics, shared memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.arith.bounds import ANY, POS
from compiler.codegen.llvm.gen import Gen, KernelStorage
from compiler.codegen.llvm.index import index
from compiler.codegen.llvm.memory import address
from compiler.codegen.llvm.types import bits_of, code_of, element_bytes, is_float, lanes_of, llvm_type, memory_type
from compiler.codegen.llvm.writer import Operand
from compiler.codegen.nvptx import nvvm
from compiler.codegen.nvptx import tensor as ptx_tensor
from compiler.codegen.nvptx import warpgroup as ptx_warpgroup
from compiler.errors import CodegenError
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.gpu import ATOMICS, SHUFFLES, WARP

_REGISTERS = {"threadIdx": "tid", "blockIdx": "ctaid"}
STATIC_SHARED_BYTES = 48 << 10
DYNAMIC = "@tunefarm_shared"


def emit_bound(g: Gen, var: n.Var, low: n.PrimExpr, extent: n.PrimExpr, tag: str, body: Callable[[], None]) -> None:
    """Run `body` in each thread whose number is below `extent`, with `var` that number."""
    device = g.module.options.device
    assert device is not None
    kind, _, axis = tag.partition(".")
    if kind not in _REGISTERS:
        raise CodegenError(f"{g.symbol}: there is no register for the thread axis {tag!r}")
    most = device.extents.get(tag)
    attribute = f"range(i32 0, {most}) " if most is not None else ""
    name = f"@llvm.nvvm.read.ptx.sreg.{_REGISTERS[kind]}.{axis}"
    g.module.declare(name, f"i32 {name}()")
    number = g.w.value(f"call {attribute}i32 {name}()")
    wide = g.w.value(f"zext nneg i32 {number} to i64", number)
    start = index(g, low)
    g.index_vars[var] = g.w.iadd(wide, start)
    size = ops.as_int(extent)
    g.forms.ranges[var] = ANY
    if type(start) is int:
        g.forms.ranges[var] = (start, POS if size is None else start + size - 1)
    if size == 1:
        g.index_vars[var] = start
    if most is None or size is None or size >= most:
        body()
        return
    w = g.w
    inside, after = w.label("thread"), w.label("after")
    w.branch_if(w.value(f"icmp ult i64 {wide}, {size}", wide), inside, after)
    w.start_block(inside)
    body()
    w.branch(after)
    w.start_block(after)


def emit_shared(g: Gen, stmt: n.Allocate, count: Operand, element: str, size: int) -> KernelStorage:
    """Memory of the block: static while it is little, else a part of the one dynamic piece.
    (The launch must ask for more than 48 KiB.)"""
    device = g.module.options.device
    assert device is not None
    if type(count) is not int:
        raise CodegenError(f"{g.symbol}: shared memory {stmt.buffer_var.name!r} has a size that is not known")
    known = g.allocated.get(stmt.buffer_var)
    if known is not None:
        return known[1]
    offset = g.shared_bytes
    align = device.shared_align
    g.shared_bytes += -(-count * size // align) * align
    if g.shared_bytes > device.max_shared:
        raise CodegenError(
            f"{g.symbol} needs {g.shared_bytes} bytes of shared memory a block; {device.arch} has {device.max_shared}",
            hint="make tiles smaller, or keep a part in registers",
        )
    if device.dynamic_shared:
        pointer = f"getelementptr (i8, ptr addrspacecast (ptr addrspace(3) {DYNAMIC} to ptr), i64 {offset})"
    else:
        name = f'@"{g.symbol}.shared{len(g.module.globals)}"'
        g.module.globals.append(
            f"{name} = internal addrspace(3) global [{max(count, 1)} x {element}] poison, align {align}"
        )
        pointer = f"addrspacecast (ptr addrspace(3) {name} to ptr)"
    return KernelStorage(pointer, count)


# ------------------------------------------------------------------------------------- calls


def barrier(g: Gen, call: n.Call) -> str:
    scope = call.args[0]
    if isinstance(scope, n.StringImm) and scope.value == "global":
        raise CodegenError(f"{g.symbol}: there is no barrier for all blocks of a kernel", hint="use two kernels")
    if isinstance(scope, n.StringImm) and scope.value == "warp":
        g.w.effect(nvvm.call(g, "bar.warp.sync", "void", ("i32", -1)))
    else:
        g.w.effect(nvvm.call(g, "barrier.cta.sync.aligned.all", "void", ("i32", 0)))
    g.w.loaded.clear()
    return "0"


_MODES = dict(zip(SHUFFLES, ("idx", "up", "down", "bfly")))


def shuffle(g: Gen, call: n.Call) -> str:
    """A value of 8 to 64 bits from another thread of the warp; 64 bits go in two halves."""
    mask, value, argument, width, _ = call.args
    mode = _MODES[call.op.name.removeprefix("tir.")]  # type: ignore[union-attr]
    group = ops.as_int(width)
    if group is None or group & (group - 1) or not 0 < group <= WARP:
        raise CodegenError(f"{g.symbol}: a shuffle's width is a power of two up to {WARP}, not {width}")
    control = (WARP - group) << 8 | (0 if mode == "up" else WARP - 1)
    others = f"i32 {g.value(ops.cast('int32', argument))}, i32 {control}"
    name = f"@llvm.nvvm.shfl.sync.{mode}.i32"
    g.module.declare(name, f"i32 {name}(i32, i32, i32, i32) convergent")
    if lanes_of(call.dtype) != 1:
        raise CodegenError(f"{g.symbol}: a shuffle of vectors is not possible", hint="shuffle lane by lane")
    ty, own = llvm_type(call.dtype), g.value(value)
    bits = 1 if ty == "i1" else bits_of(call.dtype)
    members = g.value(ops.cast("int32", mask))

    def exchange(part: str) -> str:
        return g.w.inline(f"call i32 {name}(i32 {members}, i32 {part}, {others})")

    whole = f"i{bits}"
    plain = own if ty == whole else g.w.inline(f"bitcast {ty} {own} to {whole}")
    if bits == 64:
        low = g.w.inline(f"trunc i64 {plain} to i32")
        high = g.w.inline(f"trunc i64 {g.w.inline(f'lshr i64 {plain}, 32')} to i32")
        low, high = exchange(low), exchange(high)
        wide = g.w.inline(f"shl i64 {g.w.inline(f'zext i32 {high} to i64')}, 32")
        result = g.w.inline(f"or i64 {wide}, {g.w.inline(f'zext i32 {low} to i64')}")
    elif bits == 32:
        result = exchange(plain)
    else:
        result = exchange(g.w.inline(f"zext {whole} {plain} to i32"))
        result = g.w.inline(f"trunc i32 {result} to {whole}")
    return result if ty == whole else g.w.inline(f"bitcast {whole} {result} to {ty}")


def atomic(g: Gen, call: n.Call) -> str:
    """An update of memory that other threads see whole. Floats are added; only integers have min and max."""
    element, value = call.args
    assert isinstance(element, n.BufferLoad)
    dtype = element.dtype
    name = call.op.name.removeprefix("tir.")  # type: ignore[union-attr]
    floats, operation = is_float(dtype), name.removeprefix("atomic_")
    if lanes_of(dtype) != 1 or code_of(dtype) == "bfloat" or (floats and operation != "add") or bits_of(dtype) < 16:
        raise CodegenError(f"{g.symbol}: there is no {name} of {dtype}", hint="float32 and int32 have it")
    if floats:
        operation = "fadd"
    elif operation != "add" and code_of(dtype) == "uint":
        operation = f"u{operation}"
    size = element_bytes(dtype)
    memory = g.storage_of(element.buffer)
    operand = g.value(value)
    pointer, _ = address(g, memory.pointer, element.indices[0], memory_type(dtype), size)
    g.w.loaded.clear()
    ty = llvm_type(dtype)
    order = 'syncscope("device") monotonic'
    return g.w.inline(f"atomicrmw {operation} ptr {pointer}, {ty} {operand} {order}, align {size}")


def _no_extern(g: Gen, call: n.Call) -> str:
    raise CodegenError(
        f"{g.symbol} calls {call.args[0]}, a C function; a GPU has none", hint="use tir intrinsics such as tir.exp"
    )


CALLS: dict[str, Callable[[Gen, Any], str]] = {
    "tir.tvm_storage_sync": barrier,
    "tir.call_extern": _no_extern,
    **{f"tir.{name}": shuffle for name in SHUFFLES},
    **{f"tir.{name}": atomic for name in ATOMICS},
    **ptx_tensor.CALLS,
    **ptx_warpgroup.CALLS,
}
