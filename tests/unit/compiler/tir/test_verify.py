"""The verifier: sound functions pass, and each rule catches a function that breaks it."""

from __future__ import annotations

import pytest

from compiler.driver.pipeline import lower_func
from compiler.errors import IRError
from compiler.ir.visit import walk
from compiler.schedule.core.schedule import Schedule
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import ForKind
from compiler.tir.verify import LoweringStage, verify
from compiler.tir.visit import seq
from tests.kit.compiler.schedules import workloads as workloads

ZERO, FOUR, TRUE = ops.const(0), ops.const(4), ops.const(True)
OUT = n.decl_buffer((4, 4), name="out")


def func_of(body, **attrs):
    param = n.Var("p", "handle")
    return n.PrimFunc((param,), body, None, {param: OUT}, attrs)


def root(body):
    return func_of(n.BlockRealize((), TRUE, n.Block((), (), (), "root", body)))


def loop(body=None, kind=ForKind.SERIAL, var=None, extent=FOUR, thread=None):
    var = n.Var("i") if var is None else var
    return n.For(var, n.IntImm(extent.dtype, 0), extent, kind, body or n.Evaluate(var), thread)


def store(value=None, indices=(ZERO, ZERO), buffer=OUT):
    return n.BufferStore(buffer, value if value is not None else ops.const(0.0), indices)


def forged(node, **fields):
    """A node that its constructor would refuse, as a wrong pass could still make one."""
    for field, value in fields.items():
        object.__setattr__(node, field, value)
    return node


def block(name="B", values=(ZERO,), low=ZERO, body=None, init=None, extent=FOUR):
    axis = n.IterVar(n.Range(low, extent), n.Var("v"))
    return n.BlockRealize(values, TRUE, n.Block((axis,), (), (), name, body or store(), init))


@pytest.mark.parametrize("make", [workloads.matmul, workloads.matmul_relu, workloads.blur, workloads.row_sum])
@pytest.mark.parametrize("simple", [False, True])
def test_scheduled_and_lowered_functions_are_sound(make, simple):
    func = make()
    schedule = Schedule(func)
    names = [node.name_hint for node in walk(func.body) if isinstance(node, n.Block) and node.name_hint != "root"]
    for found in map(schedule.get_block, names):
        outer, inner = schedule.split(schedule.get_loops(found)[0], [None, 4])
        schedule.parallel(outer)
        last = schedule.get_loops(found)[-1]
        if len(schedule.get_loops(found)) > 2:
            schedule.reorder(last, inner)
    verify(schedule.func)
    lowered = lower_func(schedule.func, simple=simple)
    verify(lowered, LoweringStage.LOWERED)


VAR = n.Var("x")
TAG = n.IterVar(None, n.Var("t"), n.IterType.THREAD_INDEX, "threadIdx.x")
OUTER = n.Var("outer")
LOOSE = n.decl_buffer((4, 4), name="loose")
STORAGE = n.Var("tmp", "handle")


def allocate(extents):
    return n.Allocate(STORAGE, "float32", extents, TRUE, n.Evaluate(ZERO))


@pytest.mark.parametrize(
    ("rule", "func", "stage"),
    [
        ("single-definition", func_of(seq(loop(var=VAR), loop(var=VAR))), LoweringStage.LOOPS),
        ("scope", func_of(n.Evaluate(VAR)), LoweringStage.LOOPS),
        ("scope", func_of(seq(loop(var=VAR), n.Evaluate(VAR))), LoweringStage.LOOPS),
        ("scope", func_of(store(buffer=LOOSE)), LoweringStage.LOOPS),
        ("rank", func_of(forged(store(), indices=(ZERO,))), LoweringStage.LOOPS),
        ("rank", func_of(store(indices=(n.Ramp(ZERO, FOUR, 4), ZERO))), LoweringStage.LOOPS),
        ("dtype", func_of(forged(store(), value=ops.const(1))), LoweringStage.LOOPS),
        ("dtype", func_of(store(indices=(ZERO, ops.const(1.0)))), LoweringStage.LOOPS),
        ("dtype", func_of(forged(n.IfThenElse(TRUE, n.Evaluate(ZERO)), condition=ZERO)), LoweringStage.LOOPS),
        ("dtype", func_of(forged(loop(), extent=ops.const(4, "int64"))), LoweringStage.LOOPS),
        ("dtype", func_of(forged(n.LetStmt(VAR, 1, n.Evaluate(VAR)), value=ops.const(1.0))), LoweringStage.LOOPS),
        ("dtype", func_of(n.Evaluate(forged(n.Select(TRUE, ZERO, ZERO), condition=ZERO))), LoweringStage.LOOPS),
        ("loop", func_of(loop(kind=ForKind.THREAD_BINDING)), LoweringStage.LOOPS),
        ("loop", func_of(loop(thread=TAG)), LoweringStage.LOOPS),
        ("block-domain", root(block(low=ops.const(1))), LoweringStage.BLOCKS),
        ("block-domain", root(forged(block(), iter_values=())), LoweringStage.BLOCKS),
        ("dtype", root(block(values=(ops.const(0, "int64"),))), LoweringStage.BLOCKS),
        ("block-name", root(seq(block(), block())), LoweringStage.BLOCKS),
        ("block-isolation", root(loop(block(body=store(indices=(OUTER, ZERO))), var=OUTER)), LoweringStage.BLOCKS),
        ("block-init", root(block(init=n.Evaluate(ZERO))), LoweringStage.BLOCKS),
        ("root", func_of(store()), LoweringStage.BLOCKS),
        ("root", root(allocate((FOUR,))), LoweringStage.BLOCKS),
        ("no-blocks", root(n.Evaluate(ZERO)), LoweringStage.LOOPS),
        ("flat", func_of(store()), LoweringStage.FLAT),
        ("flat", func_of(allocate((FOUR, FOUR))), LoweringStage.FLAT),
        ("no-vector-loops", func_of(loop(kind=ForKind.VECTORIZED)), LoweringStage.LOWERED),
    ],
)
def test_broken_rule_is_named(rule, func, stage):
    with pytest.raises(IRError) as caught:
        verify(func, stage)
    assert caught.value.detail == {"rule": rule}
    assert caught.value.message.startswith(f"{rule}: ")


def test_rules_speak_of_their_stage_only():
    verify(func_of(loop(kind=ForKind.VECTORIZED)), LoweringStage.FLAT)
    verify(func_of(store()), LoweringStage.LOOPS)
    verify(root(loop(block(values=(ZERO,), body=store(intrin.exp(ops.const(1.0)))))), LoweringStage.BLOCKS)
