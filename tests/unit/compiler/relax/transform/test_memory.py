"""Memory of graphs, before and after each pass: arenas, arrays of their own, ends."""

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import IRError
from compiler.interp.interpreter import AssertionFailed
from compiler.ir.structural import assert_structural_equal
from compiler.ir.transform.passes import Sequential
from compiler.relax.analysis import problems
from compiler.relax.interp import run
from compiler.relax.transform.memory.arena import Piece, lay_out, most_alive
from compiler.runtime.vm.builtins import VMError
from tests.kit.compiler.struct_info import tensor
from tunefarm import relax, tir
from tunefarm.relax import BlockBuilder, Tuple, TupleGetItem, Var, op, transform
from tunefarm.script import ir as I
from tunefarm.script import relax as R
from tunefarm.script import tir as T

N = tir.Var("n", "int64")


def explicit(mod: Any) -> Any:
    """`mod` up to where memory is planned."""
    names = ("ToNonDataflow", "RemovePurityChecking", "CallTIRRewrite")
    passes = [transform.LegalizeOps(skip_ops=["relax.reshape"]), *[getattr(transform, name)() for name in names]]
    return Sequential(passes)(mod)


def graph(make: Any, *infos: Any, attrs: Any = None) -> Any:
    bb = BlockBuilder()
    params = [Var(name, info) for name, info in zip("xyz", infos)]
    with bb.function("main", params, attrs or {}):
        out = bb.emit(make(bb, *params))
        bb.emit_func_output(out)
    return bb.get()


def chain(bb: Any, x: Any) -> Any:
    for _ in range(4):
        x = bb.emit(op.exp(op.negative(x)))
    return x


def calls(mod: Any, name: str) -> list[Any]:
    found = []
    for block in mod["main"].body.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, relax.Call) and getattr(binding.value.op, "name", "") == name:
                found.append(binding.value)
    return found


def arenas(mod: Any) -> list[Any]:
    return [call.args[0].values[0] for call in calls(mod, "relax.memory.alloc_storage")]


@I.ir_module
class Chained:
    @T.prim_func(private=True)
    def exp(A: T.Buffer((T.int64(16),), "float32"), B: T.Buffer((T.int64(16),), "float32")):
        for i in range(T.int64(16)):
            with T.block("B"):
                v = T.axis.spatial(T.int64(16), i)
                B[v] = T.exp(A[v])

    @R.function(pure=False)
    def main(x: R.Tensor((16,), "float32")) -> R.Tensor((16,), "float32"):
        cls = Chained
        a = R.builtin.alloc_tensor(R.shape([16]), "float32", 0)
        cls.exp(x, a)
        b = R.builtin.alloc_tensor(R.shape([16]), "float32", 0)
        cls.exp(a, b)
        c = R.builtin.alloc_tensor(R.shape([16]), "float32", 0)
        cls.exp(b, c)
        d = R.builtin.alloc_tensor(R.shape([16]), "float32", 0)
        cls.exp(c, d)
        return d


@I.ir_module
class Planned:
    @T.prim_func(private=True)
    def exp(A: T.Buffer((T.int64(16),), "float32"), B: T.Buffer((T.int64(16),), "float32")):
        for i in range(T.int64(16)):
            with T.block("B"):
                v = T.axis.spatial(T.int64(16), i)
                B[v] = T.exp(A[v])

    @R.function(pure=False)
    def main(x: R.Tensor((16,), "float32")) -> R.Tensor((16,), "float32"):
        cls = Planned
        storage: R.Object = R.memory.alloc_storage(R.shape([128]), 0, "global", "uint8")
        a = R.memory.alloc_tensor(storage, 0, R.shape([16]), "float32")
        cls.exp(x, a)
        b = R.memory.alloc_tensor(storage, 64, R.shape([16]), "float32")
        cls.exp(a, b)
        c = R.memory.alloc_tensor(storage, 0, R.shape([16]), "float32")
        cls.exp(b, c)
        d = R.builtin.alloc_tensor(R.shape([16]), "float32", 0)
        cls.exp(c, d)
        return d


