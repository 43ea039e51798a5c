"""Passes over graphs, each before and after."""

from typing import Any

import numpy as np
import pytest

from compiler.errors import ArgumentError, IRError
from compiler.ir.structural import assert_structural_equal
from compiler.ir.transform.config import TransformError
from compiler.ir.transform.passes import Sequential
from compiler.relax.analysis import problems
from compiler.relax.te_calls import make_kernel
from compiler.relax.transform.fold_constant import is_left_unfolded
from compiler.relax.transform.passes import find_pass, relax_pass, relax_passes
from compiler.relax.transform.pipeline import PIPELINES, get_pipeline
from compiler.runtime.core.dtypes import storage_dtype
from tests.kit.compiler.struct_info import tensor
from tunefarm import relax, tir
from tunefarm.relax import BlockBuilder, DataflowVar, TensorStructInfo, Tuple, TupleGetItem, Var, op, transform

N = tir.Var("n", "int64")


def graph(make: Any, *infos: Any, dataflow: bool = True) -> Any:
    """A module whose function "main" returns what `make(builder, *parameters)` gives."""
    bb = BlockBuilder()
    params = [Var(name, info) for name, info in zip("xyz", infos)]
    with bb.function("main", params):
        if dataflow:
            with bb.dataflow():
                out = bb.emit_output(make(bb, *params))
        else:
            out = bb.emit(make(bb, *params))
        bb.emit_func_output(out)
    return bb.get()


def bindings(mod: Any) -> list[Any]:
    return [binding for block in mod["main"].body.blocks for binding in block.bindings]


def same(mod: Any, wanted: Any) -> None:
    assert problems(mod) == []
    assert_structural_equal(mod, wanted)


def test_equal_values_are_computed_once() -> None:
    def twice(bb: Any, x: Any) -> Any:
        return op.add(bb.emit(op.exp(x)), bb.emit(op.exp(x)))

    def once(bb: Any, x: Any) -> Any:
        y = bb.emit(op.exp(x))
        return op.add(y, y)

    same(transform.EliminateCommonSubexpr()(graph(twice, tensor(N))), graph(once, tensor(N)))


def test_values_with_side_effects_are_not_merged() -> None:
    bb = BlockBuilder()
    x = Var("x", tensor(4))
    with bb.function("main", [x], pure=False):
        for _ in range(2):
            bb.emit(op.print(x, format="{}"))
        bb.emit_func_output(x)
    assert len(bindings(transform.EliminateCommonSubexpr()(bb.get()))) == 2


def test_values_of_a_branch_are_not_seen_after_it() -> None:
    bb = BlockBuilder()
    c, x = Var("c", tensor(dtype="bool")), Var("x", tensor(4))
    with bb.function("main", [c, x]):
        chosen = bb.emit(relax.If(c, relax.SeqExpr((), op.add(op.exp(x), x)), relax.SeqExpr((), op.exp(x))))
        bb.emit_func_output(bb.emit(op.add(chosen, bb.emit(op.exp(x)))))
    assert problems(transform.EliminateCommonSubexpr()(bb.get())) == []


def test_names_of_names_and_fields_of_known_tuples_go() -> None:
    def roundabout(bb: Any, x: Any, y: Any) -> Any:
        again = bb.emit(bb.emit(x))
        pair = bb.emit(Tuple((again, y)))
        return op.add(bb.emit(TupleGetItem(pair, 0)), bb.emit(TupleGetItem(pair, 1)))

    plain = graph(lambda bb, x, y: op.add(x, y), tensor(N), tensor(N))
    cleaned = Sequential([transform.CanonicalizeBindings(), transform.DeadCodeElimination()])
    same(cleaned(graph(roundabout, tensor(N), tensor(N))), plain)


def test_casts_to_what_is_known_go() -> None:
    cast = graph(lambda bb, x: op.exp(bb.match_cast(x, tensor(N, 4))), tensor(N, 4))
    same(transform.CanonicalizeBindings()(cast), graph(lambda bb, x: op.exp(x), tensor(N, 4)))
    needed = graph(lambda bb, x: op.exp(bb.match_cast(x, tensor(N, 4))), TensorStructInfo(None, "float32", ndim=2))
    same(transform.CanonicalizeBindings()(needed), needed)


