"""Split lowered functions into kernels and the host functions that launch them.

Each outermost loop that is bound to a thread axis is a kernel. Around kernels the host may only allocate memory that
kernels pass on to each other: everything else belongs into a bound loop.

    for i in T.thread_binding(64, "blockIdx.x"): ...   →   T.Call("int32", "@main_kernel", A, B, 64, 1, 1, 1, 1, 1)

A launch passes the kernel's arguments, then what the kernel's attribute `tir.kernel_launch_params` names: the extents
of the grid and of a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice

from compiler.errors import CodegenError
from compiler.ir.base import GlobalVar
from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.ir.structural import structural_equal
from compiler.ir.visit import children, walk
from compiler.launches import TensorMap
from compiler.lower.blocks.shape_vars import shape_vars
from compiler.lower.gpu.thread_axes import bound_extents
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.ptx_warpgroup import COPY
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.renew import renew_defs
from compiler.tir.transform import tir_pass
from compiler.tir.visit import free_vars, seq

_GRID = tuple(f"blockIdx.{axis}" for axis in "xyz")
_BLOCK = tuple(f"threadIdx.{axis}" for axis in "xyz")
_AXES = (*_GRID, *_BLOCK)
_LAUNCH_PARAMS = "tir.kernel_launch_params"  # of a kernel: what a launch passes after its arguments
_HOST = "tir.is_host_func"
_Described = tuple[str, tuple[int, int], tuple[int, int]]  # dtype, the matrix's shape, the tile's


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One launch: `grid` blocks of `block` threads. `func` has the parameters that it uses; `slots` says
    which of the function's parameters, shape variables and workspaces these are."""

    func: n.PrimFunc
    grid: tuple[PrimExpr, PrimExpr, PrimExpr]
    block: tuple[int, int, int]
    slots: tuple[int, ...]
    tensor_maps: tuple[TensorMap, ...] = ()  # of its first parameters


@dataclass(slots=True)
class HostDevice:
    """The kernels of a function in order, and the buffers between them."""

    kernels: list[KernelLaunch] = field(default_factory=list)
    workspaces: list[n.Buffer] = field(default_factory=list)


@tir_pass("SplitHostDevice", over="module")
def split_host_device(mod: IRModule) -> IRModule:
    """Move the loops that are bound to threads into separate functions, kernels, which the host launches.

    Raises CodegenError where something is left for the host to compute, a block's extent is not known or two loops want
    different grids.
    """
    functions: dict[GlobalVar, BaseFunc] = {}
    for g, func in mod.items():
        if not isinstance(func, n.PrimFunc) or _HOST in func.attrs or _LAUNCH_PARAMS in func.attrs:
            functions[g] = func
            continue
        plan = _plan(func, g.name_hint)
        free = (f"{g.name_hint}_kernel{f'_{i}' if i else ''}" for i in count())
        names = list(islice((GlobalVar(name) for name in free if name not in mod), len(plan.kernels)))
        functions[g] = _host(func, plan, names)
        functions |= {name: _named(kernel.func, name) for name, kernel in zip(names, plan.kernels)}
    return mod.with_functions(functions)


def launches(mod: IRModule, name: GlobalVar) -> HostDevice:
    """Return what the host function `name` of a split module launches.
    Raises CodegenError for any other function."""
    func = mod[name]
    if not isinstance(func, n.PrimFunc) or _HOST not in func.attrs:
        raise CodegenError(
            f"{name.name_hint} is not split into kernels and what the host does",
            hint="the pass tir.SplitHostDevice does it: look at disabled_pass and instruments of the pass context",
        )
    plan = HostDevice()
    calls: list[n.Call] = []
    for node in walk(func.body):
        match node:
            case n.Allocate():
                plan.workspaces.append(_workspace(node))
            case n.Call(op=GlobalVar()):
                calls.append(node)
            case _:
                pass
    slots = {var: slot for slot, (_, _, var) in enumerate(_passed(func, plan.workspaces))}
    for call in calls:
        assert isinstance(call.op, GlobalVar)
        kernel = mod[call.op]
        assert isinstance(kernel, n.PrimFunc)
        args, (x, y, z, *threads) = call.args[: -len(_AXES)], call.args[-len(_AXES) :]
        bx, by, bz = (ops.as_int(extent) or 1 for extent in threads)
        used = tuple(slots[arg] for arg in args if isinstance(arg, n.Var))
        plan.kernels.append(KernelLaunch(kernel, (x, y, z), (bx, by, bz), used, _described(kernel)))
    return plan


