"""Control flow: If, Loop and Scan.

A branch that is known, and a loop of few steps whose number is known, are written out. Others become private functions:
a branch is a call of one; a loop is a function that takes a step and calls itself. What a graph uses of the scope
around is passed to its function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import GraphProto, TensorProto

from compiler.frontend.onnx.element_types import dtype_of
from compiler.frontend.onnx.errors import NeedsValueError
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.importer import Control, Importer, Scope, wants_of
from compiler.frontend.onnx.model_source import graphs_in
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.values import OptionalValue, SequenceValue, TensorValue, Value, plain, tidy
from compiler.ir.base import GlobalVar, RelaxExpr
from compiler.relax import op
from compiler.relax.nodes import (
    Call,
    FuncStructInfo,
    If,
    ShapeExpr,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    Tuple,
    TupleStructInfo,
    Var,
    info_of,
    set_struct_info,
)
from compiler.relax.nodes.binding import as_seq
from compiler.relax.nodes.dims import variables
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr
from compiler.tir.visit import substitute

UNROLLED = 16
"""Loops of so many steps or fewer are written out."""
UNROLLED_SEQUENCES = 1024
"""The same for loops over sequences, whose length must be known."""


# ------------------------------------------------------------------------- functions of graphs


def free_names(graph: GraphProto) -> set[str]:
    """The names that a graph uses of the scopes around."""
    made = {item.name for item in (*graph.input, *graph.initializer)}
    found: set[str] = set()
    for node in graph.node:
        used = {name for name in node.input if name}
        for inner in graphs_in(node):
            used |= free_names(inner)
        found |= used - made
        made.update(node.output)
    found |= {item.name for item in graph.output} - made
    return found


@dataclass(slots=True, eq=False)
class Captured:
    """What functions take of the scope around: values by name, and the dimensions that they mention."""

    values: dict[str, Value | None]
    tensors: list[TensorValue]
    symbols: list[n.Var]


def captured(g: GraphBuilder, scope: Scope, graphs: Iterable[GraphProto], more: Sequence[TensorValue]) -> Captured:
    """Return what `graphs` use of a scope; `more` are values that functions take besides."""
    names = sorted(set().union(*[free_names(graph) for graph in graphs]))
    values = {name: scope.find(name) for name in names}
    tensors = [leaf for value in values.values() for leaf in leaves(value) if leaf.array is None]
    symbols: dict[n.Var, None] = {}
    for leaf in [item for value in values.values() for item in leaves(value)] + list(more):
        for size in _dims_of(g, leaf):
            symbols.update(dict.fromkeys(variables(size)))
    return Captured(values, tensors, list(symbols))


def leaves(value: Value | None) -> Iterator[TensorValue]:
    """The tensors in a value."""
    match value:
        case TensorValue():
            yield value
        case SequenceValue():
            for item in value.items:
                yield from leaves(item)
        case OptionalValue():
            yield from leaves(value.item)


def _dims_of(g: GraphBuilder, value: TensorValue) -> list[PrimExpr]:
    if value.array is not None:
        return [item for item in value.array.reshape(-1) if isinstance(item, PrimExpr)]
    return list(g.info(value).dims or ())


def _replaced(value: Value | None, leaf: Callable[[TensorValue], TensorValue]) -> Value | None:
    """A value with its tensors replaced."""
    match value:
        case TensorValue():
            return leaf(value)
        case SequenceValue():
            items = [_replaced(item, leaf) for item in value.items]
            return SequenceValue(tuple([item for item in items if item is not None]))
        case OptionalValue() if value.item is not None:
            return OptionalValue(_replaced(value.item, leaf))  # type: ignore[arg-type]
    return value


class FunctionBuilder:
    """Builds private functions that take a shape (all dimensions), then what is captured, then their own values."""

    def __init__(self, importer: Importer, scope: Scope, held: Captured) -> None:
        self.importer, self.g, self.scope, self.held = importer, importer.g, scope, held

    def arguments(self, own: Sequence[RelaxExpr]) -> list[RelaxExpr]:
        """The arguments of a call from the scope around."""
        shape = ShapeExpr(tuple(self.held.symbols))
        return [shape, *[self.g.expr(tensor) for tensor in self.held.tensors], *own]

    def build(self, name: str, infos: Sequence[StructInfo], body: Callable[[Inside], RelaxExpr]) -> GlobalVar:
        """A function of values of `infos`, in the outer dimensions, that gives what `body` makes."""
        g = self.g
        renamed: dict[n.Var, PrimExpr] = {var: n.Var(var.name, "int64") for var in self.held.symbols}
        shape = Var("dims", ShapeStructInfo(tuple(renamed.values())))
        params: list[Var] = [shape]
        for number, tensor in enumerate(self.held.tensors):
            params.append(Var(f"c{number}", renewed(g.info(tensor), renamed)))
        own = [Var(f"x{number}", renewed(info, renamed)) for number, info in enumerate(infos)]
        inner = dict(zip(map(id, self.held.tensors), params[1:]))

        def leaf(value: TensorValue) -> TensorValue:
            if value.array is None:
                return TensorValue(value.dtype, value.elem, inner[id(value)], None, value.wants)
            array = value.array
            if array.dtype == object:
                array = array.copy()
                for index, item in enumerate(array.reshape(-1)):
                    if isinstance(item, PrimExpr):
                        array.reshape(-1)[index] = substitute(item, renamed)
                array = tidy(array, value.dtype)
            return TensorValue(value.dtype, value.elem, None, array, value.wants)

        values = {key: _replaced(value, leaf) for key, value in self.held.values.items()}
        scope = Scope(
            self.scope.opsets, values, None, self.scope.attributes, self.scope.depth + 1, self.scope.prefix
        )  # fmt: skip
        with g.bb.function(name, [*params, *own], private=True):
            with g.dataflow():
                made = g.bb.emit_output(body(Inside(scope, shape, params[1:], own)))
            return g.bb.emit_func_output(made)


@dataclass(slots=True, eq=False)
class Inside:
    """A function that is being built: the scope of its graph, its dimensions, what it captures, its own values."""

    scope: Scope
    shape: Var
    captured: Sequence[RelaxExpr]
    own: Sequence[Var]


def renewed(info: StructInfo, renamed: dict[n.Var, PrimExpr]) -> Any:
    """StructInfo of a tensor in other dimensions."""
    if not isinstance(info, TensorStructInfo) or info.dims is None:
        return info
    return TensorStructInfo([substitute(size, renamed) for size in info.dims], info.dtype)  # type: ignore[arg-type]


def _any_shape(g: GraphBuilder, value: TensorValue) -> TensorStructInfo:
    return TensorStructInfo(dtype=value.dtype, ndim=g.rank(value))


def _results(
    g: GraphBuilder, made: RelaxExpr, like: Sequence[TensorValue], wants: frozenset[str]
) -> list[Value | None]:
    """The fields of what a function gave, with names for dimensions that are not known."""
    found: list[Value | None] = []
    for field, value in zip(g.items(made), like):
        found.append(TensorValue(value.dtype, value.elem, g.named_shape(field), None, wants))
    return found


def _tensors(values: Sequence[Value | None], node: Node) -> list[TensorValue]:
    for value in values:
        if not isinstance(value, TensorValue):
            raise NeedsValueError.of(f"{node.op}: a sequence that control flow makes", wants_of(node.inputs))
    return list(values)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------ If


def branch(importer: Importer, node: Node, scope: Scope) -> Any:
    """Compute one of two graphs."""
    g = importer.g
    condition = node.value(0)
    graphs: list[GraphProto] = [node.required("then_branch"), node.required("else_branch")]
    if condition.is_constant:
        assert condition.array is not None
        chosen = graphs[0] if bool(condition.array.reshape(-1)[0]) else graphs[1]
        return importer.graph(chosen, scope.inner())
    g.begin_control()
    held = captured(g, scope, graphs, [])
    maker = FunctionBuilder(importer, scope, held)
    made: list[list[TensorValue]] = []

    def body(graph: GraphProto) -> Callable[[Inside], RelaxExpr]:
        def build(inside: Inside) -> RelaxExpr:
            results = _tensors(importer.graph(graph, inside.scope), node)
            made.append(results)
            return g.tuple(results)

        return build

    functions = [
        maker.build(g.bb.get_unique_name(name), [], body(graph)) for name, graph in zip(("then", "otherwise"), graphs)
    ]
    for first, second in zip(*made):
        if first.dtype != second.dtype or g.rank(first) != g.rank(second):
            raise NeedsValueError.of("a condition whose branches differ in rank", condition.wants)
    flag = g.expr(condition)
    if g.rank(flag):
        flag = g.emit(op.reshape(flag, ()))
    calls = [Call(function, tuple(maker.arguments([]))) for function in functions]
    chosen_value = g.emit_control(If(flag, as_seq(calls[0]), as_seq(calls[1])))
    return _results(g, chosen_value, made[0], wants_of(node.inputs))


# ---------------------------------------------------------------------------------------- loops


@dataclass(slots=True, eq=False)
class LoopShape:
    """A loop: `count` is its number of steps (None: no limit), `scans` tell how an input is read in each step."""

    graph: GraphProto
    count: TensorValue | None
    condition: TensorValue | None
    states: list[Value | None]
    scanned: list[tuple[TensorValue, int, bool]]
    outputs: list[tuple[int, bool]]
    counts_steps: bool


def loop(importer: Importer, node: Node, scope: Scope) -> Any:
    """Repeat a graph while a condition holds, so often at most as a count says."""
    graph: GraphProto = node.required("body")
    states = list(node.inputs[2:]) + [None] * (len(graph.input) - len(node.inputs))
    scans = len(graph.output) - 1 - len(states)
    shape = LoopShape(
        graph, node.optional(0), node.optional(1), states[: len(graph.input) - 2], [], [(0, False)] * scans, True
    )  # fmt: skip
    return _loop(importer, node, scope, shape)


def scan(importer: Importer, node: Node, scope: Scope) -> Any:
    """Run a graph over slices of tensors, and stack what it gives."""
    if node.opset < 9:
        return _batched_scan(importer, node, scope)
    graph: GraphProto = node.required("body")
    count = node.int("num_scan_inputs", 1)
    states = list(node.inputs[: len(node.inputs) - count])
    inputs = [node.value(len(states) + k) for k in range(count)]
    axes = node.ints("scan_input_axes") or [0] * count
    turned = node.ints("scan_input_directions") or [0] * count
    scans = len(graph.output) - len(states)
    out_axes = node.ints("scan_output_axes") or [0] * scans
    out_turned = node.ints("scan_output_directions") or [0] * scans
    g = importer.g
    scanned = [(x, axis % g.rank(x), bool(back)) for x, axis, back in zip(inputs, axes, turned)]
    steps = g.shape(inputs[0])[scanned[0][1]]
    vector = g.vector([steps])
    assert vector.array is not None
    length = TensorValue("int64", int(TensorProto.INT64), None, vector.array.reshape(()))
    shape = LoopShape(
        graph, length, None, states, scanned, [(a, bool(b)) for a, b in zip(out_axes, out_turned)], False
    )  # fmt: skip
    return _loop(importer, node, scope, shape)


def _batched_scan(importer: Importer, node: Node, scope: Scope) -> Any:
    """Scan as before opset 9: the first dimension is a batch, each of whose samples is scanned by itself."""
    g, graph = importer.g, node.required("body")
    if node.given(0):
        node.fail("Scan of opset 8 with lengths of sequences", hint="onnx.version_converter makes it opset 9")
    count = node.int("num_scan_inputs", 1)
    given = [node.value(k) for k in range(1, len(node.inputs))]
    states, inputs = given[: len(given) - count], given[len(given) - count :]
    turned = [bool(back) for back in node.ints("directions") or [0] * count]
    batch = ops.as_int(g.shape(inputs[0])[0])
    if batch is None:
        node.fail("Scan of opset 8 needs a batch size that is known")
    outputs = [(0, False)] * (len(graph.output) - len(states))
    found: list[list[RelaxExpr]] = []
    for number in range(batch):
        own = [g.value(g.emit(op.take(g.expr(x), g.full(number, "int64"), 0)), x.elem, x.wants) for x in given]
        scanned = [(x, 0, back) for x, back in zip(own[len(states) :], turned)]
        length = g.known(plain([g.shape(own[-1])[0]]).reshape(()))
        shape = LoopShape(graph, length, None, list(own[: len(states)]), scanned, outputs, False)
        found.append([g.expr(value) for value in _loop(importer, node, scope, shape)])
    return [op.stack(list(values), 0) for values in zip(*found)]


def _loop(importer: Importer, node: Node, scope: Scope, shape: LoopShape) -> Any:
    steps = _known_steps(shape)
    over_sequences = any(not isinstance(state, TensorValue) for state in shape.states) or any(
        name.op_type.startswith("Sequence") for name in shape.graph.node
    )
    limit = UNROLLED_SEQUENCES if over_sequences else UNROLLED
    if steps is not None and steps <= limit and (steps or not shape.outputs):
        done = _unrolled(importer, node, scope, shape, steps)
        if done is not None:
            return done
    if over_sequences:
        raise NeedsValueError.of("the number of steps of a loop over sequences", wants_of(node.inputs))
    return _recursive(importer, node, scope, shape)


def _known_steps(shape: LoopShape) -> int | None:
    if shape.condition is not None and not shape.condition.is_constant:
        return None
    if shape.condition is not None and shape.condition.array is not None and not shape.condition.array.reshape(-1)[0]:
        return 0
    if shape.count is None or not shape.count.is_constant:
        return None
    assert shape.count.array is not None
    return max(int(shape.count.array.reshape(-1)[0]), 0)


def _stays_true(graph: GraphProto) -> bool:
    """Whether a loop's condition is handed on as it is, or is always true."""
    name = graph.output[0].name
    for _ in range(len(graph.node) + 1):
        if name == graph.input[1].name:
            return True
        source = next((item for item in graph.node if name in item.output), None)
        if source is None or source.op_type not in ("Identity", "Cast", "Constant"):
            return False
        if source.op_type == "Constant":
            return any(a.name == "value" and any(a.t.raw_data or a.t.int32_data) for a in source.attribute)
        name = source.input[0]
    return False


