"""Warpgroup products, tensor memory copies and barriers in memory in LLVM's words (sm_90a)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.codegen.llvm.gen import Gen
from compiler.codegen.nvptx import nvvm
from compiler.codegen.nvptx.nvvm import CLUSTER, SHARED
from compiler.errors import CodegenError
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

_SWIZZLE_128 = 1 << 62  # of a matrix descriptor; lengths in it are in units of 16 bytes
_GROUP_BYTES = 1024  # from eight rows to the next eight


def _shared(g: Gen, data: PrimExpr, offset: PrimExpr, element: str, size: int) -> str:
    return nvvm.in_space(g, nvvm.element_at(g, data, offset, element, size), SHARED)


def _barrier(g: Gen, call: n.Call, first: int = 0) -> str:
    return _shared(g, call.args[first], call.args[first + 1], "i64", 8)


def _number(g: Gen, value: PrimExpr) -> str:
    return g.value(ops.cast("int32", value))


def _plain(name: str) -> Callable[[Gen, n.Call], str]:
    """A call without operands."""

    def emit(g: Gen, call: n.Call) -> str:
        g.w.effect(nvvm.call(g, name, "void"))
        g.w.loaded.clear()
        return "0"

    return emit


def mbarrier_init(g: Gen, call: n.Call) -> str:
    g.w.effect(nvvm.call(g, "mbarrier.init.shared", "void", (SHARED, _barrier(g, call)), _count(call)))
    return "0"


def mbarrier_arrive(g: Gen, call: n.Call) -> str:
    g.w.inline(nvvm.call(g, "mbarrier.arrive.shared", "i64", (SHARED, _barrier(g, call))))
    return "0"


def mbarrier_expect(g: Gen, call: n.Call) -> str:
    name = "mbarrier.arrive.expect.tx.scope.cta.space.cta"
    g.w.inline(nvvm.call(g, name, "i64", (SHARED, _barrier(g, call)), _count(call)))
    return "0"


def _count(call: n.Call) -> tuple[str, int | None]:
    """Return the count of arrivals, or of bytes."""
    return "i32", ops.as_int(call.args[2])


def mbarrier_wait(g: Gen, call: n.Call) -> str:
    """Try until it succeeds. The hardware lets a thread sleep for a while in each try."""
    w = g.w
    name = "mbarrier.try.wait.parity.scope.cta.space.cta"
    barrier, parity = _barrier(g, call), _number(g, call.args[2])
    again, after = w.label("wait"), w.label("over")
    w.branch(again)
    w.start_block(again)
    w.branch_if(w.inline(nvvm.call(g, name, "i1", (SHARED, barrier), ("i32", parity))), after, again)
    w.start_block(after)
    w.loaded.clear()
    return "0"


def copy_tile(g: Gen, call: n.Call) -> str:
    """cp.async.bulk.tensor of two dimensions: the inner coordinate, the column, comes first."""
    device = g.module.options.device
    assert device is not None
    data = call.args[2]
    tensor_map = device.tensor_maps.get(data) if isinstance(data, n.Var) else None
    if tensor_map is None:
        raise CodegenError(f"{g.symbol}: {data} is no argument of this kernel", hint="TMA copies from arguments")
    target = _shared(g, call.args[0], call.args[1], "i16", 2)
    wide = g.w.inline(f"addrspacecast {SHARED} {target} to {CLUSTER}")
    barrier = _barrier(g, call, 9)
    row, column = _number(g, call.args[3]), _number(g, call.args[4])
    one_block = (("i16", 0), ("i64", 0), ("i1", 0), ("i1", 0), ("i32", 0))  # nothing for others, no hint to caches
    text = nvvm.call(
        g, "cp.async.bulk.tensor.g2s.tile.2d", "void", (CLUSTER, wide), (SHARED, barrier), ("ptr", tensor_map),
        ("i32", column), ("i32", row), *one_block,
    )  # fmt: skip
    g.w.effect(text)
    return "0"


def _descriptor(g: Gen, data: PrimExpr, offset: PrimExpr, leading: int) -> str:
    """Return the descriptor of a swizzled tile: its address, and the distance between its parts."""
    address = g.w.inline(f"ptrtoint {SHARED} {_shared(g, data, offset, 'i16', 2)} to i32")
    units = g.w.inline(f"lshr i32 {address}, 4")
    units = g.w.inline(f"and i32 {units}, 16383")
    units = g.w.inline(f"zext i32 {units} to i64")
    rest = _SWIZZLE_128 | (_GROUP_BYTES >> 4) << 32 | (leading >> 4) << 16
    return g.w.inline(f"or i64 {units}, {rest}")


def _sums(g: Gen, data: PrimExpr, offset: PrimExpr, count: int) -> list[str]:
    """Where a thread's sums are: local memory, which becomes registers."""
    return nvvm.registers(g, nvvm.element_at(g, data, offset, "float", 4), "float", count)