def _host(func: n.PrimFunc, plan: HostDevice, names: list[GlobalVar]) -> n.PrimFunc:
    """`func` with launches in the place of its kernels."""
    passed = _passed(func, plan.workspaces)
    body: Stmt = seq(*(_launch(name, kernel, passed) for name, kernel in zip(names, plan.kernels)))
    for buffer in reversed(plan.workspaces):
        body = n.Allocate(buffer.data, buffer.dtype, buffer.shape, ops.const(True), body, "global")
    return func.with_body(body).with_attr(_HOST, True)


def _launch(name: GlobalVar, kernel: KernelLaunch, passed: list[tuple[n.Var, n.Buffer | None, n.Var]]) -> Stmt:
    args = [passed[slot][2] for slot in kernel.slots]
    return n.Evaluate(n.Call("int32", name, (*args, *kernel.grid, *map(ops.const, kernel.block))))


def _named(kernel: n.PrimFunc, name: GlobalVar) -> n.PrimFunc:
    """The kernel as a function of the module, with variables of its own."""
    return renew_defs(kernel).with_attrs({"global_symbol": name.name_hint, _LAUNCH_PARAMS: _AXES})


def _passed(func: n.PrimFunc, workspaces: list[n.Buffer]) -> list[tuple[n.Var, n.Buffer | None, n.Var]]:
    """Return what launches can pass: the parameter, its buffer, and its expression in the function's body."""
    buffers = [(param, func.buffer_map.get(param)) for param in func.params]
    passed = [(param, buffer, param if buffer is None else buffer.data) for param, buffer in buffers]
    passed += [(shape.var, None, shape.var) for shape in shape_vars(func)]
    passed += [(n.Var(f"{buffer.name}_workspace", "handle"), buffer, buffer.data) for buffer in workspaces]
    return passed


def _workspace(alloc: n.Allocate) -> n.Buffer:
    return n.Buffer(alloc.buffer_var.name, alloc.buffer_var, alloc.extents, alloc.dtype)


def _plan(func: n.PrimFunc, name: str) -> HostDevice:
    plan = HostDevice()
    found = list(_kernels(func.body, (), name, plan))
    _check_private(found, name)
    passed = [(var, buffer) for var, buffer, _ in _passed(func, plan.workspaces)]
    plan.kernels = [_kernel(func, body, private, name, passed) for body, private in found]
    if not plan.kernels:
        raise _unbound(name)
    return plan


def _check_private(found: list[tuple[Stmt, tuple[n.Allocate, ...]]], name: str) -> None:
    """Check that nothing uses memory of threads or blocks in several kernels.
    Another kernel cannot read it."""
    users: dict[n.Var, int] = {}
    for body, private in found:
        used = _used(body)
        for alloc in private:
            users[alloc.buffer_var] = users.get(alloc.buffer_var, 0) + (alloc.buffer_var in used)
    for var, kernels in users.items():
        if kernels > 1:
            raise CodegenError(
                f"{name}: {var.name} is memory of a thread or a block, and {kernels} kernels use it",
                hint='what one kernel passes on to another is in scope "global"',
            )


def _unbound(name: str) -> CodegenError:
    return CodegenError(
        f"{name} computes outside of any loop bound to threads, which a GPU cannot",
        hint='bind its loops: s[C].bind(axis, te.thread_axis("blockIdx.x")); topi.cuda has schedules that do, and '
        "tir.transform.DefaultGPUSchedule binds what is left",
    )


def _kernels(
    stmt: Stmt, private: tuple[n.Allocate, ...], name: str, plan: HostDevice
) -> Iterator[tuple[Stmt, tuple[n.Allocate, ...]]]:
    """Each kernel's body with the allocations around it that are its own."""
    match stmt:
        case n.For(kind=ForKind.THREAD_BINDING) | n.AttrStmt(attr_key="thread_extent"):
            yield stmt, private
        case n.SeqStmt():
            for part in stmt.seq:
                yield from _kernels(part, private, name, plan)
        case n.Allocate() if stmt.scope == "global":
            plan.workspaces.append(_workspace(stmt))
            yield from _kernels(stmt.body, private, name, plan)
        case n.Allocate():
            yield from _kernels(stmt.body, (*private, stmt), name, plan)
        case n.AttrStmt() | n.DeclBuffer():
            yield from _kernels(stmt.body, private, name, plan)
        case n.Evaluate() if not any(isinstance(node, n.Call) for node in walk(stmt)):
            pass
        case _:
            raise _unbound(name)


