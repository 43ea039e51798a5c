"""Loops as functions that call each other: one asks whether to go on, one takes a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler.frontend.onnx.control_flow.graph_functions import (
    FunctionBuilder,
    Inside,
    as_tensors,
    captured,
    function_results,
    of_any_shape,
)
from compiler.frontend.onnx.control_flow.loop_shape import LoopShape
from compiler.frontend.onnx.element_types import dtype_of
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.importer import Importer, ImportScope, wants_of
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.values import TensorValue, Value
from compiler.ir.base import GlobalVar, RelaxExpr
from compiler.relax import nodes as r
from compiler.relax import op
from compiler.relax.nodes.binding import as_seq
from compiler.relax.nodes.dims import variables
from compiler.tir import nodes as n


def recursive_loop(importer: Importer, node: Node, scope: ImportScope, shape: LoopShape) -> Any:
    """A loop as functions that call each other: one asks whether to go on, one takes a step."""
    g = importer.g
    g.begin_control()
    states = as_tensors(shape.states, node)
    inputs = [x for x, _, _ in shape.scanned]
    fixed = [g.info(value) for value in states]
    held = captured(g, scope, [shape.graph], [*states, *inputs, *([shape.count] if shape.count else [])])
    scanned = [g.expr(x) for x in inputs]
    held.tensors += [TensorValue(x.dtype, x.elem, expr) for x, expr in zip(inputs, scanned)]
    maker = FunctionBuilder(importer, scope, held)
    infos: list[r.StructInfo] = list(fixed)
    scalar, flag = r.TensorStructInfo((), "int64"), r.TensorStructInfo((), "bool")  # type: ignore[arg-type]
    for _ in range(2):  # states whose shape changes are of any shape
        outputs: list[TensorValue] = []
        taken = [scalar, scalar, flag, *infos]
        body = maker.build(g.bb.get_unique_name("body"), taken, _body(importer, node, shape, outputs))
        results = r.info_of(body)
        assert isinstance(results, r.FuncStructInfo)
        assert isinstance(results.ret, r.TupleStructInfo)
        fields = results.ret.fields
        changed = [not _same(field, info) for field, info in zip(fields[1 : 1 + len(states)], infos)]
        if not any(changed):
            break
        infos = [of_any_shape(g, value) if change else info for value, info, change in zip(states, infos, changed)]
    pieces = outputs[len(states) :]
    piece_infos = fields[1 + len(states) :]
    return _driven(node, shape, maker, body, states, infos, pieces, piece_infos)


def _same(made: r.StructInfo, info: r.StructInfo) -> bool:
    """Whether a state keeps its shape.
    The body's dimensions have names of their own, so sizes are compared."""
    if not isinstance(made, r.TensorStructInfo) or not isinstance(info, r.TensorStructInfo) or info.dims is None:
        return True
    if made.dims is None:
        return False
    return [str(size) for size in made.dims] == [str(size) for size in info.dims]


def _body(
    importer: Importer, node: Node, shape: LoopShape, outputs: list[TensorValue]
) -> Callable[[Inside], RelaxExpr]:
    """One step: the condition, the states and the pieces of what is stacked."""
    g = importer.g

    def build(inside: Inside) -> RelaxExpr:
        step, count, going, *states = inside.own
        given: list[Value | None] = []
        if shape.counts_steps:
            given += [g.value(step), g.value(going)]
        for state, original in zip(states, shape.states):
            assert isinstance(original, TensorValue)
            given.append(TensorValue(original.dtype, original.elem, g.named_shape(state), None, original.wants))
        for (x, axis, back), tensor in zip(shape.scanned, inside.captured[-len(shape.scanned) :] or ()):
            at: RelaxExpr = step
            if back:
                at = g.emit(op.subtract(g.emit(op.subtract(count, g.full(1, "int64"))), step))
            given.append(TensorValue(x.dtype, x.elem, g.emit(op.take(tensor, at, axis)), None, x.wants))
        for item, value in zip(shape.graph.input, given):
            inside.scope.values[item.name] = value
        results = as_tensors(importer.graph(shape.graph, inside.scope), node)
        if shape.counts_steps:
            on = g.expr(results[0])
            on = g.emit(op.reshape(on, ())) if g.rank(on) else on
            results = results[1:]
        else:
            on = going
        outputs[:] = results
        return r.Tuple((on, *[g.expr(value) for value in results]))

    return build


