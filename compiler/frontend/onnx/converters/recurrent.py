"""Recurrent networks: RNN, GRU, LSTM.

Inputs are multiplied for all steps at once, then one kernel takes the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.frontend.onnx.converters.matmul import product
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import Result, converter
from compiler.frontend.onnx.values import TensorValue
from compiler.ir.base import RelaxExpr
from compiler.relax import op
from compiler.te.extern import extern
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.ir_builder import create
from compiler.tir.nodes import PrimExpr, Select, Stmt
from compiler.topi.rows import int64

Activation = Callable[[PrimExpr], PrimExpr]


def _activation(node: Node, name: str, alpha: float | None, beta: float | None) -> Activation:
    """An activation by its name in ONNX."""

    def c(value: float, x: PrimExpr) -> PrimExpr:
        return ops.const(value, x.dtype)

    a = alpha
    match name.lower():
        case "sigmoid":
            return lambda x: c(1, x) / (c(1, x) + intrin.exp(c(0, x) - x))
        case "tanh":
            return intrin.tanh
        case "relu":
            return lambda x: ops.maximum(x, c(0, x))
        case "affine":
            return lambda x: x * c(1.0 if a is None else a, x) + c(0.0 if beta is None else beta, x)
        case "leakyrelu":
            return lambda x: Select(ops.less(x, c(0, x)), x * c(0.01 if a is None else a, x), x)
        case "thresholdedrelu":
            return lambda x: Select(ops.greater(x, c(1.0 if a is None else a, x)), x, c(0, x))
        case "scaledtanh":
            return lambda x: c(1.0 if a is None else a, x) * intrin.tanh(c(1.0 if beta is None else beta, x) * x)
        case "hardsigmoid":
            return lambda x: ops.maximum(
                ops.minimum(c(0.2 if a is None else a, x) * x + c(0.5 if beta is None else beta, x), c(1, x)), c(0, x)
            )
        case "elu":
            return lambda x: Select(ops.less(x, c(0, x)), c(1.0 if a is None else a, x) * (intrin.exp(x) - c(1, x)), x)
        case "softsign":
            return lambda x: x / (c(1, x) + intrin.abs(x))
        case "softplus":
            return lambda x: intrin.log(c(1, x) + intrin.exp(x))
    return node.fail(f"there is no activation {name!r}")


@dataclass(frozen=True, slots=True)
class RecurrentCell:
    """A recurrent cell: how many gates it has, and what it does with their sums."""

    kind: str
    gates: int
    activations: tuple[Activation, ...]
    reverse: bool
    clip: float
    input_forget: bool
    linear_before_reset: bool
    has_lengths: bool
    has_peepholes: bool


@converter("RNN", "GRU", "LSTM")
def recurrent(g: GraphBuilder, node: Node) -> Result:
    """Run a recurrent network over a sequence, forwards, backwards or both."""
    x, w, r = (node.value(k) for k in range(3))
    bias, lengths, first = node.optional(3), node.optional(4), node.optional(5)
    cell_state, peepholes = (node.optional(6), node.optional(7)) if node.op == "LSTM" else (None, None)
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[node.op]
    direction = node.text("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    data = g.expr(x)
    batch_first = bool(node.int("layout", 0))
    if batch_first:
        data = g.emit(op.permute_dims(data, [1, 0, 2]))
    steps, batch, width = g.shape(data)
    hidden = node.int("hidden_size", 0) or (g.sizes(r) or [0, 0, 0])[2]
    rows = g.emit(op.reshape(data, g.shape_expr([steps * batch, width])))
    outputs: list[list[RelaxExpr]] = []
    for number in range(directions):
        own = [_side(g, value, number) for value in (w, r)]
        sums = product(g, rows, g.emit(op.permute_dims(own[0], [1, 0])))
        later = None
        if bias is not None:
            both = _side(g, bias, number)
            halves = g.items(g.emit(op.split(both, [gates * hidden], 0)))
            sums = g.emit(op.add(sums, halves[0]))
            later = halves[1]
        sums = g.emit(op.reshape(sums, g.shape_expr([steps, batch, gates * hidden])))
        later = later if later is not None else g.emit(op.zeros((gates * hidden,), x.dtype))
        start = [_start(g, value, number, batch, hidden, x.dtype, batch_first) for value in (first, cell_state)]
        cell = RecurrentCell(
            node.op, gates, tuple(_activations(node, number)), direction == "reverse" or number == 1,
            node.float("clip", 0.0), bool(node.int("input_forget", 0)), bool(node.int("linear_before_reset", 0)),
            lengths is not None, peepholes is not None,
        )  # fmt: skip
        more: list[Any] = [] if lengths is None else [lengths]
        more += [] if peepholes is None else [_side(g, peepholes, number)]
        made = g.te(_steps, cell, hidden, sums, own[1], later, *start, *more, name=node.op.lower())
        outputs.append(list(g.items(made)))
    return _joined(g, node, outputs, batch_first)


def _side(g: GraphBuilder, value: TensorValue, number: int) -> RelaxExpr:
    """Return what belongs to one direction."""
    if value.is_constant:
        assert value.array is not None
        return g.expr(g.known(value.array[number].copy(), value.elem))
    return g.emit(op.squeeze(g.emit(op.strided_slice(g.expr(value), [0], [number], [number + 1])), [0]))


def _start(
    g: GraphBuilder, value: TensorValue | None, number: int, batch: Any, hidden: int, dtype: str, batch_first: bool
) -> RelaxExpr:
    if value is None:
        return g.emit(op.zeros(g.shape_expr([batch, hidden]), dtype))
    data = g.expr(value)
    if batch_first:
        data = g.emit(op.permute_dims(data, [1, 0, 2]))
    return g.emit(op.squeeze(g.emit(op.strided_slice(data, [0], [number], [number + 1])), [0]))


_DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
_TAKES_ALPHA = {"affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"}
_TAKES_BETA = {"affine", "scaledtanh", "hardsigmoid"}


def _activations(node: Node, number: int) -> list[Activation]:
    """The activations of one direction; alphas and betas are given to those that take them, in order."""
    each = _DEFAULTS[node.op]
    names = list(node.attr("activations") or each * 2)
    alphas, betas = list(node.attr("activation_alpha") or []), list(node.attr("activation_beta") or [])
    found = []
    for name in names:
        alpha = alphas.pop(0) if alphas and name.lower() in _TAKES_ALPHA else None
        beta = betas.pop(0) if betas and name.lower() in _TAKES_BETA else None
        found.append(_activation(node, name, alpha, beta))
    return found[number * len(each) : (number + 1) * len(each)] if len(found) > len(each) else found


def _joined(g: GraphBuilder, node: Node, outputs: Sequence[Sequence[RelaxExpr]], batch_first: bool) -> Result:
    """The outputs of both directions in ONNX's shapes."""
    found: list[Any] = []
    axes = ((1, [1]), (0, [0]), (0, [0]))
    for index in range(3 if node.op == "LSTM" else 2):
        axis, places = axes[index]
        parts = [g.emit(op.expand_dims(side[index], places)) for side in outputs]
        whole = parts[0] if len(parts) == 1 else g.emit(op.concat(parts, axis))
        if batch_first:
            whole = g.emit(op.permute_dims(whole, [2, 0, 1, 3] if index == 0 else [1, 0, 2]))
        found.append(whole)
    return found[: max(len(node.outputs), 1)]