def _update(g: Gen, text: str, places: list[str], more: list[tuple[str, str, str]]) -> None:
    """Inline assembly that changes registers in place: `$0` and on.
    `more` are (constraint, type, operand)."""
    before = nvvm.load(g, "float", places)
    constraints = ["=f"] * len(places) + [str(i) for i in range(len(places))] + [kind for kind, _, _ in more]
    given = ", ".join([*(f"float {x}" for x in before), *(f"{ty} {x}" for _, ty, x in more)])
    code = f'asm sideeffect "{text}", "{",".join([*constraints, "~{memory}"])}"'
    result = g.w.inline(f"call {nvvm.struct('float', len(places))} {code}({given}) convergent")
    nvvm.store(g, "float", result, places)


def product(g: Gen, call: n.Call) -> str:
    """wgmma.mma_async. LLVM has no intrinsic of it."""
    columns, leading = ops.as_int(call.args[0]), ops.as_int(call.args[6])
    assert columns is not None
    assert leading is not None
    transposed = ops.as_int(call.args[5])
    count = columns // 2
    kind = {"float16": "f16", "bfloat16": "bf16"}[call.dtype]
    a = _descriptor(g, call.args[1], call.args[2], 16)  # rows along k: no parts, the number is not used
    b = _descriptor(g, call.args[3], call.args[4], 2 * leading if transposed else 16)
    sums = "{" + ", ".join(f"${i}" for i in range(count)) + "}"
    text = f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{kind}.{kind} {sums}, ${2 * count}, ${2 * count + 1}, "
    text += f"1, 1, 1, 0, {transposed};"  # added to the sums; nothing negated; a along k
    _update(g, text, _sums(g, call.args[7], call.args[8], count), [("l", "i64", a), ("l", "i64", b)])
    return "0"


def wait_group(g: Gen, call: n.Call) -> str:
    """Wait for groups. The wait returns the given sums, so that no use of them goes before it."""
    num, count = ops.as_int(call.args[0]), ops.as_int(call.args[3])
    if not count:
        g.w.effect(nvvm.call(g, "wgmma.wait_group.sync.aligned", "void", ("i64", num)))
        return "0"
    _update(g, f"wgmma.wait_group.sync.aligned {num};", _sums(g, call.args[1], call.args[2], count), [])
    return "0"


def limit_registers(g: Gen, call: n.Call) -> str:
    direction = "inc" if ops.as_int(call.args[0]) else "dec"
    g.w.effect(nvvm.call(g, f"setmaxnreg.{direction}.sync.aligned.u32", "void", ("i32", ops.as_int(call.args[1]))))
    return "0"


CALLS: dict[str, Callable[[Gen, Any], str]] = {
    "tir.ptx_mbarrier_init": mbarrier_init,
    "tir.ptx_fence_mbarrier_init": _plain("fence.mbarrier_init.release.cluster"),
    "tir.ptx_mbarrier_arrive": mbarrier_arrive,
    "tir.ptx_mbarrier_arrive_expect_tx": mbarrier_expect,
    "tir.ptx_mbarrier_wait_parity": mbarrier_wait,
    "tir.ptx_fence_proxy_async": _plain("fence.proxy.async.shared_cta"),
    "tir.ptx_cp_async_bulk_tensor": copy_tile,
    "tir.ptx_wgmma_fence": _plain("wgmma.fence.sync.aligned"),
    "tir.ptx_wgmma_mma_async": product,
    "tir.ptx_wgmma_commit_group": _plain("wgmma.commit_group.sync.aligned"),
    "tir.ptx_wgmma_wait_group": wait_group,
    "tir.ptx_setmaxnreg": limit_registers,
}