def test_what_nothing_uses_goes() -> None:
    def more(bb: Any, x: Any) -> Any:
        bb.emit(op.exp(bb.emit(op.negative(x))))
        return op.tanh(x)

    same(transform.DeadCodeElimination()(graph(more, tensor(N))), graph(lambda bb, x: op.tanh(x), tensor(N)))


def test_functions_that_nothing_calls_go() -> None:
    bb = BlockBuilder()
    for name, private in (("helper", True), ("unused", True), ("main", False)):
        x = Var("x", tensor(4))
        with bb.function(name, [x], private=private):
            called = relax.Call(bb.get().get_global_vars()[0], [x]) if name == "main" else op.exp(x)
            bb.emit_func_output(bb.emit(called))
    left = transform.DeadCodeElimination()(bb.get())
    assert [name.name_hint for name in left] == ["helper", "main"]
    with pytest.raises(ArgumentError, match="there is no function 'mian'"):
        transform.DeadCodeElimination(["mian"])(bb.get())


def test_operators_become_kernels_made_once() -> None:
    def products(bb: Any, x: Any, y: Any) -> Any:
        return op.matmul(bb.emit(op.matmul(bb.emit(op.matmul(x, x)), x)), y)

    made = transform.LegalizeOps()(graph(products, tensor(4, 4), tensor(4, 8)))
    assert [name.name_hint for name in made] == ["main", "matmul", "matmul1"]
    assert all(binding.value.op.name == "relax.call_tir" for binding in bindings(made))
    assert problems(made) == []


def test_kernels_are_made_once_for_calls_that_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(*args: Any) -> Any:
        made.append(args[3])
        return make_kernel(*args)

    monkeypatch.setattr("compiler.relax.transform.legalize_ops.make_kernel", counted)

    def layers(bb: Any, x: Any, y: Any) -> Any:
        for axis in (0, 1, -1, 0):
            x = bb.emit(op.nn.softmax(bb.emit(op.clip(x, 0.0, 1.0)), axis))
            y = bb.emit(op.concat([y, y], 1))
        x = bb.emit(op.strided_slice(bb.emit(op.clip(x, -0.0, 1.0)), [0], [0], [N]))
        return op.add(x, bb.emit(op.strided_slice(y, [1], [0], [4])))

    legal = transform.LegalizeOps()(graph(layers, tensor(N, 4), tensor(N, 4)))
    assert sorted(made) == ["add", "clip", "clip", *["concat"] * 4, *["softmax"] * 3, *["strided_slice"] * 2]
    assert problems(legal) == []
    names = [name.name_hint for name in legal]
    assert sum(name.startswith("softmax") for name in names) == 2  # axes 1 and -1 make one kernel
    assert sum(name.startswith("clip") for name in names) == 2


def test_operators_may_become_something_else() -> None:
    own = {"relax.exp": lambda bb, call: op.tanh(call.args[0])}
    made = transform.LegalizeOps(own)(graph(lambda bb, x: op.exp(x), tensor(4)))
    same(made, graph(lambda bb, x: op.tanh(x), tensor(4)))


def test_what_follows_from_constants_is_computed() -> None:
    def build(bb: Any, x: Any) -> Any:
        w = bb.emit(op.permute_dims(relax.const(np.arange(6, dtype="float32").reshape(2, 3))))
        return op.matmul(x, bb.emit(op.add(w, relax.const(1.0))))

    steps = [transform.LegalizeOps(), transform.FoldConstant(), transform.DeadCodeElimination()]
    made = Sequential(steps)(graph(build, tensor(N, 3)))
    (product,) = bindings(made)
    held = product.value.args[1].fields[1]
    np.testing.assert_array_equal(held.array, np.arange(6).reshape(2, 3).T + 1)


def test_large_results_are_left_to_the_executable() -> None:
    made = graph(lambda bb, x: op.add(x, bb.emit(op.broadcast_to(relax.const(1.0), (64, 64)))), tensor(64, 64))
    assert len(bindings(Sequential([transform.LegalizeOps(), transform.FoldConstant()])(made))) == 2


