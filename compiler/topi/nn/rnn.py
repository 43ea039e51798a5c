"""Recurrent layers: lstm, gru, rnn, over a sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler.te.extern import extern
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.ir_builder import BufferVar, IRBuilder, create
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.topi.checks import described, differ, need_floats, need_rank, need_shape, refusal
from compiler.topi.rows import points

Activation = Callable[[PrimExpr], PrimExpr]


def lstm(
    Xs: Tensor, Wi: Tensor, Wh: Tensor, Bi: Tensor | None = None, Bh: Tensor | None = None,
    h_init: Tensor | None = None, c_init: Tensor | None = None, proj: Tensor | None = None, p_i: Tensor | None = None,
    p_f: Tensor | None = None, p_o: Tensor | None = None, f_act: Activation = intrin.sigmoid,
    g_act: Activation = intrin.tanh, h_act: Activation = intrin.tanh, reverse: bool = False,
    weight_layout: str = "IFGO",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Long short-term memory over a sequence: (hidden, cell) states of every step.

    `Xs` is (steps, batch, inputs), `Wi` (4 * cells, inputs), `Wh` (4 * cells, hidden), and biases (4 * cells,). Initial
    states are (batch, hidden) and (batch, cells), `proj` (hidden, cells) or None when they are equal, peepholes
    (cells,). `weight_layout` is the order of the gates in the weights. With `reverse` the last step comes first;
    results stand in the order in which they are computed. Raises IRError when shapes do not fit.
    """
    op = "lstm"
    if sorted(weight_layout) != sorted("IFGO"):
        raise refusal(op, f"weight_layout {weight_layout!r} is no order of the letters IFGO")
    gate = {name: place for place, name in enumerate(weight_layout)}
    steps, batch, cells, hidden = _sizes(op, Xs, Wi, Wh, 4, proj)
    _need_biases(op, ops.mul(cells, 4), Bi, Bh)
    for state, size in ((h_init, hidden), (c_init, cells)):
        if state is not None:
            need_shape(op, state, [batch, size])
    for peephole in (p_i, p_f, p_o):
        if peephole is not None:
            need_shape(op, peephole, [cells])
    given = {
        "X": Xs, "Wi": Wi, "Wh": Wh, "Bi": Bi, "Bh": Bh, "h": h_init, "c": c_init, "P": proj,
        "p_i": p_i, "p_f": p_f, "p_o": p_o,
    }  # fmt: skip
    inputs = {name: tensor for name, tensor in given.items() if tensor is not None}

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        held = {name: ib.buffer_ptr(b) for name, b in zip(inputs, ins)}
        hs, cs = ib.buffer_ptr(outs[0]), ib.buffer_ptr(outs[1])
        gates = ib.allocate(Xs.dtype, (batch, ops.mul(cells, 4)), "gates")
        whole = ib.allocate(Xs.dtype, (batch, cells), "whole") if proj is not None else None

        def step(t: PrimExpr, first: bool) -> None:
            source = ops.sub(ops.sub(steps, 1), t) if reverse else t
            before = _state(held, "h", hs, t, first)
            _gates(ib, held, gates, (batch, ops.mul(cells, 4)), source, before, hidden)
            old = _state(held, "c", cs, t, first)
            zero = ops.const(0.0, Xs.dtype)
            with points(ib, (batch, cells)) as (b, k):
                last = zero if old is None else old(b, k)
                parts: dict[str, PrimExpr] = {
                    name: gates[b, ops.add(ops.mul(cells, place), k)] for name, place in gate.items()
                }
                out = _lstm_cell(parts, held, cs, (t, b, k), last, (f_act, g_act, h_act))
                if whole is None:
                    hs[t, b, k] = out
                else:
                    whole[b, k] = out
            if whole is not None:
                with points(ib, (batch, hidden)) as (b, k):
                    hs[t, b, k] = zero
                    with points(ib, (cells,)) as (m,):
                        hs[t, b, k] = hs[t, b, k] + held["P"][k, m] * whole[b, m]

        _over_steps(ib, steps, step)
        return ib.get()

    shapes = [(steps, batch, hidden), (steps, batch, cells)]
    made: list[Tensor] = extern(shapes, list(inputs.values()), body, name="lstm", dtype=Xs.dtype, tag="recurrent")
    return made[0], made[1]