def _steps(
    cell: RecurrentCell, hidden: int, sums: Tensor, weights: Tensor, bias: Tensor, start: Tensor, start_cell: Tensor,
    *more: Tensor,
) -> list[Tensor]:  # fmt: skip
    """All steps of one direction: (steps, batch, hidden) results, the last state, the last cell state."""
    steps, batch, _ = sums.shape
    dtype = sums.dtype

    def limited(x: PrimExpr) -> PrimExpr:
        if not cell.clip:
            return x
        return ops.maximum(ops.minimum(x, ops.const(cell.clip, dtype)), ops.const(-cell.clip, dtype))

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        given, r, b, h0, c0 = (ib.buffer_ptr(item) for item in ins[:5])
        rest = [ib.buffer_ptr(item) for item in ins[5:]]
        lengths = rest.pop(0) if cell.has_lengths else None
        peep = rest.pop(0) if cell.has_peepholes else None
        y, state, memory = (ib.buffer_ptr(item) for item in outs)
        gate = ib.allocate(dtype, (cell.gates, hidden), "gate")
        reset = ib.allocate(dtype, (hidden,), "reset")
        zero = ops.const(0, dtype)
        with ib.for_range(ops.const(0, "int64"), int64(batch), "n") as n:
            with ib.for_range(ops.const(0, "int64"), int64(hidden), "j") as j:
                state[n, j] = h0[n, j]
                memory[n, j] = c0[n, j]
            length = int64(steps) if lengths is None else int64(lengths[n])
            with ib.for_range(ops.const(0, "int64"), int64(steps), "k") as k:
                t = length - 1 - k if cell.reverse else k
                over = ops.greater_equal(k, length)
                with ib.if_scope(over), ib.for_range(ops.const(0, "int64"), int64(hidden), "j") as j:
                    y[k, n, j] = zero
                with ib.else_scope():

                    def dot(q: int, j: Any, source: Any, n: Any = n) -> None:
                        """Add the state's product with the weights of gate `q` to it."""
                        with ib.for_range(ops.const(0, "int64"), int64(hidden), "i") as i:
                            read = source[i] if source is reset else source[n, i]
                            gate[q, j] = gate[q, j] + read * r[q * hidden + j, i]

                    _one_step(ib, cell, hidden, given, b, peep, gate, reset, state, memory, dot, limited, t, n)
                    with ib.for_range(ops.const(0, "int64"), int64(hidden), "j") as j:
                        y[t, n, j] = state[n, j]
        return ib.get()

    inputs = [sums, weights, bias, start, start_cell, *more]
    shapes = [(steps, batch, hidden), (batch, hidden), (batch, hidden)]
    made: list[Tensor] = extern(shapes, inputs, body, name=cell.kind.lower(), dtype=[dtype] * 3)
    return made


