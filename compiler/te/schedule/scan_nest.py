"""The loops of a scan: one over its rows, with the nests of each row inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.errors import IRError
from compiler.ir.visit import replace
from compiler.schedule.analysis import tree
from compiler.schedule.analysis.expr import TRUE
from compiler.schedule.analysis.placement import PlacedAccess, Side, access, analyzer_of, narrow, new_nest
from compiler.te.scan import ScanOp
from compiler.te.tensor import Operation, Tensor
from compiler.te.where import at
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import IterType
from compiler.tir.visit import seq


def scans_in(order: Sequence[Operation]) -> list[ScanOp]:
    """The scans among operations. Raises IRError if one uses a tensor that exists only inside a scan."""
    scans = [op for op in order if isinstance(op, ScanOp)]
    for scan in scans:
        own = scan.body()
        held = {*own, *(t.op for t in scan.state_placeholder)}
        for op in order:
            read = next((t for t in op.input_tensors if t.op in held), None)
            if read is not None and op not in own and op is not scan:
                raise IRError(
                    f"{op.name!r} reads {read.name!r}, which is computed row by row inside te.scan {scan.name!r}"
                    + at(op.span),
                    hint="read the tensor that te.scan returned",
                )
    return scans


def aliases_of(scans: Sequence[ScanOp], args: Sequence[object]) -> dict[Tensor, Tensor]:
    """The output that each other name of a scan's state stands for.
    Raises IRError for one among the arguments."""
    found: dict[Tensor, Tensor] = {}
    for scan in scans:
        for tensor, output in scan.aliases().items():
            if found.setdefault(tensor, output) is not output:
                raise IRError(f"{tensor.name!r} is part of two scans, one of them {scan.name!r}" + at(scan.span))
            if any(tensor is arg for arg in args):
                raise IRError(
                    f"tensor {tensor.name!r} is a part of te.scan {scan.name!r} and no argument" + at(scan.span),
                    hint="pass the tensor that te.scan returned",
                )
    return found


def scan_nest(scan: ScanOp, blocks: Mapping[Operation, n.Block]) -> n.Stmt:
    """The loop over the rows of `scan`.
    `blocks` are those of its body. An update's block computes the current row, in loops over the rest of its axes. The
    update's inputs are computed just before it, as far as they are needed."""
    axis = scan.scan_axis
    assert axis.dom is not None
    var = n.Var(axis.var.name.replace(".", "_"), axis.dtype)
    row = n.For(var, ops.const(0, axis.dtype), axis.dom.extent, n.ForKind.SERIAL, n.Evaluate(ops.const(0)))
    at_hand = ops.add(var, axis.dom.min)
    updates = {tensor.op for tensor in scan.update}
    readers: list[n.Stmt] = []
    for op in reversed(list(blocks)):
        nest = _of_row(blocks[op], axis, at_hand) if op in updates else _as_needed(row, blocks[op], readers)
        readers.append(nest)
    return tree.with_body(row, seq(*reversed(readers)))


def _of_row(block: n.Block, axis: n.IterVar, at_hand: n.PrimExpr) -> n.Stmt:
    """The block of an update, its first axis bound to the row.
    That axis still has a loop, of one iteration, as every axis of a stage has."""
    first, *rest = block.iter_vars
    rows = n.IterVar(axis.dom, first.var, IterType.ORDERED)
    loops = [n.Var(iv.var.name.removeprefix("v_"), iv.var.dtype) for iv in block.iter_vars]
    own = replace(block, iter_vars=(rows, *rest))
    nest: n.Stmt = n.BlockRealize((at_hand, *loops[1:]), TRUE, own)
    for loop, iv in zip(reversed(loops[1:]), reversed(rest)):
        assert iv.dom is not None
        nest = n.For(loop, iv.dom.min, iv.dom.extent, n.ForKind.SERIAL, nest)
    one = ops.const(1, loops[0].dtype)
    return n.For(loops[0], ops.const(0, loops[0].dtype), one, n.ForKind.SERIAL, nest)


def _as_needed(row: n.For, block: n.Block, readers: Sequence[n.Stmt]) -> n.Stmt:
    """`block` in loops over what `readers` read of it in an iteration of `row`."""
    analyzer = analyzer_of([row])
    sides: dict[n.Var, Side] = {}
    for write in block.writes:
        uses = [use for nest in readers for use in _uses(nest, write.buffer)]
        narrow(analyzer, block, write, uses, sides)
    return new_nest(analyzer, block, sides, preserve_unit_loops=True)


def _uses(nest: n.Stmt, buffer: n.Buffer) -> list[PlacedAccess]:
    [realize] = tree.realizes(nest)
    loops = tree.loops_around(nest, realize)
    return [access(read, realize, loops) for read in realize.block.reads if read.buffer is buffer]
