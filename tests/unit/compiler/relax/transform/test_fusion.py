"""AnnotateTIROpPattern, FuseOps and FuseTIR: what becomes one kernel, what does not, and what the kernel is."""

from typing import Any

import numpy as np
import pytest

from compiler.ir.structural import assert_structural_equal
from compiler.ir.transform.passes import Sequential
from compiler.relax.analysis import problems
from compiler.relax.interp import run
from compiler.relax.op.core.registry import OpPatternKind
from compiler.relax.transform.pipeline import FUSION, PIPELINES, pass_of
from compiler.tir import nodes as n
from tests.kit.compiler.struct_info import tensor
from tunefarm import relax, te, tir, topi
from tunefarm.relax import BlockBuilder, Tuple, TupleGetItem, Var, op, transform

N = tir.Var("n", "int64")


def graph(make: Any, *infos: Any, dataflow: bool = True) -> Any:
    """A module of kernels whose function "main" returns what `make(builder, *parameters)` gives."""
    bb = BlockBuilder()
    params = [Var(f"p{number}", info) for number, info in enumerate(infos)]
    with bb.function("main", params):
        if dataflow:
            with bb.dataflow():
                found = make(bb, *params)
                outs = [bb.emit_output(item) for item in (found if isinstance(found, list) else [found])]
        else:
            outs = [bb.emit(make(bb, *params))]
        bb.emit_func_output(outs[0] if len(outs) == 1 else Tuple(tuple(outs)))
    return transform.LegalizeOps()(bb.get())


def fused(mod: Any) -> Any:
    made = Sequential([pass_of(function).make() for function in FUSION])(mod)
    assert problems(made) == []
    return made


def kernels(mod: Any) -> list[str]:
    """The kernels that "main" calls, in order."""
    values = [binding.value for block in mod["main"].body.blocks for binding in block.bindings]
    return [value.args[0].name_hint for value in values if isinstance(value, relax.Call)]