def _one_step(
    ib: Any, cell: RecurrentCell, hidden: int, given: Any, b: Any, peep: Any, gate: Any, reset: Any, state: Any,
    memory: Any, dot: Any, limited: Any, t: Any, n: Any,
) -> None:  # fmt: skip
    """One step of one sequence: the gates, then the state."""
    one = ops.const(1, state.dtype)
    size = int64(hidden)
    f = cell.activations

    def sums(q: int, with_bias: bool = True) -> None:
        with ib.for_range(ops.const(0, "int64"), size, "j") as j:
            first = given[t, n, q * hidden + j]
            gate[q, j] = first + b[q * hidden + j] if with_bias else first
            dot(q, j, state)

    if cell.kind == "RNN":
        sums(0)
        with ib.for_range(ops.const(0, "int64"), size, "j") as j:
            state[n, j] = f[0](limited(gate[0, j]))
    elif cell.kind == "GRU":
        sums(0)
        sums(1)
        with ib.for_range(ops.const(0, "int64"), size, "j") as j:
            reset[j] = f[0](limited(gate[1, j]))
        if cell.linear_before_reset:
            with ib.for_range(ops.const(0, "int64"), size, "j") as j:
                gate[2, j] = b[2 * hidden + j]
                dot(2, j, state)
                gate[2, j] = gate[2, j] * reset[j] + given[t, n, 2 * hidden + j]
        else:
            with ib.for_range(ops.const(0, "int64"), size, "j") as j:
                reset[j] = reset[j] * state[n, j]
            with ib.for_range(ops.const(0, "int64"), size, "j") as j:
                gate[2, j] = given[t, n, 2 * hidden + j] + b[2 * hidden + j]
                dot(2, j, reset)
        with ib.for_range(ops.const(0, "int64"), size, "j") as j:
            update = ib.let("update", f[0](limited(gate[0, j])))
            state[n, j] = (one - update) * f[1](limited(gate[2, j])) + update * state[n, j]
    else:
        for q in range(4):
            sums(q)
        with ib.for_range(ops.const(0, "int64"), size, "j") as j:
            old = ib.let("old", memory[n, j])

            def seen(q: int, j: Any = j, old: Any = old) -> Any:
                return gate[q, j] if peep is None else gate[q, j] + peep[q * hidden + j] * old

            i_gate = ib.let("i_gate", f[0](limited(seen(0))))
            f_gate = one - i_gate if cell.input_forget else f[0](limited(seen(2)))
            memory[n, j] = f_gate * old + i_gate * f[1](limited(gate[3, j]))
            last = gate[1, j] if peep is None else gate[1, j] + peep[hidden + j] * memory[n, j]
            state[n, j] = f[0](limited(last)) * f[2](memory[n, j])