def _unrolled(importer: Importer, node: Node, scope: Scope, shape: LoopShape, steps: int) -> Any:
    """A loop written out; None where its condition is not known before it runs."""
    g, graph = importer.g, shape.graph
    if shape.counts_steps and steps and not _stays_true(graph):
        return None
    states = list(shape.states)
    pieces: list[list[TensorValue]] = [[] for _ in shape.outputs]
    for step in range(steps):
        inner = scope.inner()
        given: list[Value | None] = []
        if shape.counts_steps:
            given += [g.known(_scalar(step)), g.known(_flag(True))]
        given += states
        for x, axis, back in shape.scanned:
            at = steps - 1 - step if back else step
            part = op.squeeze(g.emit(op.strided_slice(g.expr(x), [axis], [at], [at + 1])), [axis])
            given.append(g.value(g.emit(part), x.elem, x.wants))
        for item, value in zip(graph.input, given):
            inner.values[item.name] = value
        results = importer.graph(graph, inner)
        if shape.counts_steps:
            results = results[1:]
        states = list(results[: len(states)])
        for piece, value in zip(pieces, _tensors(results[len(states) :], node)):
            piece.append(value)
    found: list[Any] = list(states)
    for piece, (axis, back) in zip(pieces, shape.outputs):
        parts = [g.expr(value) for value in (reversed(piece) if back else piece)]
        place = axis % (g.rank(parts[0]) + 1)
        found.append(g.value(g.emit(op.stack(parts, place)), piece[0].elem, wants_of(node.inputs)))
    return found