@I.ir_module
class Lowered:
    @T.prim_func(private=True)
    def exp(A: T.Buffer((T.int64(16),), "float32"), B: T.Buffer((T.int64(16),), "float32")):
        for i in range(T.int64(16)):
            with T.block("B"):
                v = T.axis.spatial(T.int64(16), i)
                B[v] = T.exp(A[v])

    @R.function(pure=False)
    def main(x: R.Tensor((16,), "float32")) -> R.Tensor((16,), "float32"):
        cls = Lowered
        storage: R.Object = R.memory.alloc_storage(R.shape([128]), 0, "global", "uint8")
        a = R.memory.alloc_tensor(storage, 0, R.shape([16]), "float32")
        cls.exp(x, a)
        b = R.memory.alloc_tensor(storage, 64, R.shape([16]), "float32")
        cls.exp(a, b)
        c = R.memory.alloc_tensor(storage, 0, R.shape([16]), "float32")
        cls.exp(b, c)
        own: R.Object = R.memory.alloc_storage(R.shape([16]), 0, "global", "float32")
        d = R.memory.alloc_tensor(own, 0, R.shape([16]), "float32")
        cls.exp(c, d)
        return d


def same(mod: Any, wanted: Any) -> None:
    assert problems(mod) == []
    assert_structural_equal(mod, wanted)


def test_arrays_that_live_at_different_times_share_a_place() -> None:
    same(transform.StaticPlanBlockMemory()(Chained), Planned)


def test_arrays_that_nobody_planned_get_storage_of_their_own() -> None:
    same(transform.LowerAllocTensor()(Planned), Lowered)
    same(transform.LowerAllocTensor()(Lowered), Lowered)


def test_what_is_returned_or_kept_elsewhere_is_not_planned() -> None:
    def escaping(bb: Any, x: Any) -> Any:
        a = bb.emit(op.exp(x))
        b = bb.emit(op.reshape(a, (4, 4)))
        bb.emit(op.call_pure_packed("keep.this", bb.emit(op.negative(x)), sinfo_args=relax.TupleStructInfo(())))
        return Tuple((b, bb.emit(op.tanh(x))))

    planned = transform.StaticPlanBlockMemory()(explicit(graph(escaping, tensor(16))))
    assert arenas(planned) == []


def test_parts_of_tuples_live_by_themselves() -> None:
    def parts(bb: Any, x: Any) -> Any:
        split = bb.emit(op.split(x, 2))
        first = bb.emit(op.exp(bb.emit(TupleGetItem(split, 0))))
        again = bb.emit(op.exp(first))
        return op.add(again, bb.emit(TupleGetItem(split, 1)))

    planned = transform.StaticPlanBlockMemory()(explicit(graph(parts, tensor(32))))
    assert [size.value for size in arenas(planned)] == [3 * 64]
    x = np.arange(32, dtype="float32") / 32
    np.testing.assert_allclose(run(planned, x), np.exp(np.exp(x[:16])) + x[16:], rtol=1e-6)


def test_branches_of_a_condition_share_places() -> None:
    bb = BlockBuilder()
    c, x = Var("c", tensor(dtype="bool")), Var("x", tensor(16))

    def branch(first: Any, second: Any) -> Any:
        return relax.SeqExpr((), op.negative(first(second(x))))

    with bb.function("main", [c, x]):
        chosen = bb.emit(relax.If(c, branch(op.exp, op.tanh), branch(op.tanh, op.exp)))
        bb.emit_func_output(bb.emit(op.negative(chosen)))
    planned = transform.StaticPlanBlockMemory()(explicit(bb.get()))
    assert problems(planned) == []
    assert [size.value for size in arenas(planned)] == [2 * 64]
    value = np.linspace(-1, 1, 16, dtype="float32")
    for flag in (True, False):
        wanted = np.exp(np.tanh(value)) if flag else np.tanh(np.exp(value))
        np.testing.assert_allclose(run(planned, np.array(flag), value), wanted, rtol=1e-6)


