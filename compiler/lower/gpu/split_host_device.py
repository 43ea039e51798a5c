"""A lowered function as the kernels it starts and what the host does around them.

Each outermost loop that is bound to a thread axis is a kernel. Around kernels the host may only allocate memory that
kernels pass on to each other: everything else belongs into a bound loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from compiler.errors import CodegenError
from compiler.ir.structural import structural_equal
from compiler.ir.visit import children, walk
from compiler.launches import TensorMap
from compiler.lower.blocks.shape_vars import shape_vars
from compiler.lower.gpu.tensor_maps import tensor_maps
from compiler.lower.gpu.thread_axes import bound_extents
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.visit import free_vars

_GRID = tuple(f"blockIdx.{axis}" for axis in "xyz")
_BLOCK = tuple(f"threadIdx.{axis}" for axis in "xyz")


@dataclass(frozen=True, slots=True)
class Kernel:
    """What one launch runs, for `grid` blocks of `block` threads. `func` has the parameters that it uses; `slots` says
    which of the function's parameters, shape variables and workspaces these are."""

    func: n.PrimFunc
    grid: tuple[PrimExpr, PrimExpr, PrimExpr]
    block: tuple[int, int, int]
    slots: tuple[int, ...]
    tensor_maps: tuple[TensorMap, ...] = ()  # of its first parameters


@dataclass(slots=True)
class HostDevice:
    """The kernels of a function in order, and the buffers between them."""

    kernels: list[Kernel] = field(default_factory=list)
    workspaces: list[n.Buffer] = field(default_factory=list)


def split_host_device(func: n.PrimFunc, name: str) -> HostDevice:
    """The kernels of `func`, a lowered function. Raises CodegenError where something is left for the host to compute,
    a block's extent is not known or two loops want different grids."""
    plan = HostDevice()
    found = list(_kernels(func.body, (), name, plan))
    _check_private(found, name)
    passed: list[tuple[n.Var, n.Buffer | None]] = [(param, func.buffer_map.get(param)) for param in func.params]
    passed += [(shape.var, None) for shape in shape_vars(func)]
    passed += [(n.Var(f"{buffer.name}_workspace", "handle"), buffer) for buffer in plan.workspaces]
    plan.kernels = [_kernel(func, body, private, name, passed) for body, private in found]
    if not plan.kernels:
        raise _unbound(name)
    return plan


def _check_private(found: list[tuple[Stmt, tuple[n.Allocate, ...]]], name: str) -> None:
    """Memory of threads and blocks goes with their kernel: another one cannot read it."""
    users: dict[n.Var, int] = {}
    for body, private in found:
        used = _used(body)
        for alloc in private:
            users[alloc.buffer_var] = users.get(alloc.buffer_var, 0) + (alloc.buffer_var in used)
    for var, count in users.items():
        if count > 1:
            raise CodegenError(
                f"{name}: {var.name} is memory of a thread or a block, and {count} kernels use it",
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
            plan.workspaces.append(n.Buffer(stmt.buffer_var.name, stmt.buffer_var, stmt.extents, stmt.dtype))
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
) -> Kernel:
    extents = bound_extents(body)
    grid = tuple(_agreed(tag, extents.get(tag, []), name) for tag in _GRID)
    block = tuple(_known(tag, extents.get(tag, []), name) for tag in _BLOCK)
    for alloc in reversed(private):
        body = n.Allocate(alloc.buffer_var, alloc.dtype, alloc.extents, alloc.condition, body, alloc.scope)
    used = _used(body)
    slots, params, buffers = [], [], {}
    maps = tensor_maps(body)
    first = [p for p in enumerate(passed) if p[1][1] is not None and p[1][1].data in maps]
    for slot, (var, buffer) in [*first, *(p for p in enumerate(passed) if p not in first)]:
        if var in used or (buffer is not None and buffer.data in used):
            slots.append(slot)
            params.append(var)
            if buffer is not None:
                buffers[var] = buffer
    attrs = {key: value for key, value in func.attrs.items() if key == "tir.noalias"}
    kernel = n.PrimFunc(tuple(params), body, buffer_map=buffers, attrs=attrs)
    described = tuple(
        TensorMap(i, *maps[buffer.data]) for i, (_, (_, buffer)) in enumerate(first) if buffer is not None
    )
    return Kernel(kernel, grid, block, tuple(slots), described)  # type: ignore[arg-type]


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
