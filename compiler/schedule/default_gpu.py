"""Threads for functions that nobody scheduled: correct everywhere, fast nowhere."""

from __future__ import annotations

from compiler.schedule.analysis import tree
from compiler.schedule.core.schedule import BlockRV, LoopRV, Schedule
from compiler.schedule.core.state import block_path
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import IterType
from compiler.tir.transform import tir_pass
from compiler.tir.visit import free_vars

THREADS = 256


@tir_pass("DefaultGPUSchedule")
def default_gpu_schedule(func: n.PrimFunc, threads: int = THREADS) -> n.PrimFunc:
    """Make kernels, with a thread for each result, of blocks that are in no loop bound to threads.

    A lowered function comes back as it is.
    """
    if not isinstance(func.body, n.BlockRealize):
        return func
    sch = Schedule(func)
    bind_blocks(sch, threads)
    return sch.func


def bind_blocks(sch: Schedule, threads: int = THREADS) -> None:
    """Bind a loop around each block that is in no loop of threads.
    A block of threads has at most `threads` of them."""
    assert isinstance(sch.func.body, n.BlockRealize)
    for realize in tree.realizes(sch.func.body.block.body):
        _bind(sch, sch.get_block(realize.block.name_hint), threads)


def _bind(sch: Schedule, block: BlockRV, threads: int) -> None:
    loops = sch.get_loops(block)
    nodes = [sch.get(loop) for loop in loops]
    if any(node.thread_binding is not None for node in nodes):
        return
    path = block_path(sch.func, sch.get(block).name_hint)
    realize = path[-1]
    assert isinstance(realize, n.BlockRealize)
    pairs = list(zip(realize.block.iter_vars, realize.iter_values))
    reduced = {v for iv, value in pairs if iv.iter_type is not IterType.DATA_PAR for v in free_vars(value)}
    data: list[LoopRV] = [loop for loop, node in zip(loops, nodes) if node.loop_var not in reduced]
    reducing = [loop for loop in loops if loop not in data]
    if not data:  # one result: one thread
        sch.bind(sch.add_unit_loop(loops[0] if loops else block), "blockIdx.x")
        return
    if reducing:
        sch.reorder(*data, *reducing)
    *outer, last = data
    known = ops.as_int(sch.get(last).extent)
    above, thread = sch.split(last, factors=[None, min(threads, known or threads)])
    sch.bind(sch.fuse(*outer, above) if outer else above, "blockIdx.x")  # split before: it is plain who has what
    sch.bind(thread, "threadIdx.x")
