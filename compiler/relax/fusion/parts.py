"""A kernel of several products or sums, cut where `FuseOps` would have cut it.

    attention(q, k, v):                          part 1: scores = q kᵀ
        scores = q kᵀ                            part 2: shares = softmax(scores)
        shares = softmax(scores)          →      part 3: out = shares v
        out = shares v

Each part is a kernel that can be scheduled by itself. Put together again, they are the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.ir.visit import replace, walk
from compiler.relax.fusion.groups import BlockValue, grouped
from compiler.relax.fusion.kernel_pattern import BlockNest, elements, is_unscheduled, nests_of, pattern_of
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.visit import seq


def parts_of(func: n.PrimFunc) -> list[n.PrimFunc]:
    """The parts of an unscheduled kernel, in order; none if it is one part, or cannot be cut.

    Parts share the kernel's buffers: one writes what a later one reads.
    """
    nests = nests_of(func)
    if nests is None or len(nests) < 2 or not all(map(is_unscheduled, nests)):
        return []
    if any(param not in func.buffer_map for param in func.params):
        return []
    written = [{region.buffer for region in nest.block.writes} for nest in nests]
    makers = {buffer: number for number, buffers in enumerate(written) for buffer in buffers}
    if any(len(buffers) != 1 for buffers in written) or len(makers) != len(nests):
        return []
    results = set(func.buffer_map.values())
    values = [_value(nest, makers, results) for nest in nests]
    if sum(value.is_anchor for value in values) < 2:
        return []
    groups = grouped(values)
    inside = {number for group in groups for number in group}
    groups += [[number] for number in range(len(nests)) if number not in inside]
    groups.sort(key=lambda group: group[-1])
    if len(groups) < 2:
        return []
    return [kernel_of([nests[number] for number in group], func) for group in groups]


def put_together(func: n.PrimFunc, parts: Sequence[n.PrimFunc]) -> n.PrimFunc | None:
    """Join scheduled parts to their kernel again; None if a schedule has changed the arrays of a part."""
    known = {*func.buffer_map.values(), *_made_inside(func)}
    stmts: list[n.Stmt] = []
    local = list(_made_inside(func))
    for part in parts:
        root = part.body
        if not isinstance(root, n.BlockRealize) or root.block.annotations or root.block.match_buffers:
            return None
        if not known.issuperset(part.buffer_map.values()):
            return None
        local += [buffer for buffer in root.block.alloc_buffers if buffer not in local]
        stmts.append(root.block.body)
    body = func.body
    assert isinstance(body, n.BlockRealize)
    block = replace(body.block, body=seq(*stmts), alloc_buffers=tuple(local))
    return replace(func, body=replace(body, block=block))


def _made_inside(func: n.PrimFunc) -> tuple[n.Buffer, ...]:
    assert isinstance(func.body, n.BlockRealize)
    return func.body.block.alloc_buffers


def reads_of(nest: BlockNest) -> list[n.Buffer]:
    """The arrays that a nest reads, in the order of its first loads."""
    own = {region.buffer for region in nest.block.writes}
    loads = [node.buffer for node in walk(nest.block) if isinstance(node, n.BufferLoad)]
    return [buffer for buffer in dict.fromkeys(loads) if buffer not in own]


def _value(nest: BlockNest, makers: dict[n.Buffer, int], results: set[n.Buffer]) -> BlockValue:
    sources = reads_of(nest)
    out = nest.block.writes[0].buffer
    return BlockValue(
        tuple([makers.get(buffer) for buffer in sources]),
        pattern_of(_function([nest], sources, out)),
        tuple([buffer.shape for buffer in sources]),
        out.shape,
        max(1.0, elements(out.shape)),
        kept=out in results,
    )


def kernel_of(nests: Sequence[BlockNest], func: n.PrimFunc) -> n.PrimFunc:
    """Return the kernel of some nests of `func`.
    Its arguments are what they read and do not make, then what the last one writes."""
    made = {nest.block.writes[0].buffer for nest in nests}
    sources = [buffer for buffer in dict.fromkeys(b for nest in nests for b in reads_of(nest)) if buffer not in made]
    part = _function(nests, sources, nests[-1].block.writes[0].buffer)
    return replace(part, attrs={key: value for key, value in func.attrs.items() if key == "tir.noalias"})


def _function(nests: Sequence[BlockNest], sources: Sequence[n.Buffer], out: n.Buffer) -> n.PrimFunc:
    buffers = [*sources, out]
    params = tuple([n.Var(f"var_{buffer.name}", "handle") for buffer in buffers])
    inner = tuple([nest.block.writes[0].buffer for nest in nests if nest.block.writes[0].buffer is not out])
    root = n.Block((), (), (), "root", seq(*[nest.stmt for nest in nests]), alloc_buffers=inner)
    return n.PrimFunc(params, n.BlockRealize((), ops.const(True), root), None, dict(zip(params, buffers)), {})
