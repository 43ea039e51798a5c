"""Two threads use shared memory at random: with the barriers put in, the interpreter finds no race."""

from __future__ import annotations

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from compiler.errors import LoweringError
from compiler.interp import threads as interp_threads
from compiler.interp.thread_memory import RaceError
from compiler.ir.visit import walk
from compiler.lower.gpu.inject_barriers import inject_barriers
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.gpu import tvm_storage_sync
from compiler.tir.visit import seq
from tests.kit.fuzzing import examples

X, Y, SIZE = 8, 4, 512


@st.composite
def indices(draw: st.DrawFn, names: tuple[n.Var, ...]) -> n.PrimExpr:
    """A sum of multiples of variables, or of their quotients and remainders, within the buffer."""
    total: n.PrimExpr = ops.const(draw(st.integers(0, 3)))
    for var in names:
        atom: n.PrimExpr = var
        match draw(st.integers(0, 3)):
            case 0:
                atom = ops.floordiv(var, 2)
            case 1:
                atom = ops.floormod(var, 2)
        total = ops.add(total, ops.mul(atom, draw(st.sampled_from([0, 1, 2, 4, 8, 16]))))
    return total


@st.composite
def kernels(draw: st.DrawFn) -> n.PrimFunc:
    """Stores and loads of shared memory, in loops and under conditions, by a block of threads."""
    tx, ty, k = (n.Var(name, "int32") for name in ("tx", "ty", "k"))
    shared = n.decl_buffer((SIZE,), "float32", "S", scope="shared")
    own = n.decl_buffer((1,), "float32", "own", scope="local")

    def access() -> n.Stmt:
        inner = n.Var("j", "int32")
        looped, conditional = draw(st.booleans()), draw(st.integers(0, 5)) == 0
        at = draw(indices((tx, ty, k, inner) if looped else (tx, ty, k)))
        if draw(st.booleans()):
            stmt: n.Stmt = n.BufferStore(shared, ops.const(1.0, "float32"), (at,))
        else:
            stmt = n.BufferStore(own, n.BufferLoad(shared, (at,)), (ops.const(0),))
        if conditional:
            stmt = n.IfThenElse(tx < draw(st.integers(1, X)), stmt)
        return n.For(inner, 0, draw(st.integers(1, 3)), n.ForKind.SERIAL, stmt) if looped else stmt

    body: n.Stmt = seq(*(access() for _ in range(draw(st.integers(1, 3)))))
    body = seq(n.For(k, 0, draw(st.integers(1, 3)), n.ForKind.SERIAL, body))
    for buffer in (shared, own):
        body = n.Allocate(buffer.data, buffer.dtype, buffer.shape, ops.const(True), body, buffer.scope)
    for var, tag, extent in ((tx, "threadIdx.x", X), (ty, "threadIdx.y", Y)):
        axis = n.IterVar(None, n.Var(tag, "int32"), n.IterType.THREAD_INDEX, tag)
        body = n.For(var, 0, extent, n.ForKind.THREAD_BINDING, body, axis)
    return n.PrimFunc((), body)


def barriers(func: n.PrimFunc) -> int:
    sync = tvm_storage_sync("shared")
    assert isinstance(sync, n.Call)
    return sum(isinstance(node, n.Call) and node.op is sync.op for node in walk(func.body))


def race(func: n.PrimFunc) -> str:
    """Return the interpreter's text about the first race, "" when there is none."""
    try:
        interp_threads.run(func)
    except RaceError as error:
        return error.message
    return ""


@settings(max_examples=examples(30))
@given(kernels())
def test_no_race_is_left(func: n.PrimFunc) -> None:
    try:
        fixed = inject_barriers(func)
    except LoweringError:
        assume(False)
    before, after = race(func), race(fixed)
    event(f"races: {bool(before)}, barriers: {min(barriers(fixed), 2)}")
    assert not before or barriers(fixed)
    # left may be one store by which several threads write one element, against which no barrier helps
    assert not after or after.count("writes it") == 2
