"""Functions over whole te schedules, under Apache TVM's names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler.driver.objects import Map
from compiler.errors import IRError
from compiler.ir.visit import walk
from compiler.te.schedule.relations import AttachType, axis_extents
from compiler.te.schedule.replay import schedule_to_func
from compiler.te.schedule.schedule import Schedule
from compiler.te.schedule.stage import Stage
from compiler.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, topological
from compiler.tir import nodes as n
from compiler.tir import ops


def InferBound(sch: Schedule) -> Map:
    """Give the range of every axis: of a stage that is attached to another, what one iteration there needs."""
    found: dict[n.IterVar, n.Range] = {}
    for stage, op in _computed(sch):
        axes = (*op.axis, *op.reduce_axis)
        for axis, extent in axis_extents(axes, stage.relations).items():
            found[axis] = axis.dom if axis in axes and axis.dom is not None else n.Range(ops.const(0), extent)
    schedule_to_func(sch, _args(sch), ranges=found)
    return Map(found)


def ScheduleOps(sch: Schedule, bounds: object = None, debug_keep_trivial_loop: bool = False) -> n.Stmt:
    """Give the loops of the schedule's outputs. `bounds` are found anew; a loop that runs once is kept."""
    return schedule_to_func(sch, _args(sch)).body


def _args(sch: Schedule) -> list[Tensor | n.Var | n.Buffer]:
    """What the function of a schedule takes: the inputs, the outputs and the sizes."""
    read = [stage.origin_op for stage in sch.stages if isinstance(stage.op, PlaceholderOp)]
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
    """Check a computation. Raises IRError unless it is one; its body was checked when it was made."""
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
