"""The API overviews of te, a stage and a built module name what is there, with real arguments."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tunefarm as tvm
from tunefarm import te

SIGNATURES = {
    "te.create_schedule": ["ops"],
    "te.placeholder": ["shape", "dtype", "name"],
    "te.compute": ["shape", "fcompute", "name", "tag", "attrs", "varargs_names"],
    "te.reduce_axis": ["dom", "name", "thread_tag", "span"],
    "te.sum": ["expr", "axis", "where", "init"],
    "tir.IntImm": ["dtype", "value", "span"],
    "target.Target": ["target", "host"],
    "lower": ["inp", "args", "name", "binds", "simple_mode"],
    "build": ["inputs", "args", "target", "target_host", "runtime", "name", "binds"],
}


@pytest.mark.parametrize("path", SIGNATURES)
def test_arguments_go_by_their_names(path: str) -> None:
    found: object = tvm
    for part in path.split("."):
        found = getattr(found, part)
    assert callable(found)
    names = [p.name for p in inspect.signature(found).parameters.values() if p.kind is not p.VAR_POSITIONAL]
    assert names == SIGNATURES[path]


def test_a_stage_tells_all_of_itself() -> None:
    a, b = te.placeholder((13, 11), name="A"), te.placeholder((11, 7), name="B")
    k = te.reduce_axis((0, 11), name="k")
    c = te.compute((13, 7), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((13, 7), lambda i, j: c[i, j] + 1, name="D")
    s = te.create_schedule(d.op)
    outer, inner = s[d].split(d.op.axis[0], 4)
    s[c].compute_at(s[d], outer)
    s[d].vectorize(d.op.axis[1])
    s[c].set_scope("local")
    s[c].set_store_predicate(c.op.axis[0].var < 12)
    stage, last = s[c], s[d]
    assert [stage.op.name, stage.op.axis[0].var.name, stage.op.reduce_axis[0].var.name] == ["C", "i", "k"]
    assert list(stage.op.input_tensors) == [a, b]
    assert stage.op.output(0) == c
    assert [v.var.name for v in stage.leaf_iter_vars] == ["i", "j", "k"]
    assert [(int(v.dom.min), int(v.dom.extent)) for v in stage.leaf_iter_vars] == [(0, 13), (0, 7), (0, 11)]
    assert [v.iter_type.name for v in stage.leaf_iter_vars] == ["DATA_PAR", "DATA_PAR", "COMM_REDUCE"]
    assert [v.for_type.value for v in last.leaf_iter_vars] == ["serial", "serial", "vectorized"]
    assert {v.thread_tag for v in last.leaf_iter_vars} == {""}
    assert [v.var.name for v in last.all_iter_vars] == ["i", "j", "i.outer", "i.inner"]
    assert last.leaf_var_map[inner.var].var is inner.var
    assert (stage.attach_type.name, stage.attach_ivar, stage.attach_stage) == ("SCOPE", outer, last)
    assert stage.store_pred is stage.store_predicate is not None
    assert stage.compute_pred is stage.store_predicate
    assert (stage.schedule, stage.group, stage.scope) == (s, None, "local")
    assert (stage.is_output, last.is_output, stage.is_specialized) == (False, True, False)


def test_a_built_module_tells_all_of_itself(tmp_path) -> None:
    a = te.placeholder((6,), name="A")
    b = te.compute(a.shape, lambda *i: a(*i) + 1, name="B")
    func = tvm.build(te.create_schedule(b.op), [a, b], target="llvm", name="plus_one")
    x, y = tvm.nd.array(np.arange(6, dtype="float32")), tvm.nd.empty((6,))
    func(x, y)
    assert func.time_evaluator(func.entry_name, tvm.cpu(), number=2)(x, y).mean > 0
    assert "plus_one" in func.get_function_list()
    func.get_function("plus_one")(x, y)
    func.save(str(tmp_path / "compiled.o"))
    func.export_library(str(tmp_path / "compiled.so"))
    again = tvm.runtime.load_module(str(tmp_path / "compiled.so"))
    again["plus_one"](x, y)
    np.testing.assert_array_equal(y.numpy(), x.numpy() + 1)
    assert "define" in func.get_source()
    assert "define" in func.get_ir()
    assert (func.type_key, isinstance(func.format, str), isinstance(func.is_binary, bool)) == ("llvm", True, True)


def test_what_is_lowered_is_named_and_bound() -> None:
    a = te.placeholder((6, 5), name="A")
    b = te.compute(a.shape, lambda *i: a(*i) * 2, name="B")
    buffer = tvm.tir.decl_buffer((6, 5), "float32", name="mine")
    mod = tvm.lower(te.create_schedule(b.op), [a, b], name="twice", binds={a: buffer}, simple_mode=True)
    assert "mine" in mod["twice"].script()
    assert tvm.IRModule.from_expr(mod["twice"])["twice"] is mod["twice"]
    with pytest.raises(ValueError, match="expected a Schedule, PrimFunc or IRModule, got int 5"):
        tvm.lower(5)


def test_bounds_and_functions_of_a_schedule():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    bounds = te.schedule.InferBound(s)
    assert isinstance(bounds, tvm.container.Map)
    stmt = te.schedule.ScheduleOps(s, bounds)
    func = te.schedule.SchedulePostProcToPrimFunc([A, B], stmt, None)
    assert isinstance(func, tvm.tir.PrimFunc)
    assert len(func.buffer_map) == 2
    with pytest.raises(tvm.TVMError, match="takes what ScheduleOps gave"):
        te.schedule.SchedulePostProcToPrimFunc([A, B], tvm.tir.Evaluate(0), None)
    short = te.compute((8,), lambda i: A[i], name="short")
    s = te.create_schedule(short.op)
    _, inner = s[short].split(short.op.axis[0], factor=32)
    assert te.schedule.InferBound(s)[inner].extent.value == 8


def test_bounds_of_a_scan():
    X = te.compute((16, 8), lambda i, j: te.const(1.0), name="X")
    state = te.placeholder((16, 8))
    init = te.compute((1, 8), lambda _, i: X[0, i])
    update = te.compute((16, 8), lambda t, i: state[t - 1, i] + X[t, i])
    scan = te.scan(init, update, state)
    s = te.create_schedule(scan.op)
    assert te.schedule.InferBound(s)[update.op.axis[1]].extent.value == 8


def test_pragmas_that_are_kinds_of_loops():
    A = te.placeholder((100,), name="A")
    B = te.compute((100,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], factor=10)
    s[B].pragma(outer, "unroll")
    s[B].pragma(inner, "vectorize")
    kinds = [s[B].iter_var_attrs[axis].iter_type for axis in (outer, inner)]
    assert kinds == [te.schedule.IterVar.Unrolled, te.schedule.IterVar.Vectorized]
