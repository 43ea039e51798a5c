"""Python source for what warpgroups do: see `thread_transfers`, which runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr


class Writer(Protocol):
    """The interface of a kernel's writer."""

    @property
    def site(self) -> int: ...

    def line(self, text: str) -> None: ...

    def at(self, data: PrimExpr, offset: PrimExpr) -> tuple[str, str]: ...

    def number(self, value: PrimExpr) -> str: ...


def _place(w: Writer, call: n.Call, first: int) -> str:
    return ", ".join(w.at(call.args[first], call.args[first + 1]))


def _init(w: Writer, call: n.Call) -> None:
    w.line(f"T.block.transfers.make(T, {_place(w, call, 0)}, {ops.as_int(call.args[2])})")


def _arrive(w: Writer, call: n.Call) -> None:
    expected = f", {ops.as_int(call.args[2])}" if len(call.args) > 2 else ""
    w.line(f"T.block.transfers.arrive(T, {_place(w, call, 0)}{expected})")


def _wait_parity(w: Writer, call: n.Call) -> None:
    barrier = f"T.block.transfers.barrier(T, {_place(w, call, 0)})"
    w.line(f"yield ('mbarrier', {w.site}, {barrier}, {w.number(call.args[2])})")


def _copy(w: Writer, call: n.Call) -> None:
    target, (source, _) = _place(w, call, 0), w.at(call.args[2], ops.const(0))
    corner = f"({w.number(call.args[3])}, {w.number(call.args[4])})"
    shape = tuple(ops.as_int(x) for x in call.args[5:7])
    rows = ops.as_int(call.args[7])
    w.line(f"T.block.transfers.copy(T, {target}, {source}, {corner}, {shape}, {rows}, {_place(w, call, 9)})")


def _product(w: Writer, call: n.Call) -> None:
    operands = f"{_place(w, call, 1)}, {_place(w, call, 3)}"
    columns, transposed, leading = (ops.as_int(call.args[i]) for i in (0, 5, 6))
    rest = f"{columns}, {transposed}, {leading}, {call.dtype!r}"
    w.line(f"yield ('warpgroup', {w.site}, {_place(w, call, 7)}, ({operands}, {rest}))")


CALLS: dict[str, Callable[[Writer, n.Call], None]] = {
    "ptx_mbarrier_init": _init,
    "ptx_fence_mbarrier_init": lambda w, call: w.line("T.block.transfers.show_to_copies(T)"),
    "ptx_mbarrier_arrive": _arrive,
    "ptx_mbarrier_arrive_expect_tx": _arrive,
    "ptx_mbarrier_wait_parity": _wait_parity,
    "ptx_fence_proxy_async": lambda w, call: w.line("T.block.transfers.fence(T)"),
    "ptx_cp_async_bulk_tensor": _copy,
    "ptx_wgmma_fence": lambda w, call: w.line("T.products.fence()"),
    "ptx_wgmma_mma_async": _product,
    "ptx_wgmma_commit_group": lambda w, call: w.line("T.products.commit()"),
    "ptx_wgmma_wait_group": lambda w, call: w.line(f"T.products.wait(T, {ops.as_int(call.args[0])})"),
    "ptx_setmaxnreg": lambda w, call: w.line("pass"),
}
