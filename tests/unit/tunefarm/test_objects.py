"""Objects of the IR beside functions, functions in processes of their own, and questions about functions."""

from __future__ import annotations

import os
import time

import pytest

import tunefarm as tvm
from tests.kit.tvm_names.standing import standings
from tunefarm import as_tvm, te, tir
from tunefarm.contrib.popen_pool import PopenPoolExecutor, PopenWorker, StatusKind
from tunefarm.script import tir as T
from tunefarm.script import tirx


def test_objects_are_kept_as_json() -> None:
    x, n = te.var("x"), te.size_var("n", "int64")
    given = tvm.runtime.convert({"vars": [x, x, n], "of": {x: 2.5}, "text": "a", "none": [1, True]})
    found = tvm.ir.load_json(tvm.ir.save_json(given))
    assert found["vars"][0] is found["vars"][1]
    assert found["vars"][0] in found["of"]
    assert (found["vars"][2].name, found["vars"][2].dtype) == ("n", "int64")
    assert isinstance(found["vars"][2], tir.SizeVar)
    assert (str(found["text"]), found["none"][0].value) == ("a", 1)
    attrs = tvm.ir.load_json(tvm.ir.save_json(tvm.ir.make_node("ir.DictAttrs", x=1, name="xyz")))
    assert (attrs.x.value, attrs["name"], sorted(attrs.keys())) == (1, "xyz", ["name", "x"])
    assert isinstance(attrs, tvm.ir.Attrs)
    for text in (
        '{"format":"tunefarm.objects"}',
        '{"format":"tunefarm.objects","nodes":[["run",1]],"root":0}',
        "[",
        "1",
    ):
        with pytest.raises(tvm.TVMError):
            tvm.ir.load_json(text)
    computed = te.compute((1,), lambda i: i)
    stage = te.create_schedule(computed.op)[computed]
    with pytest.raises(tvm.TVMError, match="cannot keep a Stage"):
        tvm.ir.save_json([stage])


def test_tensors_nodes_and_targets_are_kept_as_json() -> None:
    A = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    B = te.compute((4,), lambda i: te.sum(A[i, k] * 2.0, axis=k), name="B")
    found = tvm.ir.load_json(tvm.ir.save_json(B))
    assert (str(found.op.body[0]), found.op.axis[0].dom.extent.value) == (str(B.op.body[0]), 4)
    assert found is found.op.output(0)
    args = (found.op.input_tensors[0], found)
    tvm.ir.assert_structural_equal(te.create_prim_func(list(args)), te.create_prim_func([A, B]))
    state, first = te.placeholder((3, 2)), te.compute((1, 2), lambda _, i: A[0, i])
    scanned = te.scan(first, te.compute((3, 2), lambda t, i: state[t - 1, i]), state)
    assert isinstance(tvm.ir.load_json(tvm.ir.save_json(scanned.op)), te.ScanOp)
    target = tvm.target.Target("llvm -mcpu=core2")
    assert tvm.ir.load_json(tvm.ir.save_json(target)) == target


def test_a_registered_function_is_known_by_its_name() -> None:
    tvm.register_func("tests.env_func", lambda x: x + 1)
    try:
        found = tvm.ir.load_json(tvm.ir.save_json(tvm.ir.EnvFunc.get("tests.env_func")))
        assert (found.name, found(3), isinstance(found, tvm.runtime.Object)) == ("tests.env_func", 4, True)
    finally:
        tvm.runtime.remove_global_func("tests.env_func")
    with pytest.raises(ValueError, match="env_func"):
        tvm.ir.EnvFunc.get("tests.env_func")