def agrees(before: Any, after: Any) -> None:
    rng = np.random.default_rng(0)
    args = []
    for param in before["main"].params:
        sizes = [size.value if isinstance(size, n.IntImm) else 3 for size in param.struct_info.dims]
        args.append(rng.uniform(-1, 1, sizes).astype(param.struct_info.dtype))
    for got, wanted in zip(np.atleast_1d(run(after, *args)), np.atleast_1d(run(before, *args)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


# ----------------------------------------------------------------------------------- patterns

KINDS: list[tuple[str, Any, list[Any]]] = [
    ("ELEMWISE", lambda bb, x: op.nn.gelu(x), [tensor(N, 4)]),
    ("ELEMWISE", lambda bb, x, y: op.add(x, y), [tensor(N, 4), tensor(N, 4)]),
    ("ELEMWISE", lambda bb, x: op.expand_dims(x, 0), [tensor(N, 4)]),
    ("BROADCAST", lambda bb, x, y: op.add(x, y), [tensor(N, 4), tensor(4)]),
    ("BROADCAST", lambda bb, x: op.broadcast_to(x, (5, N, 4)), [tensor(N, 4)]),
    ("INJECTIVE", lambda bb, x: op.permute_dims(x, [1, 0]), [tensor(N, 4)]),
    ("INJECTIVE", lambda bb, x: op.reshape(x, (4 * N,)), [tensor(N, 4)]),
    ("INJECTIVE", lambda bb, x: op.nn.pad(x, (1, 1, 0, 2)), [tensor(N, 4)]),
    ("INJECTIVE", lambda bb, x, y: op.concat([x, y]), [tensor(N, 4), tensor(2, 4)]),
    ("INJECTIVE", lambda bb, x, i: op.take(x, i, 0), [tensor(N, 4), tensor(7, dtype="int32")]),
    ("COMM_REDUCE", lambda bb, x: op.sum(x, axis=1), [tensor(N, 4)]),
    ("COMM_REDUCE", lambda bb, x: op.mean(x, axis=1, keepdims=True), [tensor(N, 4)]),
    ("COMM_REDUCE", lambda bb, x: op.argmax(x, axis=1), [tensor(N, 4)]),
    ("OUT_ELEMWISE_FUSABLE", lambda bb, x, y: op.matmul(x, y), [tensor(N, 4), tensor(4, 8)]),
    ("OUT_ELEMWISE_FUSABLE", lambda bb, x, y: op.nn.conv2d(x, y, padding=1), [tensor(N, 4, 8, 8), tensor(2, 4, 3, 3)]),
    ("OUT_ELEMWISE_FUSABLE", lambda bb, x: op.nn.max_pool2d(x, (2, 2)), [tensor(N, 4, 8, 8)]),
    ("OUT_ELEMWISE_FUSABLE", lambda bb, x: op.nn.softmax(x), [tensor(N, 4)]),
    ("OUT_ELEMWISE_FUSABLE", lambda bb, x, g, b: op.nn.layer_norm(x, g, b, axes=-1), [tensor(N, 4), *2 * [tensor(4)]]),
    ("OPAQUE", lambda bb, x: op.cumsum(x, axis=1), [tensor(N, 4)]),
    ("OPAQUE", lambda bb, x: op.sort(x), [tensor(N, 4)]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "make", "infos"), KINDS)
def test_kernels_say_how_they_may_be_fused(kind: str, make: Any, infos: list[Any]) -> None:
    mod = transform.AnnotateTIROpPattern()(graph(make, *infos))
    [func] = [func for func in mod.values() if isinstance(func, n.PrimFunc)]
    assert OpPatternKind(func.attrs["op_pattern"]).name == kind


def test_what_somebody_wants_of_a_kernel_stays() -> None:
    mod = graph(lambda bb, x: op.tanh(bb.emit(op.exp(x))), tensor(4))
    mod = mod.with_functions(
        {name: func.with_attr("op_pattern", 8) if name.name_hint == "exp" else func for name, func in mod.items()}
    )
    assert kernels(fused(mod)) == ["exp", "tanh"]


# -------------------------------------------------------------------------------------- groups


def test_a_chain_becomes_a_function() -> None:
    mod = graph(lambda bb, x, y: op.multiply(bb.emit(op.exp(x)), y), tensor(N, 4), tensor(4))
    bb = BlockBuilder(mod)
    names = {name.name_hint: name for name in mod}
    m = tir.Var("m", "int64")
    x, y = Var("x", tensor(m, 4)), Var("y", tensor(4))
    with bb.function("fused_exp_multiply", [x, y], attrs={"Primitive": 1}, private=True):
        with bb.dataflow():
            lv = bb.emit(relax.call_tir(names["exp"], (x,), tensor(m, 4)))
            out = bb.emit_output(relax.call_tir(names["multiply"], (lv, y), tensor(m, 4)))
        gvar = bb.emit_func_output(out)
    a, b = Var("a", tensor(N, 4)), Var("b", tensor(4))
    bb.get()
    wanted = BlockBuilder(bb.get().with_functions({k: v for k, v in bb.get().items() if k.name_hint != "main"}))
    with wanted.function("main", [a, b]):
        with wanted.dataflow():
            result = wanted.emit_output(relax.Call(gvar, [a, b]))
        wanted.emit_func_output(result)
    assert_structural_equal(transform.FuseOps()(mod), wanted.get())
    assert_structural_equal(transform.FuseOps(fuse_opt_level=0)(mod), mod)


def test_ways_that_meet_again_are_one_kernel() -> None:
    def gate(bb: Any, x: Any, w: Any) -> Any:
        y = bb.emit(op.matmul(x, w))
        return op.multiply(y, bb.emit(op.sigmoid(y)))

    before = graph(gate, tensor(N, 4), tensor(4, 8))
    after = fused(before)
    assert kernels(after) == ["fused_matmul_sigmoid_multiply"]
    agrees(before, after)


def test_what_others_read_stays() -> None:
    def two(bb: Any, x: Any, w: Any) -> Any:
        y = bb.emit_output(op.matmul(x, w))
        return [op.nn.relu(y), y]

    assert kernels(fused(graph(two, tensor(N, 4), tensor(4, 8)))) == ["matmul", "relu"]


def test_only_dataflow_blocks_are_fused() -> None:
    mod = graph(lambda bb, x: op.tanh(bb.emit(op.exp(x))), tensor(4), dataflow=False)
    assert kernels(fused(mod)) == ["exp", "tanh"]


def test_fields_of_a_tuple_join_what_made_it() -> None:
    def gate(bb: Any, x: Any) -> Any:
        halves = bb.emit(op.split(bb.emit(op.tanh(x)), 2, axis=1))
        left, right = (bb.emit(TupleGetItem(halves, index)) for index in (0, 1))
        return op.multiply(left, bb.emit(op.sigmoid(right)))

    before = graph(gate, tensor(N, 8))
    after = fused(before)
    assert kernels(after) == ["fused_tanh_split_sigmoid_multiply"]
    agrees(before, after)


def test_a_kernel_may_have_several_results() -> None:
    def halves(bb: Any, x: Any) -> Any:
        return op.split(bb.emit(op.exp(x)), 2, axis=1)

    before = graph(halves, tensor(N, 8))
    after = fused(before)
    assert kernels(after) == ["fused_exp_split"]
    agrees(before, after)


def test_views_at_the_ends_are_left_out() -> None:
    def around(bb: Any, x: Any) -> Any:
        y = bb.emit(op.tanh(bb.emit(op.exp(bb.emit(op.reshape(x, (N * 4,)))))))
        return op.reshape(y, (2 * N, 2))

    assert kernels(fused(graph(around, tensor(N, 4)))) == ["reshape", "fused_exp_tanh", "reshape1"]


def test_rows_and_what_is_computed_from_their_sums_are_one_kernel() -> None:
    def softmax(bb: Any, x: Any) -> Any:
        e = bb.emit(op.exp(bb.emit(op.subtract(x, bb.emit(op.max(x, axis=-1, keepdims=True))))))
        return op.divide(e, bb.emit(op.sum(e, axis=-1, keepdims=True)))

    def norm(bb: Any, x: Any, g: Any) -> Any:
        mean = bb.emit(op.mean(x, axis=-1, keepdims=True))
        d = bb.emit(op.subtract(x, mean))
        v = bb.emit(op.mean(bb.emit(op.multiply(d, d)), axis=-1, keepdims=True))
        return op.multiply(bb.emit(op.multiply(d, bb.emit(op.rsqrt(bb.emit(op.add(v, relax.const(1e-5))))))), g)

    for make, infos in ((softmax, [tensor(N, 8)]), (norm, [tensor(N, 8), tensor(8)])):
        before = graph(make, *infos)
        after = fused(before)
        assert len(kernels(after)) == 1
        agrees(before, after)


def test_of_two_products_one_takes_their_sum() -> None:
    def both(bb: Any, x: Any, w: Any, v: Any) -> Any:
        return op.nn.relu(bb.emit(op.add(bb.emit(op.matmul(x, w)), bb.emit(op.matmul(x, v)))))

    before = graph(both, tensor(4, 4), tensor(4, 8), tensor(4, 8))
    after = fused(before)
    assert sorted(kernels(after)) == ["fused_matmul_add_relu", "matmul"]
    agrees(before, after)


def test_dimensions_that_no_array_tells_are_passed() -> None:
    def rows(bb: Any, x: Any) -> Any:
        return op.exp(bb.emit(op.broadcast_to(bb.emit(op.tanh(x)), (N, 4))))

    bb = BlockBuilder()
    x, s = Var("x", tensor(1, 4)), Var("s", relax.ShapeStructInfo((N,)))
    with bb.function("main", [x, s]):
        with bb.dataflow():
            out = bb.emit_output(rows(bb, x))
        bb.emit_func_output(out)
    before = transform.LegalizeOps()(bb.get())
    after = fused(before)
    data = np.ones((1, 4), "float32")
    np.testing.assert_allclose(run(after, data, (3,)), run(before, data, (3,)))
    assert run(after, data, (3,)).shape == (3, 4)


def test_a_group_has_a_bounded_number_of_kernels() -> None:
    def chain(bb: Any, x: Any) -> Any:
        for _ in range(20):
            x = bb.emit(op.tanh(x))
        return x

    mod = graph(chain, tensor(N))
    assert len(kernels(transform.FuseOps(most_kernels=8)(mod))) == 3


def test_work_is_not_multiplied() -> None:
    def costly(bb: Any, x: Any, y: Any) -> Any:
        return op.add(y, bb.emit(op.erf(bb.emit(op.tanh(x)))))

    assert kernels(fused(graph(costly, tensor(1, 512), tensor(512, 512)))) == ["fused_tanh_erf", "add"]
    assert kernels(fused(graph(costly, tensor(512, 512), tensor(512, 512)))) == ["fused_tanh_erf_add"]


def test_equal_groups_are_one_kernel() -> None:
    def layers(bb: Any, x: Any, w: Any) -> Any:
        for _ in range(3):
            x = bb.emit(op.nn.relu(bb.emit(op.matmul(x, w))))
        return x

    made = fused(graph(layers, tensor(N, 4), tensor(4, 4)))
    assert kernels(made) == 3 * ["fused_matmul_relu"]
    assert [name.name_hint for name in made] == ["main", "fused_matmul_relu"]


# ------------------------------------------------------------------------------------- kernels


def kernel(mod: Any) -> Any:
    [func] = [func for func in mod.values() if isinstance(func, n.PrimFunc)]
    return func


def prim_func(*args: Any) -> Any:
    return te.create_prim_func(list(args)).without_attr("global_symbol")


def test_what_is_computed_element_by_element_is_one_block() -> None:
    A, B = te.placeholder((8, 4), name="A"), te.placeholder((4,), name="B")
    C = te.compute((8, 4), lambda i, j: tir.max(tir.exp(A[i, j]) + B[j], tir.const(0.0)), name="C")
    made = fused(graph(lambda bb, x, y: op.nn.relu(op.add(op.exp(x), y)), tensor(8, 4), tensor(4)))
    assert_structural_equal(kernel(made), prim_func(A, B, C))


def test_a_value_read_twice_has_a_name() -> None:
    made = kernel(fused(graph(lambda bb, x: op.multiply(t := bb.emit(op.tanh(x)), bb.emit(op.exp(t))), tensor(8))))
    text = made.script()
    assert text.count("T.tanh") == 1
    assert "T.Let" in text


def test_views_between_vanish() -> None:
    def there_and_back(bb: Any, x: Any) -> Any:
        flat = bb.emit(op.reshape(bb.emit(op.exp(x)), (32,)))
        return op.tanh(bb.emit(op.reshape(flat, (8, 4))))

    A = te.placeholder((8, 4), name="A")
    B = te.compute((8, 4), lambda i, j: tir.tanh(tir.exp(A[i, j])), name="B")
    assert_structural_equal(kernel(fused(graph(there_and_back, tensor(8, 4)))), prim_func(A, B))


def test_sums_stay_blocks_with_one_block_after_them() -> None:
    A, B = te.placeholder((8, 4), name="A"), te.placeholder((4, 8), name="B")
    C = topi.matmul(A, B)
    D = te.compute((8, 8), lambda i, j: tir.max(C[i, j] * 0.5, tir.const(0.0)), name="D")
    make: Any = lambda bb, x, y: op.nn.relu(op.multiply(op.matmul(x, y), relax.const(0.5)))  # noqa: E731
    assert_structural_equal(kernel(fused(graph(make, tensor(8, 4), tensor(4, 8)))), prim_func(A, B, D))


def test_constants_without_dimensions_are_numbers_and_others_arguments() -> None:
    w = relax.const(np.arange(4, dtype="float32"))
    before = graph(lambda bb, x: op.add(op.multiply(x, relax.const(2.0)), w), tensor(N, 4))
    after = fused(before)
    assert len(kernel(after).buffer_map) == 3
    agrees(before, after)


def test_calls_of_functions_that_hold_more_than_kernels_stay() -> None:
    bb = BlockBuilder()
    x = Var("x", tensor(4))
    with bb.function("inner", [x], attrs={"Primitive": 1}, private=True):
        with bb.dataflow():
            out = bb.emit_output(op.exp(x))
        bb.emit_func_output(out)
    mod = bb.get()
    assert_structural_equal(transform.FuseTIR()(mod), mod)


def test_the_default_pipelines_fuse() -> None:
    assert all(set(FUSION) <= set(PIPELINES[name]) for name in ("default", "default_build"))