def _lstm_cell(
    gates: dict[str, PrimExpr], held: dict[str, BufferVar], states: BufferVar, at: tuple[PrimExpr, PrimExpr, PrimExpr],
    last: PrimExpr, acts: tuple[Activation, Activation, Activation],
) -> PrimExpr:  # fmt: skip
    """Store the new state of the cell `at` (step, row, cell), and return its output."""
    t, b, k = at
    f_act, g_act, h_act = acts
    i, f, o = gates["I"], gates["F"], gates["O"]
    if "p_i" in held:
        i = i + held["p_i"][k] * last
    if "p_f" in held:
        f = f + held["p_f"][k] * last
    states[t, b, k] = f_act(f) * last + f_act(i) * g_act(gates["G"])
    if "p_o" in held:
        o = o + held["p_o"][k] * states[t, b, k]
    return f_act(o) * h_act(states[t, b, k])


def gru(
    Xs: Tensor, Wi: Tensor, Wh: Tensor, Bi: Tensor | None = None, Bh: Tensor | None = None,
    h_init: Tensor | None = None, f_act: Activation = intrin.sigmoid, g_act: Activation = intrin.tanh,
    reverse: bool = False, weight_layout: str = "RZN", linear_before_reset: bool = True,
) -> Tensor:  # fmt: skip
    """Gated recurrent units over a sequence: the hidden states of every step, (steps, batch, hidden).

    As `lstm`, with 3 gates: reset, update ("Z") and new. With `linear_before_reset` the reset gate weighs the new
    gate's part of the hidden state, bias included. Without it, it weighs the hidden state itself.
    """
    op = "gru"
    if sorted(weight_layout) != sorted("RZN"):
        raise refusal(op, f"weight_layout {weight_layout!r} is no order of the letters RZN")
    gate = {name: place for place, name in enumerate(weight_layout)}
    steps, batch, cells, hidden = _sizes(op, Xs, Wi, Wh, 3, None)
    _need_biases(op, ops.mul(cells, 3), Bi, Bh)
    if h_init is not None:
        need_shape(op, h_init, [batch, hidden])
    given = {"X": Xs, "Wi": Wi, "Wh": Wh, "Bi": Bi, "Bh": Bh, "h": h_init}
    inputs = {name: tensor for name, tensor in given.items() if tensor is not None}
    dtype = Xs.dtype

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        held = {name: ib.buffer_ptr(b) for name, b in zip(inputs, ins)}
        hs = ib.buffer_ptr(outs[0])
        wide = (batch, ops.mul(cells, 3))
        from_x, from_h = ib.allocate(dtype, wide, "from_x"), ib.allocate(dtype, wide, "from_h")
        zero, one = ops.const(0.0, dtype), ops.const(1.0, dtype)

        def step(t: PrimExpr, first: bool) -> None:
            source = ops.sub(ops.sub(steps, 1), t) if reverse else t
            before = _state(held, "h", hs, t, first)
            x, w = held["X"], held["Wi"]
            _products(ib, from_x, wide, held.get("Bi"), lambda b, m: x[source, b, m], w, Xs.shape[2])
            _products(ib, from_h, wide, held.get("Bh"), before, held["Wh"], hidden)

            def place(name: str, k: Any) -> PrimExpr:
                return ops.add(ops.mul(cells, gate[name]), k)

            if not linear_before_reset:
                # the reset state goes through the new gate's weights
                with points(ib, (batch, cells)) as (b, k):
                    new = place("N", k)
                    from_h[b, new] = held["Bh"][new] if "Bh" in held else zero
                    if before is not None:
                        with points(ib, (hidden,)) as (m,):
                            reset = f_act(from_x[b, place("R", m)] + from_h[b, place("R", m)])
                            from_h[b, new] = from_h[b, new] + held["Wh"][new, m] * reset * before(b, m)
            with points(ib, (batch, cells)) as (b, k):
                reset = f_act(from_x[b, place("R", k)] + from_h[b, place("R", k)])
                update = f_act(from_x[b, place("Z", k)] + from_h[b, place("Z", k)])
                recurrent = from_h[b, place("N", k)]
                new_state = g_act(from_x[b, place("N", k)] + (reset * recurrent if linear_before_reset else recurrent))
                last = zero if before is None else before(b, k)
                hs[t, b, k] = (one - update) * new_state + update * last

        _over_steps(ib, steps, step)
        return ib.get()

    result: Tensor = extern((steps, batch, hidden), list(inputs.values()), body, name="gru", dtype=dtype,
                            tag="recurrent")  # fmt: skip
    return result


