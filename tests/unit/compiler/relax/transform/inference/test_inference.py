"""Models before they run: operators taken apart, weights folded, shorter numbers."""

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import ArgumentError
from compiler.ir.module import IRModule
from compiler.ir.transform.passes import Sequential
from compiler.ir.visit import walk
from compiler.relax.analysis import problems
from compiler.relax.interp import run
from tests.kit.compiler.pass_checks import arrays, as_module, computes, same_values, stays
from tests.kit.compiler.random_graphs import random_graph
from tunefarm import relax
from tunefarm.relax import BlockBuilder, TensorStructInfo, TupleGetItem, Var, op, transform
from tunefarm.script import relax as R

INFERENCE, TRAINING = transform.DecomposeOpsForInference(), transform.DecomposeOpsForTraining()
FOLD = transform.FoldBatchnormToConv2D()
VECTOR = R.Tensor((3,), "float32")


def operators(mod: Any, func: str = "main") -> list[str]:
    return [node.op.name for node in walk(mod[func]) if isinstance(node, relax.Call) and hasattr(node.op, "name")]


def spread(values: list[Any]) -> list[Any]:
    """Arguments whose last one, a variance, is positive."""
    return [*values[:-1], np.abs(values[-1]) + 0.5]


@R.function
def normed(
    x: R.Tensor(("n", 3, 5), "float32"),
    gamma: R.Tensor((3,), "float32"),
    beta: R.Tensor((3,), "float32"),
    mean: R.Tensor((3,), "float32"),
    var: R.Tensor((3,), "float32"),
):
    with R.dataflow():
        lv = R.nn.batch_norm(x, gamma, beta, mean, var, axis=1, training=False)
        gv = lv[0]
        R.output(gv)
    return gv


@R.function
def apart(
    x: R.Tensor(("n", 3, 5), "float32"),
    gamma: R.Tensor((3,), "float32"),
    beta: R.Tensor((3,), "float32"),
    mean: R.Tensor((3,), "float32"),
    var: R.Tensor((3,), "float32"),
):
    with R.dataflow():
        lv = R.expand_dims(mean, [0, 2])
        lv1 = R.subtract(x, lv)
        lv2 = R.add(var, R.const(1e-05, "float32"))
        lv3 = R.sqrt(lv2)
        lv4 = R.expand_dims(lv3, [0, 2])
        lv5 = R.divide(lv1, lv4)
        lv6 = R.expand_dims(gamma, [0, 2])
        lv7 = R.multiply(lv5, lv6)
        lv8 = R.expand_dims(beta, [0, 2])
        lv9 = R.add(lv7, lv8)
        gv = lv9
        R.output(gv)
    return gv


ARGS = spread(arrays(((2, 3, 5), (3,), (3,), (3,), (3,))))


def test_batch_norm_is_taken_apart_for_inference() -> None:
    computes(INFERENCE, normed, *ARGS, after=apart)
    stays(INFERENCE, apart)
    stays(transform.DecomposeOpsForInference("main"), apart)
    other = as_module(normed).merge(IRModule({"other": normed.with_attr("global_symbol", "other")}))
    made = transform.DecomposeOpsForInference("other")(other)
    assert "relax.nn.batch_norm" in operators(made)
    assert "relax.nn.batch_norm" not in operators(made, "other")
    with pytest.raises(ArgumentError, match="'mian' is no graph function"):
        transform.DecomposeOpsForInference("mian")(as_module(normed))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("scale", "center"), [(True, True), (False, True), (True, False)])
def test_norms_are_taken_apart_for_training(training: bool, scale: bool, center: bool) -> None:
    bb = BlockBuilder()
    infos = [TensorStructInfo((2, 3, 5), "float32"), *[TensorStructInfo((3,), "float32")] * 4]
    params = [Var(name, info) for name, info in zip("xgbmv", infos)]
    with bb.function("main", params):
        with bb.dataflow():
            made = bb.emit(op.nn.batch_norm(*params, 1, 1e-3, center, scale, 0.2, training))
            out = bb.emit_output(made)
        bb.emit_func_output(out)
    found = computes(TRAINING, bb.get(), *ARGS)
    assert "relax.nn.batch_norm" not in operators(found)


