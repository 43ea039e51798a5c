"""From te tensors to a TensorIR function: one block an operation.

The function computes the operations that the given outputs need, in dependency order. Each becomes a block
of its own loop nest, named after the operation; a reduction block carries its init. Tensors that are not
arguments are allocated by the root block.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.errors import IRError
from compiler.ir.base import Node
from compiler.ir.visit import transform
from compiler.lower.blocks.check_bounds import check_bounds
from compiler.te.extern import ExternOp
from compiler.te.layouts import over_buffers
from compiler.te.scan import ScanOp
from compiler.te.schedule.scan_nest import aliases_of, scan_nest, scans_in
from compiler.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, shape_text, topological
from compiler.te.where import at
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.intrin import if_then_else
from compiler.tir.nodes import PrimExpr
from compiler.tir.regions import read_regions, write_regions
from compiler.tir.visit import free_vars, seq, substitute

Arg = Tensor | n.Var | n.Buffer
TRUE = ops.const(True)
_NOT_IN_NAMES = re.compile(r"\W")


def create_prim_func(args: Sequence[Arg], name: str = "main") -> n.PrimFunc:
    """The TensorIR function of the tensors in `args`: inputs and outputs in calling order.

    A `Var` in `args` is a scalar argument. Each result of an operation that does not reduce has a block of its own,
    and a scalar's block no loop. Raises IRError when a tensor that is read is neither computed nor an argument, or an
    argument is given twice; AccessOutOfBounds when an index is certain to leave its tensor.
    """
    return build_func(args, name, apart=True).func


@dataclass(frozen=True, slots=True)
class BuiltStages:
    """A function, with the name of each computed operation's block and the buffer of each tensor."""

    func: n.PrimFunc
    blocks: Mapping[Operation, str]
    buffers: Mapping[Tensor, n.Buffer]


def build_func(
    args: Sequence[Arg],
    name: str = "main",
    scopes: Mapping[Operation, str] | None = None,
    binds: Mapping[Tensor, n.Buffer] | None = None,
    apart: bool = False,
) -> BuiltStages:
    """`create_prim_func`, with memory scopes of intermediate operations and buffers chosen for tensors.

    Without `apart`, an operation is one block in loops, as its stage is.
    """
    tensors = [a for a in args if isinstance(a, Tensor)]
    order = topological(tensors)
    scans = scans_in(order)
    buffers = _Buffers(scopes or {}, binds or {}, aliases_of(scans, args))
    params, buffer_map = _params(args, buffers)
    states = {tensor.op for scan in scans for tensor in scan.state_placeholder}
    given = {tensor.op for tensor in tensors} | states
    missing = [op for op in order if isinstance(op, PlaceholderOp) and op not in given]
    if missing:
        raise IRError(
            f"tensor {missing[0].name!r} is read but is not among the arguments" + at(missing[0].span),
            hint=f"pass it in args, which are {_arg_names(args)}",
        )
    names = _block_names(order, apart)
    inside = {op for scan in scans for op in scan.body()}
    nests: list[n.Stmt] = []
    for op in order:
        for tensor in op._outputs:
            buffers.of(tensor)
        if isinstance(op, ScanOp):
            nests.append(scan_nest(op, {inner: _block_of(inner, names[inner], buffers) for inner in op.body()}))
        elif isinstance(op, ComputeOp) and op not in inside:
            nests += _apart(op, names[op], buffers) if apart else [_loop_nest(op, names[op], buffers)]
        elif isinstance(op, ExternOp):
            nests.append(_extern_block(op, names[op], buffers))
    held = set(buffer_map.values())
    local = tuple(buffer for buffer in buffers.made.values() if buffer not in held)
    root = n.Block((), (), (), "root", seq(*nests), alloc_buffers=local)
    attrs = {"global_symbol": name, "tir.noalias": True}
    func = n.PrimFunc(params, n.BlockRealize((), TRUE, root), None, buffer_map, attrs)
    _check_variables(func, order)
    check_bounds(func)
    return BuiltStages(func, names, buffers.made)


def _check_variables(func: n.PrimFunc, order: Sequence[Operation]) -> None:
    """Every variable that an operation reads is an argument, or a dimension of one."""
    known = set(func.params)
    for buffer in func.buffer_map.values():
        offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
        for expr in (*buffer.shape, *buffer.strides, *offset):
            known |= free_vars(expr)
    if free_vars(func.body) <= known:
        return
    for op in order:
        parts: Sequence[Node] = op.body if isinstance(op, ComputeOp) else (op.body,) if isinstance(op, ExternOp) else ()
        own = known | {axis.var for axis in op.axis}
        for var in (v for part in parts for v in free_vars(part) if v not in own and v.dtype != "handle"):
            raise IRError(
                f"{op.name!r} uses the variable {var.name!r}, which is none of its axes and no argument" + at(op.span),
                hint="name a reduced axis in te.sum(..., axis=); pass a scalar in args",
            )


