"""Functions over whole te schedules, under Apache TVM's names."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from compiler.driver.objects import Map
from compiler.errors import IRError
from compiler.ir.visit import walk
from compiler.te.scan import ScanOp
from compiler.te.schedule.relations import AttachType, Split, axis_extents
from compiler.te.schedule.replay import schedule_to_func
from compiler.te.schedule.schedule import Schedule
from compiler.te.schedule.stage import Stage
from compiler.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, topological
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimFunc

_made: deque[tuple[n.Stmt, Schedule]] = deque(maxlen=16)
"""The last statements of `ScheduleOps`, and the schedules that they are of."""


def InferBound(sch: Schedule) -> Map:
    """Give the range of every axis, and of the threads that loops are bound to.
    Of a stage that is attached to another, it is what one iteration there needs."""
    found: dict[n.IterVar, n.Range] = {}
    for stage, op in _computed(sch):
        axes = (*op.axis, *op.reduce_axis)
        for axis, extent in axis_extents(axes, stage.relations).items():
            found[axis] = axis.dom if axis in axes and axis.dom is not None else n.Range(ops.const(0), extent)
    schedule_to_func(sch, _args(sch), ranges=found)
    for stage, _ in _computed(sch):
        _shorten_inner_loops(found, stage)
        for loop, attr in stage.iter_var_attrs.items():
            if attr.bind_thread is not None:
                found[attr.bind_thread] = attr.bind_thread.dom or found[loop]
    return Map(found)


def _shorten_inner_loops(ranges: dict[n.IterVar, n.Range], stage: Stage) -> None:
    """Limit the inner loop of a split to the length of the axis that was split.

    This holds also where its outer loop was split again.
    """
    leaves = set(stage.leaves)
    for split in (relation for relation in stage.relations if isinstance(relation, Split)):
        whole, inner = ranges[split.parent].extent, ranges[split.inner].extent
        longest, length = ops.as_int(whole), ops.as_int(inner)
        if longest is None or not length:
            continue
        if length > longest:
            ranges[split.inner] = n.Range(ranges[split.inner].min, whole)
        if split.outer not in leaves:
            ranges[split.outer] = n.Range(ranges[split.outer].min, ops.const(-(-longest // min(length, longest))))


def ScheduleOps(sch: Schedule, bounds: object = None, debug_keep_trivial_loop: bool = False) -> n.Stmt:
    """Give the loops of the schedule's outputs. `bounds` are found anew; a loop that runs once is kept."""
    stmt = schedule_to_func(sch, _args(sch)).body
    _made.append((stmt, sch))
    return stmt


def SchedulePostProcToPrimFunc(
    arg_list: Sequence[Tensor | n.Var | n.Buffer], body: n.Stmt, bindings: Mapping[Tensor, n.Buffer] | None
) -> PrimFunc:
    """Give the function of `arg_list` whose statement `ScheduleOps` returned lately.

    Raises IRError for another statement.
    """
    made = next((sch for stmt, sch in _made if stmt is body), None)
    if made is None:
        raise IRError("SchedulePostProcToPrimFunc takes what ScheduleOps gave, one of its last 16 statements")
    return schedule_to_func(made, arg_list, binds=bindings)


def _args(sch: Schedule) -> list[Tensor | n.Var | n.Buffer]:
    """The arguments of a schedule's function: the inputs, the outputs and the sizes."""
    scans = [stage.op for stage in sch.stages if isinstance(stage.op, ScanOp)]
    inner = {tensor.op for scan in scans for tensor in scan.state_placeholder}
    read = [s.origin_op for s in sch.stages if isinstance(s.op, PlaceholderOp) and s.origin_op not in inner]
    outputs = [stage.origin_op for stage in sch.stages if stage.op in sch.outputs or stage.is_output]
    sizes = list(dict.fromkeys(_sizes(sch)))
    return [*(tensor for op in (*read, *outputs) for tensor in _tensors(op)), *sizes]


def CreateReadGraph(ops_: Sequence[Operation]) -> dict[Operation, list[Tensor]]:
    """Give what each operation behind `ops_` reads."""
    return {op: list(op.input_tensors) for op in topological([op.output(0) for op in ops_])}


def PostDFSOrder(outputs: Sequence[Operation], graph: object = None) -> list[Operation]:
    """Give the operations behind `outputs`, producers before consumers. `graph` is found anew."""
    return list(topological([op.output(0) for op in outputs]))


def CreateAttachPath(sch: Schedule) -> dict[Operation, list[n.IterVar]]:
    """Give the axes that each stage is computed in, the innermost first."""
    return {stage.op: list(_attach_path(stage)) for stage in sch.stages}


def _attach_path(stage: Stage) -> Iterator[n.IterVar]:
    where = stage.attachment()
    while where.attach_type is AttachType.SCOPE and where.attach_stage is not None and where.attach_ivar is not None:
        parent = where.attach_stage
        inmost = parent.loop_made_of(where.attach_ivar)
        leaves = list(parent.leaves)
        yield from reversed(leaves[: leaves.index(inmost) + 1])
        where = parent.attachment()


def AutoInlineElemWise(sch: Schedule) -> None:
    """Inline every stage that reads its inputs at its own indices."""
    for stage, op in _computed(sch):
        if not stage.is_output and _is_elementwise(op):
            stage.compute_inline()


def AutoInlineBroadcast(sch: Schedule) -> None:
    """Inline every stage that reads its inputs at some of its own indices."""
    for stage, op in _computed(sch):
        if not stage.is_output and _is_elementwise(op, some=True):
            stage.compute_inline()


def AutoInlineInjective(sch: Schedule) -> None:
    """Inline every stage without a reduction."""
    for stage, op in _computed(sch):
        if not stage.is_output and not op.reduce_axis:
            stage.compute_inline()


def verify_compute(func: Operation) -> None:
    """Raise IRError unless this is a computation. Its body was checked when it was made."""
    if not isinstance(func, ComputeOp):
        raise IRError(f"verify_compute takes the operation of a te.compute, not a {type(func).__name__}")


def _computed(sch: Schedule) -> Iterator[tuple[Stage, ComputeOp]]:
    return ((stage, stage.op) for stage in sch.stages if isinstance(stage.op, ComputeOp))


def _is_elementwise(op: ComputeOp, some: bool = False) -> bool:
    if op.reduce_axis:
        return False
    axes = [axis.var for axis in op.axis]
    for body in op.body:
        for node in walk(body):
            if isinstance(node, n.ProducerLoad):
                indices = list(node.indices)
                if some and not all(any(i is axis for axis in axes) for i in indices):
                    return False
                if not some and not (len(indices) == len(axes) and all(i is a for i, a in zip(indices, axes))):
                    return False
    return True


def _tensors(op: Operation) -> Iterator[Tensor]:
    return (op.output(index) for index in range(op.num_outputs))


def _sizes(sch: Schedule) -> Iterator[n.Var]:
    for stage in sch.stages:
        for tensor in _tensors(stage.origin_op):
            for extent in tensor.shape:
                yield from (node for node in walk(extent) if isinstance(node, n.Var))