@pytest.mark.parametrize(("dtype", "most"), [("float32", 4), ("bfloat16", 8), ("float16", 8), ("int8", 4)])
def test_narrow_floats_grow_as_the_float32_of_their_sums(dtype: str, most: int) -> None:
    """Taps of fast filters are: as float32, and four times as many. Integers of few bits stay as narrow."""
    weight = relax.const(np.ones(4096, storage_dtype(dtype)))
    size = most * weight.array.nbytes
    assert not is_left_unfolded(size, [weight])
    assert is_left_unfolded(size + 1, [weight])


def test_copies_of_memory_as_it_lies_become_views() -> None:
    made = graph(lambda bb, x: op.exp(bb.emit(op.reshape(x, (N * 4,)))), tensor(N, 4))
    legal = transform.LegalizeOps()(made)
    first, _ = bindings(transform.RewriteDataflowReshape()(legal))
    assert first.value.op.name == "relax.reshape"
    moved = transform.LegalizeOps()(graph(lambda bb, x: op.exp(bb.emit(op.permute_dims(x))), tensor(3, 4)))
    same(transform.RewriteDataflowReshape()(moved), moved)


def test_dataflow_blocks_become_plain() -> None:
    make: Any = lambda bb, x: op.exp(bb.emit(op.negative(x)))  # noqa: E731
    made = transform.ToNonDataflow()(graph(make, tensor(N)))
    assert not any(isinstance(binding.var, DataflowVar) for binding in bindings(made))
    assert_structural_equal(made["main"].body.blocks[0].bindings[0].value, op.negative(made["main"].params[0]))


def test_results_of_kernels_become_arrays_of_the_graph() -> None:
    legal = transform.LegalizeOps()(graph(lambda bb, x: op.exp(x), tensor(N)))
    steps = [transform.ToNonDataflow(), transform.RemovePurityChecking(), transform.CallTIRRewrite()]
    alloc, call, named = bindings(Sequential(steps)(legal))
    assert alloc.value.op.name == "relax.builtin.alloc_tensor"
    assert call.value.args == (*legal["main"].params, alloc.var)
    assert named.value is alloc.var


def test_params_are_bound() -> None:
    made = transform.BindParams("main", {"y": np.ones((4, 8), "float32")})(
        graph(lambda bb, x, y: op.matmul(x, y), tensor(N, 4), tensor(4, tir.Var("m", "int64")))
    )
    assert [param.name_hint for param in made["main"].params] == ["x"]
    assert problems(made) == []
    with pytest.raises(ArgumentError, match="'mian' is no function"):
        transform.BindParams("mian", {})(made)


# ---------------------------------------------------------------------------------- the table


def test_every_pass_says_what_it_does() -> None:
    assert set(relax_passes()) >= {"Normalize", "LegalizeOps", "FoldConstant", "VMShapeLower"}
    for title, entry in relax_passes().items():
        assert entry.description, title
        assert entry.description[0].isupper()
        assert "→" in (entry.function.__doc__ or ""), title
        assert getattr(transform, title)().info.name == title if not entry.signature.parameters else True


def test_names_are_taken_once_and_found() -> None:
    with pytest.raises(TransformError, match="already registered"):
        relax_pass("LegalizeOps")(lambda mod, context: mod)
    with pytest.raises(TransformError, match="no graph pass LegaliseOps"):
        find_pass("LegaliseOps")
    with pytest.raises(AttributeError):
        transform.LegaliseOps


def test_pipelines_have_names() -> None:
    assert {"zero", "default", "default_build"} <= set(PIPELINES)
    with pytest.raises(ValueError, match="there is no pipeline 'fast'"):
        get_pipeline("fast")
    with pytest.raises(ValueError, match="has no option 'speed'"):
        get_pipeline("zero", speed=3)


def test_passes_of_ones_own() -> None:
    seen: list[Any] = []

    @transform.function_pass(opt_level=0)
    def look(func: Any, mod: Any, context: Any) -> Any:
        seen.append(func)
        return func

    @transform.dataflowblock_pass(opt_level=0)
    def drop(block: Any, mod: Any, context: Any) -> Any:
        return relax.DataflowBlock(block.bindings[1:])

    def unused(bb: Any, x: Any) -> Any:
        bb.emit(op.negative(x))
        return op.exp(x)

    mod = graph(unused, tensor(4))
    assert look(mod) is not None
    assert seen == [mod["main"]]
    same(drop(mod), graph(lambda bb, x: op.exp(x), tensor(4)))
    with pytest.raises(IRError, match="removed the output"):
        drop(drop(mod))