class _Buffers:
    """The buffer of each tensor, made on first use with a name no other has."""

    def __init__(
        self, scopes: Mapping[Operation, str], binds: Mapping[Tensor, n.Buffer], aliases: Mapping[Tensor, Tensor]
    ) -> None:
        self._scopes = scopes
        self._aliases = aliases
        self.made: dict[Tensor, n.Buffer] = {}
        self._taken: set[str] = set()
        for tensor, buffer in binds.items():
            _check_bind(tensor, buffer)
            self.made[tensor] = buffer
            self._taken.add(buffer.name)

    def of(self, tensor: Tensor) -> n.Buffer:
        tensor = self._aliases.get(tensor, tensor)
        buffer = self.made.get(tensor)
        if buffer is None:
            name = _fresh(tensor.name, self._taken)
            scope = self._scopes.get(tensor.op, "") or "global"
            buffer = n.decl_buffer(tensor.shape, tensor.dtype, name, scope=scope)
            self.made[tensor] = buffer
        return buffer


def _check_bind(tensor: Tensor, buffer: n.Buffer) -> None:
    if buffer.dtype != tensor.dtype or len(buffer.shape) != tensor.ndim:
        raise IRError(
            f"buffer {buffer.name!r} ({buffer.dtype}, {len(buffer.shape)} dimensions) cannot hold tensor "
            f"{tensor.name!r} ({tensor.dtype}, shape {shape_text(tensor.shape)})"
        )


def _params(args: Sequence[Arg], buffers: _Buffers) -> tuple[tuple[n.Var, ...], dict[n.Var, n.Buffer]]:
    params: list[n.Var] = []
    buffer_map: dict[n.Var, n.Buffer] = {}
    for position, arg in enumerate(args):
        if isinstance(arg, n.Var):
            if any(arg is p for p in params):
                raise IRError(f"argument {arg.name!r} is given twice")
            params.append(arg)
            continue
        if not isinstance(arg, Tensor | n.Buffer):
            raise IRError(f"argument {position} must be a tensor, a buffer or a variable, got {type(arg).__name__}")
        buffer = buffers.of(arg) if isinstance(arg, Tensor) else arg
        if buffer in buffer_map.values():
            raise IRError(f"argument {arg.name!r} is given twice")
        param = n.Var(f"var_{buffer.name}", "handle")
        params.append(param)
        buffer_map[param] = buffer
    return tuple(params), buffer_map


def _arg_names(args: Sequence[Arg]) -> str:
    return ", ".join(arg.name for arg in args) or "none"


def identifier(name: str) -> str:
    """`name` with every character that a Python name cannot hold replaced: "i.outer" → "i_outer"."""
    return _NOT_IN_NAMES.sub("_", name)


def _fresh(name: str, taken: set[str]) -> str:
    name = identifier(name)
    count, result = 0, name
    while result in taken:
        count += 1
        result = f"{name}_{count}"
    taken.add(result)
    return result


def _block_names(order: Sequence[Operation], apart: bool) -> dict[Operation, str]:
    taken = {"root"}
    names: dict[Operation, str] = {}
    for op in order:
        if isinstance(op, ComputeOp | ExternOp):
            names[op] = _fresh(op.name, taken)
            taken |= set(_result_names(op, names[op])) if apart and isinstance(op, ComputeOp) else set()
    return names


def _result_names(op: ComputeOp, name: str) -> list[str]:
    """The names of the blocks that compute the results, each its own."""
    return [name] if len(op.body) == 1 else [f"{name}_v{index}" for index in range(len(op.body))]


# ------------------------------------------------------------------------------------ blocks


def _apart(op: ComputeOp, name: str, buffers: _Buffers) -> list[n.Stmt]:
    """The nest of a reduction, or one of each result. A scalar's block has no loop."""
    if op.reduction is not None:
        return [_loop_nest(op, name, buffers)]
    blocks = [
        _block(op, own, {axis: _block_var(axis) for axis in _axes_of(op)}, buffers, index)
        for index, own in enumerate(_result_names(op, name))
    ]
    if not op.axis:
        return [n.BlockRealize((ops.const(0),), TRUE, block) for block in blocks]
    return [_in_loops(op, block) for block in blocks]


def _loop_nest(op: ComputeOp, name: str, buffers: _Buffers) -> n.Stmt:
    return _in_loops(op, _block_of(op, name, buffers))


def _in_loops(op: ComputeOp, block: n.Block) -> n.Stmt:
    """The loops around a block of `op`: one a data axis, then one a reduced axis."""
    loops = [n.Var(identifier(axis.var.name), axis.dtype) for axis in _axes_of(op)]
    body: n.Stmt = n.BlockRealize(tuple(loops), TRUE, block)
    for loop, iter_var in zip(reversed(loops), reversed(block.iter_vars)):
        assert iter_var.dom is not None
        body = n.For(loop, iter_var.dom.min, iter_var.dom.extent, n.ForKind.SERIAL, body)
    return body


def _axes_of(op: ComputeOp) -> list[n.IterVar]:
    """The axes that have loops. A scalar is scheduled like any other block, so it has one."""
    axes = [*op.axis, *op.reduce_axis]
    return axes if axes else [n.IterVar(n.Range.from_extent(1), n.Var("i"), n.IterType.DATA_PAR)]