def _scalar(value: int) -> Any:
    return np.array(value, np.int64)


def _flag(value: bool) -> Any:
    return np.array(value)


def _recursive(importer: Importer, node: Node, scope: Scope, shape: LoopShape) -> Any:
    """A loop as functions that call each other: one asks whether to go on, one takes a step."""
    g = importer.g
    g.begin_control()
    states = _tensors(shape.states, node)
    inputs = [x for x, _, _ in shape.scanned]
    fixed = [g.info(value) for value in states]
    held = captured(g, scope, [shape.graph], [*states, *inputs, *([shape.count] if shape.count else [])])
    scanned = [g.expr(x) for x in inputs]
    held.tensors += [TensorValue(x.dtype, x.elem, expr) for x, expr in zip(inputs, scanned)]
    maker = FunctionBuilder(importer, scope, held)
    infos: list[StructInfo] = list(fixed)
    scalar, flag = TensorStructInfo((), "int64"), TensorStructInfo((), "bool")  # type: ignore[arg-type]
    for _ in range(2):  # states whose shape changes are of any shape
        outputs: list[TensorValue] = []
        taken = [scalar, scalar, flag, *infos]
        body = maker.build(g.bb.get_unique_name("body"), taken, _body(importer, node, shape, outputs))
        results = info_of(body)
        assert isinstance(results, FuncStructInfo)
        assert isinstance(results.ret, TupleStructInfo)
        fields = results.ret.fields
        changed = [
            not _same(field, info) for field, info in zip(fields[1 : 1 + len(states)], infos)
        ]
        if not any(changed):
            break
        infos = [_any_shape(g, value) if change else info for value, info, change in zip(states, infos, changed)]
    pieces = outputs[len(states) :]
    piece_infos = fields[1 + len(states) :]
    return _driven(node, shape, maker, body, states, infos, pieces, piece_infos)