def test_functions_run_in_processes_of_their_own() -> None:
    pool = PopenPoolExecutor(max_workers=2, timeout=120)
    found = list(pool.map_with_error_catching(os.fspath, ["a", "b", 3]))
    assert [r.status for r in found] == [StatusKind.COMPLETE, StatusKind.COMPLETE, StatusKind.EXCEPTION]
    assert [r.value for r in found[:2]] == ["a", "b"]
    assert pool.submit(os.getpid).result() != os.getpid()
    worker = PopenWorker()
    worker.send(time.sleep, [30], timeout=0.2)
    with pytest.raises(TimeoutError):
        worker.recv()
    worker.send(os._exit, [3])
    with pytest.raises(ChildProcessError):
        worker.recv()
    worker.send(len, ["abc"])
    assert (worker.recv(), worker.is_alive()) == (3, True)
    worker.kill()
    assert not worker.is_alive()


@T.prim_func
def shared(a: T.handle) -> None:
    A = T.match_buffer(a, (64,))
    B = T.alloc_buffer((64,), scope="shared")
    for i in T.thread_binding(64, thread="threadIdx.x"):
        with T.block("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi]


def test_questions_about_functions() -> None:
    ask = tir.analysis
    assert ask.calculate_allocated_bytes(shared) == {"main": {"shared": 256}}
    assert ask.calculate_allocated_bytes(tvm.IRModule({"f": shared})) == {"f": {"shared": 256}}
    assert ask.verify_ssa(shared)
    assert ask.verify_gpu_code(shared, {"max_threads_per_block": 64, "max_shared_memory_per_block": 256})
    assert not ask.verify_gpu_code(shared, {"max_threads_per_block": 32})
    assert not ask.verify_gpu_code(shared, {"max_shared_memory_per_block": 128})
    i = te.var("i")
    twice = tir.For(i, 0, 2, tir.ForKind.SERIAL, tir.Evaluate(i))
    assert not ask.verify_ssa(tir.PrimFunc([], tir.SeqStmt([twice, twice])))


def test_short_names_and_makers_of_texts() -> None:
    assert (tirx.f32, tirx.u8, tirx.bf16) == (T.float32, T.uint8, T.bfloat16)
    added = T.comm_reducer(lambda x, y: x + y, [T.float32(0)])
    assert (len(added.lhs), added.identity_element[0].value) == (1, 0.0)
    assert T.ptr("float32").dtype == "handle"
    assert tvm.runtime.device_from_target("llvm") == tvm.cpu(0)
    assert len(set(tvm.meta_schedule.utils.fork_seed(3, n=4))) == 4


def test_objects_held_together() -> None:
    container = tvm.runtime.container
    pair = container.ADT(3, [tvm.nd.array([1, 2]), "text"])
    assert (pair.tag, len(pair), pair[1]) == (3, 2, "text")
    assert isinstance(pair, tvm.runtime.Object)
    assert container.tuple_object([1]).tag == 0
    assert tvm.runtime.convert([1])._move() == [1]
    add = tvm.runtime.convert({"add": lambda a, b: a + b})["add"]
    assert (isinstance(add, tvm.runtime.PackedFunc), add(1, 2)) == (True, 3)
    assert tvm.testing.device_test(tvm.opencl(3), 4, 3) == tvm.opencl(3)
    with pytest.raises(tvm.TVMError, match="Check failed"):
        tvm.testing.device_test(tvm.cpu(), 2, 0)


def test_errors_of_a_program_are_its_own() -> None:
    @tvm.error.register_error
    class Plain(RuntimeError):
        pass

    @tvm.error.register_error("Named")
    class Named(ValueError):
        pass

    assert tvm.error.register_error("Again", Plain) is Plain
    assert issubclass(Named, ValueError)


def test_every_name_of_tvm_has_an_answer() -> None:
    assert [row.name for row in standings() if row.state == "missing"] == []


def test_the_newer_path_of_script_names():
    from tunefarm import tirx as newer

    assert newer.script is tirx
    assert as_tvm._ours("tvm.tirx.script") == "tunefarm.script.tirx"


def test_attributes_by_kind() -> None:
    attrs = tvm.ir.make_node("DictAttrs", a=1, b="x", c=[1, 2])
    assert (attrs.get_int("a"), attrs.get_str("b"), attrs.get_int_tuple("c")) == (1, "x", (1, 2))
    assert list(attrs.keys()) == ["a", "b", "c"]
