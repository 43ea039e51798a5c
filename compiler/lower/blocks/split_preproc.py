"""Operands that are the same at every call can be packed ahead of time.

A function says in its attribute `layout_free_buffers` (positions of parameters, as in TVM) which of its arguments the
caller may keep in any layout. Its schedule may pack such a buffer B whole, in a block of its own with the annotation
`meta_schedule.layout_rewrite_preproc`. Then two functions can do the work of one (their names are those of TVM's
SplitLayoutRewritePreproc):

    main(A, B, C):                        main_weight_prepack(B, B_packed):
      B_packed = B, packed          →       B_packed = B, packed
      C = A · B_packed                    main_prepacked(A, B_packed, C):
                                            C = A · B_packed

Where functions of a module can call each other, `main` calls the two, so that their code is made once.
"""

from __future__ import annotations

from typing import Any

from compiler.artifact import PREPACK, PREPACKED
from compiler.ir.base import GlobalVar
from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.ir.visit import replace, walk
from compiler.tir import nodes as n
from compiler.tir.intrin.graph import WRITTEN
from compiler.tir.nodes import Stmt
from compiler.tir.visit import seq

LAYOUT_FREE = "layout_free_buffers"
PREPROC = "meta_schedule.layout_rewrite_preproc"


def layout_free(func: n.PrimFunc) -> tuple[n.Buffer, ...]:
    """Return the parameters of `func` whose layout its callers may choose.
    Positions that are no buffer are ignored."""
    positions = func.attrs.get(LAYOUT_FREE) or ()
    params = [func.params[i] for i in positions if isinstance(i, int) and 0 <= i < len(func.params)]
    return tuple(func.buffer_map[p] for p in params if p in func.buffer_map)


def with_prepacked(module: IRModule, *, calling: bool = False) -> IRModule:
    """The module with both functions for each one in it that packs layout-free buffers.
    `calling`: the function itself becomes one that calls them."""
    functions: dict[Any, BaseFunc] = dict(module.items())
    for name, func in module.items():
        parts = split_layout_rewrite(func) if isinstance(func, n.PrimFunc) else None
        if parts is None:
            continue
        assert isinstance(func, n.PrimFunc)
        names = [GlobalVar(f"{name.name_hint}{suffix}") for suffix in (PREPACK, PREPACKED)]
        for own, part in zip(names, parts):
            functions[own] = part.with_attr("global_symbol", own.name_hint)
        if calling:
            functions[name] = _calling(func, *parts, *names)
    return IRModule(functions, module.attrs, module.global_infos) if len(functions) > len(module) else module


def _calling(
    func: n.PrimFunc, before: n.PrimFunc, after: n.PrimFunc, pack: GlobalVar, packed: GlobalVar
) -> n.PrimFunc:  # fmt: skip
    """`func` as a call of `pack` on memory of its own, then of `packed`.
    `before` and `after` are what these do."""
    own = {param: func.buffer_map[param].data if param in func.buffer_map else param for param in func.params}
    made = [before.buffer_map[param] for param in before.params if param not in own]
    taken = {param: after.buffer_map[param].data for param in after.params if param not in own}
    packing = (*(own[param] for param in before.params if param in own), *(buffer.data for buffer in made))
    computing = tuple([(own | taken)[param] for param in after.params])
    calls = [n.Call("int32", pack, packing), n.Call("int32", packed, computing)]
    body = seq(*map(n.Evaluate, calls))
    for buffer in made:
        body = n.Allocate(buffer.data, buffer.dtype, buffer.shape, n.IntImm("bool", 1), body)
    written = {region.buffer for e in walk(func.body) if isinstance(e, n.Block) for region in e.writes}
    places = tuple(at for at, param in enumerate(func.params) if func.buffer_map.get(param) in written)
    return n.PrimFunc(func.params, body, func.ret_type, func.buffer_map, {**func.attrs, WRITTEN: places})


def split_layout_rewrite(func: n.PrimFunc) -> tuple[n.PrimFunc, n.PrimFunc] | None:
    """Split a scheduled function into one that packs layout-free buffers and one that uses them packed.
    None if it packs none, or also reads one unpacked."""
    free = layout_free(func)
    if not free or not isinstance(func.body, n.BlockRealize):
        return None
    root = func.body.block
    stmts = root.body.seq if isinstance(root.body, n.SeqStmt) else (root.body,)
    packing: list[Stmt] = []
    packed: dict[n.Buffer, n.Buffer] = {}
    for stmt in stmts:
        found = _packs(stmt, free)
        if found is not None and found[1] in root.alloc_buffers and found[0] not in packed:
            packed[found[0]] = found[1]
            packing.append(stmt)
    rest = [stmt for stmt in stmts if stmt not in packing]
    gone = {*packed, *_stored(packing)} - set(packed.values())
    if not packing or any(isinstance(e, n.BufferLoad) and e.buffer in gone for stmt in rest for e in walk(stmt)):
        return None
    handles = {buffer: n.Var(f"{buffer.name}_packed", "handle") for buffer in packed}
    sources = [p for p in func.params if func.buffer_map.get(p) in packed]
    before = _part(func, [*sources, *(handles[func.buffer_map[p]] for p in sources)], packed, handles, packing)
    params = [handles.get(func.buffer_map[p], p) if p in func.buffer_map else p for p in func.params]
    return before, _part(func, params, packed, handles, rest)


def _stored(stmts: list[Stmt]) -> set[n.Buffer]:
    return {e.buffer for stmt in stmts for e in walk(stmt) if isinstance(e, n.BufferStore)}


def _packs(stmt: Stmt, free: tuple[n.Buffer, ...]) -> tuple[n.Buffer, n.Buffer] | None:
    """The layout-free buffer that `stmt` packs, and where to.
    None for a statement that does anything else. Beside the block that says so there may be others, which make what
    it reads."""
    blocks = [e for e in walk(stmt) if isinstance(e, n.Block)]
    last = [block for block in blocks if block.annotations.get(PREPROC)]
    if len(last) != 1:
        return None
    written = {region.buffer for block in blocks for region in block.writes}
    read = {region.buffer for block in blocks for region in block.reads} - written
    made = [region.buffer for region in last[0].writes]
    if len(read) != 1 or len(made) != 1 or not read <= set(free):
        return None
    return read.pop(), made[0]


def _part(
    func: n.PrimFunc, params: list[n.Var], packed: dict[n.Buffer, n.Buffer], handles: dict[n.Buffer, n.Var],
    stmts: list[Stmt],
) -> n.PrimFunc:  # fmt: skip
    """A function of `params` that does `stmts`."""
    assert isinstance(func.body, n.BlockRealize)
    root = func.body.block
    used = {e.buffer for stmt in stmts for e in walk(stmt) if isinstance(e, n.BufferLoad | n.BufferStore)}
    kept = tuple(b for b in root.alloc_buffers if b in used and b not in packed.values())
    body = replace(func.body, block=replace(root, body=seq(*stmts), alloc_buffers=kept))
    buffers = {**func.buffer_map, **{handles[source]: target for source, target in packed.items()}}
    attrs = {key: value for key, value in func.attrs.items() if key != LAYOUT_FREE}
    return n.PrimFunc(tuple(params), body, func.ret_type, {p: buffers[p] for p in params if p in buffers}, attrs)