def test_layer_norm_is_taken_apart_for_training() -> None:
    @R.function
    def graph(x: R.Tensor(("n", 3, 5), "float32"), g: R.Tensor((3, 5), "float32"), b: R.Tensor((3, 5), "float32")):
        y = R.nn.layer_norm(x, g, b, axes=[-2, -1])
        return y

    found = computes(TRAINING, graph, (2, 3, 5), (3, 5), (3, 5))
    assert "relax.nn.layer_norm" not in operators(found)
    stays(INFERENCE, graph)


def convolved(bias: bool, layout: str = "NCHW", training: bool = False, twice: bool = False) -> Any:
    rng = np.random.default_rng(0)
    kernel = "OIHW" if layout == "NCHW" else "HWIO"
    sizes = {"O": 4, "I": 3, "H": 3, "W": 3, "N": 2, "C": 3}
    weight = rng.standard_normal([sizes[letter] for letter in kernel]).astype("float32")
    vectors = [rng.standard_normal(4).astype("float32") for _ in range(3)]
    shape = [8 if letter in "HW" else sizes[letter] for letter in layout]
    bb = BlockBuilder()
    x = Var("x", TensorStructInfo(tuple(shape), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            lv: Any = bb.emit(op.nn.conv2d(x, relax.const(weight), data_layout=layout, kernel_layout=kernel))
            if bias:
                along = (1, 4, 1, 1) if layout == "NCHW" else (4,)
                lv = bb.emit(op.add(lv, relax.const(rng.standard_normal(along).astype("float32"))))
            more = [relax.const(item) for item in (*vectors, np.abs(vectors[0]) + 0.5)]
            made = bb.emit(op.nn.batch_norm(lv, *more, layout.index("C"), training=training))
            first = bb.emit(TupleGetItem(made, 0))
            out = bb.emit_output(op.add(first, lv) if twice else op.nn.relu(first))
        bb.emit_func_output(out)
    return bb.get(), tuple(shape)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("bias", [False, True])
def test_batch_norm_is_folded_into_a_convolution(layout: str, bias: bool) -> None:
    module, shape = convolved(bias, layout)
    found = computes(FOLD, module, shape, rtol=1e-3)
    passes = [transform.LegalizeOps(), transform.FoldConstant(), transform.DeadCodeElimination()]
    assert operators(Sequential(passes)(found)) == ["relax.call_tir"] * 3  # convolution, bias, relu


def test_batch_norm_is_folded_into_short_filters() -> None:
    """The filters are what they were, times the factor, and rounded once."""
    module, shape = convolved(bias=False)
    short = transform.ToMixedPrecision(dtype="bfloat16")(module)
    assert "relax.nn.batch_norm" in operators(short)
    found = FOLD(short)
    assert problems(found) == []
    assert "relax.nn.batch_norm" not in operators(found)
    assert "relax.multiply" not in operators(found)
    x = np.random.default_rng(1).standard_normal(shape).astype("float32")
    same_values(run(found, x), run(module, x), 0.05, 0.05)


def test_batch_norm_that_cannot_be_folded_stays() -> None:
    stays(FOLD, convolved(False, training=True)[0])
    stays(FOLD, convolved(False, twice=True)[0])
    stays(FOLD, normed)


def test_weights_behind_inputs_are_folded() -> None:
    @R.function
    def graph(
        x: R.Tensor((2, 3, 8), "float32"),
        w: R.Tensor((4, 3, 3), "float32"),
        g: R.Tensor((4,), "float32"),
        b: R.Tensor((4,), "float32"),
        m: R.Tensor((4,), "float32"),
        v: R.Tensor((4,), "float32"),
    ):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            lv = R.nn.conv1d(x, w)
            lv1 = R.nn.batch_norm(lv, g, b, m, v, axis=1, training=False)
            gv = lv1[0]
            R.output(gv)
        return gv

    args = spread(arrays(((2, 3, 8), (4, 3, 3), (4,), (4,), (4,), (4,))))
    found = computes(FOLD, graph, *args, rtol=1e-3)
    assert "relax.nn.batch_norm" not in operators(found)
    lifted = transform.LiftTransformParams()(found)
    assert operators(lifted).count("relax.multiply") == 0


@R.function
def layers(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 8), "float32"), b: R.Tensor((8,), "float32")):
    with R.dataflow():
        lv = R.matmul(x, w)
        lv1 = R.add(lv, b)
        lv2 = R.nn.relu(lv1)
        lv3 = R.matmul(lv2, w)
        gv = R.nn.softmax(lv3)
        R.output(gv)
    return gv


