"""Tasks of whole models: kernels of a graph as te computations, and their schedules in builds of it.

A kernel is a task if te can say what it computes: its blocks are computations and reductions of te. Its records are
used by a build within `with ApplyHistoryBest(log):`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from compiler.driver.kernel_schedules import schedulable_work
from compiler.errors import IRError, ScheduleError
from compiler.faces.relay.nodes import Function as RelayFunction
from compiler.ir.module import IRModule
from compiler.ir.visit import transform, walk
from compiler.relax.nodes import Function
from compiler.schedule.core.schedule import apply_trace
from compiler.target.target import Target
from compiler.te import operation as te
from compiler.te.prim_func import create_prim_func
from compiler.te.tensor import Tensor
from compiler.tir import nodes as n
from compiler.tir.ops import as_int
from compiler.tir.text.print_func import workload_key
from compiler.tir.visit import substitute
from tuner.faces.auto_scheduler.compute_dag import ComputeDAG, KernelTensors
from tuner.faces.auto_scheduler.dispatcher import DispatchContext
from tuner.faces.auto_scheduler.errors import SchedulerError
from tuner.faces.auto_scheduler.hardware import HardwareParams
from tuner.faces.auto_scheduler.loop_state import LoopState
from tuner.faces.auto_scheduler.search_task import SearchTask
from tuner.faces.common.graphs import graph_of
from tuner.kernels.model import ModelKernel, model_kernels

_AS_OF_TE = {"tir.noalias": True}
"""The attributes of a function that te makes."""

_REDUCERS = {n.Add: te.sum, n.Mul: te.prod, n.Max: te.max, n.Min: te.min}


def extract_tasks(
    mod: IRModule | RelayFunction | Function,
    params: Mapping[str, Any] | None,
    target: Any,
    target_host: Any = None,
    hardware_params: HardwareParams | None = None,
    include_simple_tasks: bool = False,
    dump_workload_to_dag_log: str | Path | None = None,
    opt_level: int = 3,
    other_targets: Any = None,
) -> tuple[list[SearchTask], list[int]]:
    """Return a model's kernels that a build for `target` schedules, as tasks, and how often each is run.

    `mod` is a module or function of Relay or relax, `params` are its weights. Tasks are kernels that reduce, and with
    `include_simple_tasks` all worth tuning. `dump_workload_to_dag_log` is a file that gets the computation of each
    workload's key, as JSON. `opt_level` is accepted for compatibility with TVM. Raises SchedulerError for
    `other_targets`, as a graph is built for one target, IRError.
    """
    if other_targets:
        raise SchedulerError("a graph is built for one target", hint="leave other_targets out")
    chosen = Target(target) if target_host is None else Target(Target(target), host=target_host)
    tasks, weights = [], []
    for kernel in model_kernels(graph_of(mod, params), chosen):
        tensors = computation(kernel.func) if include_simple_tasks or _reduces(kernel.func) else None
        if tensors is None:
            continue
        tasks.append(
            SearchTask(
                compute_dag=ComputeDAG(tensors), target=chosen, hardware_params=hardware_params, desc=_described(kernel)
            )
        )
        weights.append(kernel.weight)
    if dump_workload_to_dag_log is not None:
        texts = {task.workload_key: str(task.compute_dag) for task in tasks}
        Path(dump_workload_to_dag_log).write_text(json.dumps(texts), encoding="utf-8")
    return tasks, weights


def _described(kernel: ModelKernel) -> str:
    return ",".join(kernel.names) or kernel.name


def _reduces(func: n.PrimFunc) -> bool:
    blocks = (node for node in walk(func.body) if isinstance(node, n.Block))
    return any(block.init is not None for block in blocks) and schedulable_work(func) is not None


# ------------------------------------------------------------------------------- computations


class _NotOfTe(Exception):
    """A block that no operation of te makes."""


def computation(func: n.PrimFunc) -> KernelTensors | None:
    """Return the te tensors of `func`, inputs and outputs in calling order.
    None if te cannot express it."""
    kernel = n.PrimFunc(func.params, func.body, func.ret_type, func.buffer_map, _AS_OF_TE)
    try:
        tensors = KernelTensors(_tensors(kernel), kernel)
        create_prim_func(tensors)
    except (_NotOfTe, IRError):
        return None
    return tensors


def _tensors(func: n.PrimFunc) -> list[Tensor]:
    buffers = [func.buffer_map[param] for param in func.params if param in func.buffer_map]
    blocks = [node for node in walk(func.body) if isinstance(node, n.BlockRealize) and node.block.name_hint != "root"]
    written = {region.buffer for realize in blocks for region in realize.block.writes}
    made = {b: te.placeholder(b.shape, b.dtype, b.name) for b in buffers if b not in written}
    for realize in blocks:
        _compute(realize.block, made)
    if len(buffers) != len(func.params) or any(buffer not in made for buffer in buffers):
        raise _NotOfTe
    return [made[buffer] for buffer in buffers]


def _compute(block: n.Block, made: dict[n.Buffer, Tensor]) -> None:
    """Add the tensor that a block writes."""
    store = block.body
    if not isinstance(store, n.BufferStore) or block.alloc_buffers or block.match_buffers:
        raise _NotOfTe
    spatial = {axis.var: axis for axis in block.iter_vars if axis.iter_type is n.IterType.DATA_PAR}
    reduced = [axis for axis in block.iter_vars if axis.iter_type is n.IterType.COMM_REDUCE]
    stored = [index for index, var in zip(store.indices, spatial) if index is var]
    if len(stored) != max(len(store.indices), len(spatial)) or len(spatial) + len(reduced) != len(block.iter_vars):
        raise _NotOfTe
    axes = [te.reduce_axis(axis.dom, _name(axis.var)) for axis in reduced if axis.dom]
    value, reducer = store.value, None
    if block.init is not None:
        reducer, value = _reduction(store)

    def element(*point: n.PrimExpr) -> Any:
        where = dict(zip([*spatial, *(axis.var for axis in reduced)], [*point, *(axis.var for axis in axes)]))
        read = transform(substitute(value, where), post=lambda node: _read(node, made))
        return read if reducer is None else reducer(read, axis=axes)

    names = [_name(var) for var in spatial]
    made[store.buffer] = te.compute(store.buffer.shape, element, name=block.name_hint, varargs_names=names)


def _name(var: n.Var) -> str:
    return var.name.removeprefix("v_")  # which te puts there again


def _read(node: Any, made: Mapping[n.Buffer, Tensor]) -> Any:
    if not isinstance(node, n.BufferLoad):
        return None
    if node.buffer not in made:
        raise _NotOfTe
    return made[node.buffer](*node.indices)


def _reduction(store: n.BufferStore) -> tuple[Any, n.PrimExpr]:
    """The reducer of an update, and what it adds in."""
    update = store.value
    reducer = _REDUCERS.get(type(update)) if isinstance(update, n.BinaryOp) else None
    if reducer is None or not isinstance(update, n.BinaryOp):
        raise _NotOfTe
    before = update.a
    if not isinstance(before, n.BufferLoad) or before.buffer is not store.buffer or before.indices != store.indices:
        raise _NotOfTe
    return reducer, update.b


# ------------------------------------------------------------------------------------- builds


def recorded_schedule(func: n.PrimFunc, target: Target) -> n.PrimFunc | None:
    """The best schedule in the contexts of the `with` blocks that a build is in; None where there is none."""
    context = DispatchContext.current
    if context.around is None:
        return None
    state = context.query(target, _workload(func))
    if state is None:
        return None
    with suppress(ScheduleError):
        if not isinstance(state, LoopState):
            return apply_trace(func, state.trace).func
    return None


def _workload(func: n.PrimFunc) -> str:
    """The key of a kernel's task. The layout of its arguments does not count."""
    plain = n.PrimFunc(func.params, func.body, func.ret_type, func.buffer_map, _AS_OF_TE)
    shapes: list[Sequence[int | None]] = [
        [as_int(size) for size in func.buffer_map[param].shape] for param in func.params if param in func.buffer_map
    ]
    return json.dumps([workload_key(plain), *shapes])