def _block_of(op: Operation, name: str, buffers: _Buffers) -> n.Block:
    assert isinstance(op, ComputeOp)
    return _block(op, name, {axis: _block_var(axis) for axis in _axes_of(op)}, buffers)


def _extern_block(op: ExternOp, name: str, buffers: _Buffers) -> n.Stmt:
    """A block without iteration variables around the statement of `op`."""
    own = dict(zip(op.in_buffers, map(buffers.of, op.inputs)))
    own |= dict(zip(op.out_buffers, map(buffers.of, op._outputs)))
    temporaries = {t: n.decl_buffer(t.shape, t.dtype, t.name, scope=t.scope) for t in op.temporaries}
    body = over_buffers(op.body, own | temporaries)
    reads = [_whole(own[buffer]) for buffer in op.in_buffers]
    writes = [_whole(own[buffer]) for buffer in op.out_buffers]
    local = tuple(temporaries.values())
    block = n.Block((), tuple(reads), tuple(writes), name, body, alloc_buffers=local, span=op.span)
    return n.BlockRealize((), TRUE, block)


def _whole(buffer: n.Buffer) -> n.BufferRegion:
    return n.BufferRegion(buffer, tuple(n.Range(ops.const(0, size.dtype), size) for size in buffer.shape))


def _block_var(axis: n.IterVar) -> n.IterVar:
    """The block's own variable for `axis`, with a domain that starts at 0."""
    assert axis.dom is not None
    zero_based = n.Range.from_extent(axis.dom.extent, axis.dtype)
    return n.IterVar(zero_based, n.Var(f"v_{identifier(axis.var.name)}", axis.dtype), axis.iter_type)


def _block(
    op: ComputeOp, name: str, iter_vars: Mapping[n.IterVar, n.IterVar], buffers: _Buffers, result: int | None = None
) -> n.Block:
    """The block of `op`, or of one `result` of an operation that does not reduce."""
    values: dict[n.Var, PrimExpr] = {}
    for axis, iter_var in iter_vars.items():
        assert axis.dom is not None
        values[axis.var] = ops.add(iter_var.var, axis.dom.min)
    point = tuple(values[axis.var] for axis in op.axis)
    targets = [buffers.of(tensor) for tensor in op._outputs]
    if not point and targets[0].shape:
        raise IRError(f"operation {op.name!r} has no axes for its outputs")
    reduction = op.reduction
    init: n.Stmt | None = None
    if reduction is None:
        wanted = slice(None) if result is None else slice(result, result + 1)
        pairs = list(zip(targets, op.body))[wanted]
        body = seq(*(n.BufferStore(t, _expr(e, values, buffers), point) for t, e in pairs))
        reads = read_regions([body])
    else:
        init = _init(reduction, values, point, targets, buffers)
        body = _update(reduction, values, point, targets, buffers)
        reads = read_regions([init, body], own=targets)
    return n.Block(tuple(iter_vars.values()), reads, write_regions([body]), name, body, init, span=op.span)


def _init(
    reduction: n.Reduce,
    values: Mapping[n.Var, PrimExpr],
    point: tuple[PrimExpr, ...],
    targets: Sequence[n.Buffer],
    buffers: _Buffers,
) -> n.Stmt:
    starts = reduction.init if reduction.init else reduction.combiner.identity_element
    return seq(*(n.BufferStore(t, _expr(s, values, buffers), point) for t, s in zip(targets, starts)))


def _update(
    reduction: n.Reduce,
    values: Mapping[n.Var, PrimExpr],
    point: tuple[PrimExpr, ...],
    targets: Sequence[n.Buffer],
    buffers: _Buffers,
) -> n.Stmt:
    """target = combine(target, source), all outputs from the values before."""
    combiner = reduction.combiner
    mapping: dict[n.Var, PrimExpr] = {}
    for index, target in enumerate(targets):
        source = _expr(reduction.source[index], values, buffers)
        condition = _expr(reduction.condition, values, buffers)
        unit = combiner.identity_element[index]
        mapping[combiner.lhs[index]] = n.BufferLoad(target, point)
        mapping[combiner.rhs[index]] = if_then_else(condition, source, unit)
    results = [substitute(result, mapping) for result in combiner.result]
    if len(targets) == 1:
        return n.BufferStore(targets[0], results[0], point)
    held = [n.Var(f"v_{target.name}", target.dtype) for target in targets]
    body = seq(*(n.BufferStore(t, h, point) for t, h in zip(targets, held)))
    for var, result in zip(reversed(held), reversed(results)):
        body = n.LetStmt(var, result, body)
    return body


def _expr(expr: PrimExpr, values: Mapping[n.Var, PrimExpr], buffers: _Buffers) -> PrimExpr:
    """`expr` with axes replaced by block variables and tensor loads by buffer loads."""

    def to_buffer(node: Node) -> Node | None:
        if isinstance(node, n.ProducerLoad):
            return n.BufferLoad(buffers.of(node.producer), node.indices)
        return None

    rebuilt = transform(substitute(expr, values), post=to_buffer)
    assert isinstance(rebuilt, PrimExpr)
    return rebuilt