def _same(made: StructInfo, info: StructInfo) -> bool:
    """Whether a state keeps its shape; the body's own dimensions are not those around, so sizes are compared."""
    if not isinstance(made, TensorStructInfo) or not isinstance(info, TensorStructInfo) or info.dims is None:
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
        results = _tensors(importer.graph(shape.graph, inside.scope), node)
        if shape.counts_steps:
            on = g.expr(results[0])
            on = g.emit(op.reshape(on, ())) if g.rank(on) else on
            results = results[1:]
        else:
            on = going
        outputs[:] = results
        return Tuple((on, *[g.expr(value) for value in results]))

    return build


def _driven(
    node: Node, shape: LoopShape, maker: FunctionBuilder, body: GlobalVar, states: Sequence[TensorValue],
    infos: Sequence[StructInfo], pieces: Sequence[TensorValue], piece_infos: Sequence[StructInfo],
) -> Any:  # fmt: skip
    """The functions around the body, and the call of the first."""
    g = maker.g
    scalar, flag = TensorStructInfo((), "int64"), TensorStructInfo((), "bool")  # type: ignore[arg-type]
    stacks = [TensorStructInfo(dtype=piece.dtype, ndim=_rank(info) + 1) for piece, info in zip(pieces, piece_infos)]
    own = [scalar, scalar, flag, *infos, *stacks]
    loose = [_loose(info) for info in (*infos, *stacks)]
    ask = GlobalVar(g.bb.get_unique_name("loop"))
    symbols = ShapeStructInfo(ndim=len(maker.held.symbols))
    around = [symbols, *[_loose(g.info(tensor)) for tensor in maker.held.tensors]]
    set_struct_info(ask, FuncStructInfo((*around, *map(_loose, own)), TupleStructInfo(tuple(loose))))

    def step(inside: Inside) -> RelaxExpr:
        number, count, going, *rest = inside.own
        current, so_far = rest[: len(states)], rest[len(states) :]
        outer = [inside.shape, *inside.captured]
        made = g.emit_control(Call(body, (*outer, number, count, going, *current)))
        on, *values = g.items(made)
        more = []
        for stack, piece in zip(so_far, values[len(states) :]):
            grown = g.emit(op.expand_dims(g.named_shape(piece), [0]))
            dims = g.shape(grown)
            held = g.cast_shape(stack, [g.new_symbols(1)[0], *dims[1:]], g.info(grown).dtype)
            more.append(g.emit(op.concat([held, grown], 0)))
        following = g.emit(op.add(number, g.full(1, "int64")))
        return g.emit_control(Call(ask, (*outer, following, count, on, *values[: len(states)], *more)))

    take = maker.build(g.bb.get_unique_name("step"), own, step)

    def question(inside: Inside) -> RelaxExpr:
        number, count, going, *rest = inside.own
        on = g.emit(op.logical_and(g.emit(op.less(number, count)), going))
        outer = [inside.shape, *inside.captured]
        call = Call(take, (*outer, *inside.own))
        ended = g.emit(Tuple(tuple(rest)))
        return g.emit_control(If(on, as_seq(call), as_seq(ended)))

    made = maker.build(ask.name_hint, own, question)
    count = g.expr(shape.count) if shape.count is not None else g.full((1 << 63) - 1, "int64")
    count = g.emit(op.reshape(count, ())) if g.rank(count) else count
    going = g.expr(shape.condition) if shape.condition is not None else g.full(1, "bool")
    going = g.emit(op.reshape(going, ())) if g.rank(going) else going
    empty = [_empty(g, piece, info) for piece, info in zip(pieces, piece_infos)]
    arguments = maker.arguments([g.full(0, "int64"), count, going, *[g.expr(value) for value in states], *empty])
    whole = g.emit_control(Call(made, tuple(arguments)))
    results = _results(g, whole, [*states, *pieces], wants_of(node.inputs))
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


def _rank(info: StructInfo) -> int:
    assert isinstance(info, TensorStructInfo)
    return info.ndim


def _loose(info: StructInfo) -> Any:
    """StructInfo without dimensions that have names."""
    if isinstance(info, TensorStructInfo) and info.dims is not None and any(variables(size) for size in info.dims):
        return TensorStructInfo(dtype=info.dtype, ndim=info.ndim)
    return info


def _empty(g: GraphBuilder, piece: TensorValue, info: StructInfo) -> RelaxExpr:
    """A stack of nothing yet."""
    assert isinstance(info, TensorStructInfo)
    dims = info.dims
    sizes = [1 if dims is None or variables(size) else size for size in (dims or [n.IntImm("int64", 1)] * info.ndim)]
    return g.emit(op.zeros(g.shape_expr([0, *sizes]), dtype_of(piece.elem)))


CONTROL: dict[str, Control] = {"If": branch, "Loop": loop, "Scan": scan}
"""The operators that hold graphs."""