def _kernel(
    func: n.PrimFunc,
    body: Stmt,
    private: tuple[n.Allocate, ...],
    name: str,
    passed: list[tuple[n.Var, n.Buffer | None]],
) -> KernelLaunch:
    extents = bound_extents(body)
    grid = tuple(_agreed(tag, extents.get(tag, []), name) for tag in _GRID)
    block = tuple(_known(tag, extents.get(tag, []), name) for tag in _BLOCK)
    for alloc in reversed(private):
        body = n.Allocate(alloc.buffer_var, alloc.dtype, alloc.extents, alloc.condition, body, alloc.scope)
    used = _used(body)
    slots, params, buffers = [], [], {}
    maps = _tensor_maps(body)
    first = [p for p in enumerate(passed) if p[1][1] is not None and p[1][1].data in maps]
    for slot, (var, buffer) in [*first, *(p for p in enumerate(passed) if p not in first)]:
        if var in used or (buffer is not None and buffer.data in used):
            slots.append(slot)
            params.append(var)
            if buffer is not None:
                buffers[var] = buffer
    attrs = {key: value for key, value in func.attrs.items() if key == "tir.noalias"}
    kernel = n.PrimFunc(tuple(params), body, buffer_map=buffers, attrs=attrs)
    return KernelLaunch(kernel, grid, block, tuple(slots), _described(kernel))  # type: ignore[arg-type]


def _described(kernel: n.PrimFunc) -> tuple[TensorMap, ...]:
    """The arrays whose tiles the kernel copies by description: its first parameters."""
    maps = _tensor_maps(kernel.body)
    described = [p for p in kernel.params if (b := kernel.buffer_map.get(p)) is not None and b.data in maps]
    return tuple(TensorMap(i, *maps[kernel.buffer_map[p].data]) for i, p in enumerate(described))


def _used(stmt: Stmt) -> set[n.Var]:
    """The variables and memory that `stmt` speaks of."""
    found = set(free_vars(stmt))
    for node in walk(stmt):
        if isinstance(node, n.BufferLoad | n.BufferStore):
            found.add(node.buffer.data)
            for part in children(node):
                found |= free_vars(part)
    return found


def _agreed(tag: str, extents: list[PrimExpr], name: str) -> PrimExpr:
    """The one extent of all loops bound to an axis of the grid."""
    if not extents:
        return ops.const(1)
    first, *others = extents
    for other in others:
        if not structural_equal(first, other):
            raise CodegenError(
                f"{name}: loops bound to {tag} in one kernel have the extents {first} and {other}",
                hint="split both so that they have equal extents, or let them be loops of kernels of their own",
            )
    return first


def _known(tag: str, extents: list[PrimExpr], name: str) -> int:
    """The threads along an axis: the most that any loop wants."""
    sizes = [ops.as_int(extent) for extent in extents]
    for size, extent in zip(sizes, extents):
        if size is None:
            raise CodegenError(
                f"{name}: a loop bound to {tag} has the extent {extent}, which is not known when it is built",
                hint="split it by a constant and bind the inner loop",
            )
    return max((size for size in sizes if size is not None), default=1)


def _tensor_maps(kernel: n.Stmt) -> dict[n.Var, _Described]:
    """The matrices that a kernel reads by tensor memory copies, with their tiles, by data variable.

    Raises CodegenError for one that is copied in different tiles or has other uses, because the kernel does not get its
    address.
    """
    found: dict[n.Var, _Described] = {}
    plain: set[n.Var] = set()
    for node in walk(kernel):
        match node:
            case n.Call(op=op) if getattr(op, "name", "") == COPY:
                data = node.args[2]
                assert isinstance(data, n.Var)
                rows, columns, box_rows, box_columns = (ops.as_int(x) or 0 for x in node.args[5:9])
                described = node.dtype, (rows, columns), (box_rows, box_columns)
                if found.setdefault(data, described) != described:
                    raise CodegenError(f"{data.name} is copied as {described} and as {found[data]} in one kernel")
            case n.BufferLoad() | n.BufferStore():
                plain.add(node.buffer.data)
            case _:
                pass
    for data in found:
        if data in plain:
            raise CodegenError(f"{data.name} is copied by tensor memory copies and used by address in one kernel")
    return found