def rnn(
    Xs: Tensor, Wi: Tensor, Wh: Tensor, Bi: Tensor | None = None, Bh: Tensor | None = None,
    h_init: Tensor | None = None, act: Activation = intrin.tanh, reverse: bool = False,
) -> Tensor:  # fmt: skip
    """The simplest recurrence, h = act(Wi x + Bi + Wh h + Bh): the hidden states of every step."""
    op = "rnn"
    steps, batch, _, hidden = _sizes(op, Xs, Wi, Wh, 1, None)
    _need_biases(op, hidden, Bi, Bh)
    if h_init is not None:
        need_shape(op, h_init, [batch, hidden])
    given = {"X": Xs, "Wi": Wi, "Wh": Wh, "Bi": Bi, "Bh": Bh, "h": h_init}
    inputs = {name: tensor for name, tensor in given.items() if tensor is not None}

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        held = {name: ib.buffer_ptr(b) for name, b in zip(inputs, ins)}
        hs = ib.buffer_ptr(outs[0])
        gates = ib.allocate(Xs.dtype, (batch, hidden), "gates")

        def step(t: PrimExpr, first: bool) -> None:
            source = ops.sub(ops.sub(steps, 1), t) if reverse else t
            _gates(ib, held, gates, (batch, hidden), source, _state(held, "h", hs, t, first), hidden)
            with points(ib, (batch, hidden)) as (b, k):
                hs[t, b, k] = act(gates[b, k])

        _over_steps(ib, steps, step)
        return ib.get()

    result: Tensor = extern((steps, batch, hidden), list(inputs.values()), body, name="rnn", dtype=Xs.dtype,
                            tag="recurrent")  # fmt: skip
    return result


State = Callable[[Any, Any], PrimExpr] | None


def _sizes(
    op: str, x: Tensor, wi: Tensor, wh: Tensor, gates: int, proj: Tensor | None
) -> tuple[PrimExpr, PrimExpr, PrimExpr, PrimExpr]:
    """Steps, batch, cells and hidden size. Raises IRError when the weights do not fit."""
    need_floats(op, x, wi, wh)
    need_rank(op, x, 3)
    for weight in (wi, wh):
        need_rank(op, weight, 2)
    steps, batch, width = x.shape
    rows, hidden = wi.shape[0], wh.shape[1]
    known = ops.as_int(rows)
    cells = ops.floordiv(rows, gates) if gates > 1 else rows
    fits = not differ(wi.shape[1], width) and not differ(wh.shape[0], rows) and (known is None or known % gates == 0)
    if proj is not None:
        need_shape(op, proj, [hidden, cells])
    elif differ(cells, hidden):
        fits = False
    if not fits:
        raise refusal(op, f"weights of {gates} gates do not fit: {described(x, wi, wh)}")
    return steps, batch, cells, hidden


def _need_biases(op: str, size: PrimExpr, *biases: Tensor | None) -> None:
    for bias in biases:
        if bias is not None:
            need_shape(op, bias, [size])


def _state(held: dict[str, BufferVar], name: str, out: BufferVar, t: PrimExpr, first: bool) -> State:
    """The state before step `t`: the initial one (None for zeros), or that of the step before."""
    if not first:
        return lambda b, k: out[ops.sub(t, 1), b, k]
    return None if name not in held else (lambda b, k: held[name][b, k])


def _over_steps(ib: IRBuilder, steps: PrimExpr, step: Callable[[PrimExpr, bool], None]) -> None:
    zero = ops.const(0, steps.dtype)
    with ib.if_scope(ops.greater(steps, 0)):
        step(zero, True)
    with ib.for_range(ops.const(1, steps.dtype), ops.maximum(steps, 1), "t") as t:
        step(t, False)


def _gates(
    ib: IRBuilder, held: dict[str, BufferVar], out: BufferVar, shape: Sequence[PrimExpr], t: PrimExpr, before: State,
    hidden: PrimExpr,
) -> None:  # fmt: skip
    """out[b, g] = Bi[g] + Bh[g] + the sum of Wi[g, m] x[t, b, m] + the sum of Wh[g, m] h[b, m]."""
    x = held["X"]
    _products(ib, out, shape, held.get("Bi"), lambda b, m: x[t, b, m], held["Wi"], x.buffer.shape[2])
    with points(ib, shape) as (b, g):
        if "Bh" in held:
            out[b, g] = out[b, g] + held["Bh"][g]
        if before is not None:
            with points(ib, (hidden,)) as (m,):
                out[b, g] = out[b, g] + held["Wh"][g, m] * before(b, m)


def _products(
    ib: IRBuilder, out: BufferVar, shape: Sequence[PrimExpr], bias: BufferVar | None, x: State, w: BufferVar,
    width: PrimExpr,
) -> None:  # fmt: skip
    with points(ib, shape) as (b, g):
        out[b, g] = ops.const(0.0, out.dtype) if bias is None else bias[g]
        if x is not None:
            with points(ib, (width,)) as (m,):
                out[b, g] = out[b, g] + w[g, m] * x(b, m)