@R.function
def mixed(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 8), "float32"), b: R.Tensor((8,), "float32")):
    with R.dataflow():
        lv = R.astype(x, "float16")
        lv1 = R.astype(w, "float16")
        lv2 = R.matmul(lv, lv1, out_dtype="float32")
        lv3 = R.astype(lv2, "float16")
        lv4 = R.astype(b, "float16")
        lv5 = R.add(lv3, lv4)
        lv6 = R.nn.relu(lv5)
        lv7 = R.matmul(lv6, lv1, out_dtype="float32")
        gv = R.nn.softmax(lv7)
        R.output(gv)
    return gv


def test_products_and_what_follows_them_become_short() -> None:
    computes(transform.ToMixedPrecision(), layers, (3, 8), (8, 8), (8,), after=mixed, rtol=2e-2)
    stays(transform.ToMixedPrecision(), as_module(apart))


def test_products_may_be_summed_in_short_numbers() -> None:
    found = computes(transform.ToMixedPrecision("float16"), layers, (3, 8), (8, 8), (8,), rtol=2e-2)
    dtypes = [node.struct_info.dtype for node in walk(found["main"]) if isinstance(node, relax.Call)]
    assert dtypes.count("float32") == 2  # before softmax, and its result


def test_parameters_may_be_short_themselves() -> None:
    made = transform.ToMixedPrecision(fp16_input_names=["w"])(as_module(layers))
    assert [param.struct_info.dtype for param in made["main"].params] == ["float32", "float16", "float32"]
    x, w, b = arrays(((3, 8), (8, 8), (8,)))
    same_values(run(made, x, w.astype("float16"), b), run(as_module(layers), x, w, b), rtol=2e-2, atol=2e-2)
    with pytest.raises(ArgumentError, match="no function has a parameter 'weight'"):
        transform.ToMixedPrecision(fp16_input_names=["weight"])(as_module(layers))
    with pytest.raises(ArgumentError, match="int8 summed in float32"):
        transform.ToMixedPrecision(dtype="int8")(as_module(layers))


def test_bfloat16() -> None:
    made = transform.ToMixedPrecision(dtype="bfloat16")(as_module(layers))
    dtypes = {node.struct_info.dtype for node in walk(made["main"]) if isinstance(node, relax.Call)}
    assert dtypes == {"float32", "bfloat16"}
    machine = relax.VirtualMachine(relax.build(made, "llvm"), tvm.cpu())
    args = arrays(((3, 8), (8, 8), (8,)))
    same_values(machine["main"](*args).numpy(), run(as_module(layers), *args), rtol=5e-2, atol=5e-2)


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_in_mixed_precision(seed: int) -> None:
    graph = random_graph(seed, 14)
    args = [np.abs(arg) * 0.3 if arg.dtype == "float32" else arg for arg in graph.args]
    made = transform.ToMixedPrecision()(graph.module)
    assert relax.analysis.problems(made) == []
    wanted = run(graph.module, *args)
    parts = wanted if isinstance(wanted, tuple) else (wanted,)
    scale = max(1.0, *[float(np.abs(item).max()) for item in parts])
    same_values(run(made, *args), wanted, rtol=5e-2, atol=5e-2 * scale)