def test_sizes_over_the_same_dimensions_share_an_arena_of_multiples() -> None:
    planned = transform.StaticPlanBlockMemory()(explicit(graph(chain, tensor(N, 32))))
    (size,) = arenas(planned)
    assert size.a is planned["main"].params[0].struct_info_.dims[0]
    assert size.b.value == 2 * 32 * 4
    x = np.linspace(-1, 1, 96, dtype="float32").reshape(3, 32)
    np.testing.assert_allclose(run(planned, x), run(graph(chain, tensor(N, 32)), x), rtol=1e-5)


def test_sizes_with_upper_bounds_are_planned_for_them_and_checked() -> None:
    mod = graph(chain, tensor(N, 32), attrs={"tir_var_upper_bound": {"n": 8}})
    planned = transform.StaticPlanBlockMemory()(explicit(mod))
    assert problems(planned) == []
    assert [size.value for size in arenas(planned)] == [2 * 8 * 32 * 4]
    machine = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())
    for rows in (1, 8):
        x = np.linspace(-1, 1, rows * 32, dtype="float32").reshape(rows, 32)
        wanted = run(mod, x)
        np.testing.assert_allclose(run(planned, x), wanted, rtol=1e-5)
        np.testing.assert_allclose(machine["main"](x).numpy(), wanted, rtol=1e-5)
    large = np.zeros((9, 32), "float32")
    with pytest.raises(AssertionFailed, match="n is 9, and its tir_var_upper_bound is 8"):
        run(planned, large)
    with pytest.raises(VMError, match="n is 9, and its tir_var_upper_bound is 8"):
        machine["main"](large)
    wrong = graph(chain, tensor(N, 32), attrs={"tir_var_upper_bound": {"n": "many"}})
    with pytest.raises(IRError, match="tir_var_upper_bound of n is 'many', no size"):
        transform.StaticPlanBlockMemory()(explicit(wrong))


def test_pieces_in_different_branches_may_overlap() -> None:
    common, yes, no = Piece(64, 0, 9), Piece(128, 1, 3, ((1, True),)), Piece(192, 4, 6, ((1, False),))
    after = Piece(64, 8, 9)
    inner = Piece(64, 2, 9, ((1, True), (2, False)))
    assert yes.excludes(no)
    assert inner.excludes(no)
    assert not yes.excludes(inner)
    assert not after.excludes(yes)
    assert most_alive([common, yes, no, after]) == 64 + 192
    assert lay_out([common, yes, no, after]).size == 64 + 192
    assert most_alive([common, yes, inner, no, after]) == 64 + 192
    assert lay_out([]).size <= 0


def test_objects_are_forgotten_after_their_last_use() -> None:
    killed = transform.KillAfterLastUse()(Lowered)
    assert problems(killed) == []
    names = [
        binding.value.op.name
        for block in killed["main"].body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Call) and hasattr(binding.value.op, "name")
    ]
    kill = "relax.memory.kill_storage"
    make, lay = "relax.memory.alloc_storage", "relax.memory.alloc_tensor"
    assert names == [make, lay, lay, lay, kill, make, lay, kill]
    x = np.linspace(-1, 0, 16, dtype="float32")
    np.testing.assert_array_equal(run(killed, x), run(Lowered, x))


def test_arrays_with_storage_of_their_own_are_forgotten_one_by_one() -> None:
    def views(bb: Any, x: Any) -> Any:
        a = bb.emit(op.reshape(bb.emit(op.exp(x)), (4, 4)))
        return op.negative(bb.emit(op.negative(bb.emit(op.negative(a)))))

    unplanned = transform.LowerAllocTensor()(explicit(graph(views, tensor(16))))
    killed = transform.KillAfterLastUse()(unplanned)
    assert problems(killed) == []
    assert len(calls(killed, "relax.memory.kill_tensor")) == 3  # what is returned is kept
    assert len(calls(killed, "relax.vm.kill_object")) == 1  # the view
    assert len(calls(killed, "relax.memory.kill_storage")) == 4
    x = np.linspace(-1, 0, 16, dtype="float32")
    np.testing.assert_array_equal(run(killed, x), run(unplanned, x))
    same(transform.KillAfterLastUse()(graph(lambda bb, x: x, tensor(16))), graph(lambda bb, x: x, tensor(16)))