def _driven(
    node: Node, shape: LoopShape, maker: FunctionBuilder, body: GlobalVar, states: Sequence[TensorValue],
    infos: Sequence[r.StructInfo], pieces: Sequence[TensorValue], piece_infos: Sequence[r.StructInfo],
) -> Any:  # fmt: skip
    """The functions around the body, and the call of the first."""
    g = maker.g
    scalar, flag = r.TensorStructInfo((), "int64"), r.TensorStructInfo((), "bool")  # type: ignore[arg-type]
    stacks = [r.TensorStructInfo(dtype=piece.dtype, ndim=_rank(info) + 1) for piece, info in zip(pieces, piece_infos)]
    own = [scalar, scalar, flag, *infos, *stacks]
    loose = [_loose(info) for info in (*infos, *stacks)]
    ask = GlobalVar(g.bb.get_unique_name("loop"))
    symbols = r.ShapeStructInfo(ndim=len(maker.held.symbols))
    around = [symbols, *[_loose(g.info(tensor)) for tensor in maker.held.tensors]]
    r.set_struct_info(ask, r.FuncStructInfo((*around, *map(_loose, own)), r.TupleStructInfo(tuple(loose))))

    def step(inside: Inside) -> RelaxExpr:
        number, count, going, *rest = inside.own
        current, so_far = rest[: len(states)], rest[len(states) :]
        outer = [inside.shape, *inside.captured]
        made = g.emit_control(r.Call(body, (*outer, number, count, going, *current)))
        on, *values = g.items(made)
        more = []
        for stack, piece in zip(so_far, values[len(states) :]):
            grown = g.emit(op.expand_dims(g.named_shape(piece), [0]))
            dims = g.shape(grown)
            held = g.cast_shape(stack, [g.new_symbols(1)[0], *dims[1:]], g.info(grown).dtype)
            more.append(g.emit(op.concat([held, grown], 0)))
        following = g.emit(op.add(number, g.full(1, "int64")))
        return g.emit_control(r.Call(ask, (*outer, following, count, on, *values[: len(states)], *more)))

    take = maker.build(g.bb.get_unique_name("step"), own, step)

    def question(inside: Inside) -> RelaxExpr:
        number, count, going, *rest = inside.own
        on = g.emit(op.logical_and(g.emit(op.less(number, count)), going))
        outer = [inside.shape, *inside.captured]
        call = r.Call(take, (*outer, *inside.own))
        ended = g.emit(r.Tuple(tuple(rest)))
        return g.emit_control(r.If(on, as_seq(call), as_seq(ended)))

    made = maker.build(ask.name_hint, own, question)
    count = g.expr(shape.count) if shape.count is not None else g.full((1 << 63) - 1, "int64")
    count = g.emit(op.reshape(count, ())) if g.rank(count) else count
    going = g.expr(shape.condition) if shape.condition is not None else g.full(1, "bool")
    going = g.emit(op.reshape(going, ())) if g.rank(going) else going
    empty = [_empty(g, piece, info) for piece, info in zip(pieces, piece_infos)]
    arguments = maker.arguments([g.full(0, "int64"), count, going, *[g.expr(value) for value in states], *empty])
    whole = g.emit_control(r.Call(made, tuple(arguments)))
    results = function_results(g, whole, [*states, *pieces], wants_of(node.inputs))
    found: list[Value | None] = results[: len(states)]
    for value, (axis, back) in zip(results[len(states) :], shape.outputs):
        assert isinstance(value, TensorValue)
        expr = g.expr(value)
        rank = g.rank(expr)
        if back:
            expr = g.emit(op.flip(expr, 0))
        if axis % rank:
            order = list(range(1, rank))
            order.insert(axis % rank, 0)
            expr = g.emit(op.permute_dims(expr, order))
        found.append(g.value(expr, value.elem, value.wants))
    return found


def _rank(info: r.StructInfo) -> int:
    assert isinstance(info, r.TensorStructInfo)
    return info.ndim


def _loose(info: r.StructInfo) -> Any:
    """StructInfo without dimensions that have names."""
    if isinstance(info, r.TensorStructInfo) and info.dims is not None and any(variables(size) for size in info.dims):
        return r.TensorStructInfo(dtype=info.dtype, ndim=info.ndim)
    return info


def _empty(g: GraphBuilder, piece: TensorValue, info: r.StructInfo) -> RelaxExpr:
    """A stack of nothing yet."""
    assert isinstance(info, r.TensorStructInfo)
    dims = info.dims
    sizes = [1 if dims is None or variables(size) else size for size in (dims or [n.IntImm("int64", 1)] * info.ndim)]
    return g.emit(op.zeros(g.shape_expr([0, *sizes]), dtype_of(piece.elem)))
