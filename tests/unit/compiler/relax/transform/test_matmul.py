"""Products of matrices, before and after."""

from typing import Any

import numpy as np
import pytest

from tests.kit.compiler.pass_checks import as_module, becomes, computes, stays
from tunefarm.relax import transform
from tunefarm.script import relax as R

ADJUST = transform.AdjustMatmulOrder()
COMBINE = transform.CombineParallelMatmul()


@R.function
def small_last(x: R.Tensor(("n", 64), "float32"), a: R.Tensor((64, 2), "float32"), b: R.Tensor((2, 64), "float32")):
    with R.dataflow():
        lv = R.matmul(a, b)
        gv = R.matmul(x, lv)
        R.output(gv)
    return gv


@R.function
def small_first(x: R.Tensor(("n", 64), "float32"), a: R.Tensor((64, 2), "float32"), b: R.Tensor((2, 64), "float32")):
    with R.dataflow():
        lv = R.matmul(x, a)
        gv = R.matmul(lv, b)
        R.output(gv)
    return gv


def test_the_cheaper_order_of_three_factors_is_taken() -> None:
    computes(ADJUST, small_last, (3, 64), (64, 2), (2, 64), after=small_first)
    stays(ADJUST, small_first)


def test_weights_are_multiplied_with_each_other() -> None:
    stays(ADJUST, small_last.with_attr("num_input", 1))
    becomes(ADJUST, small_first.with_attr("num_input", 1), small_last.with_attr("num_input", 1))


def test_a_transposed_inner_product_is_taken_apart() -> None:
    @R.function
    def before(x: R.Tensor((3, 64), "float32"), a: R.Tensor((64, 2), "float32"), b: R.Tensor((2, 64), "float32")):
        with R.dataflow():
            lv = R.matmul(a, b)
            lv1 = R.permute_dims(lv)
            gv = R.matmul(x, lv1)
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((3, 64), "float32"), a: R.Tensor((64, 2), "float32"), b: R.Tensor((2, 64), "float32")):
        with R.dataflow():
            lv = R.permute_dims(b)
            lv1 = R.matmul(x, lv)
            lv2 = R.permute_dims(a)
            gv = R.matmul(lv1, lv2)
            R.output(gv)
        return gv

    computes(ADJUST, before, (3, 64), (64, 2), (2, 64), after=after)


def test_what_cannot_be_compared_stays() -> None:
    @R.function
    def graph(
        x: R.Tensor(("n", "k"), "float32"), a: R.Tensor(("k", "r"), "float32"), b: R.Tensor(("r", 64), "float32")
    ):
        with R.dataflow():
            lv = R.matmul(a, b)
            gv = R.matmul(x, lv)
            R.output(gv)
        return gv

    stays(ADJUST, graph)


@R.function
def of_sum(x: R.Tensor(("n", 16), "float32"), a: R.Tensor((16, 8), "float32"), b: R.Tensor((16, 8), "float32")):
    with R.dataflow():
        lv = R.add(a, b)
        gv = R.matmul(x, lv)
        R.output(gv)
    return gv


def test_a_product_with_a_sum_becomes_a_sum_of_products() -> None:
    @R.function
    def after(x: R.Tensor(("n", 16), "float32"), a: R.Tensor((16, 8), "float32"), b: R.Tensor((16, 8), "float32")):
        with R.dataflow():
            lv = R.matmul(x, a)
            lv1 = R.matmul(x, b)
            gv = R.add(lv, lv1)
            R.output(gv)
        return gv

    expand = transform.ExpandMatmulOfSum()
    computes(expand, of_sum, (3, 16), (16, 8), (16, 8), after=after)
    stays(expand, of_sum.with_attr("num_input", 1))

    @R.function
    def broadcast(x: R.Tensor(("n", 16), "float32"), a: R.Tensor((16, 8), "float32"), b: R.Tensor((8,), "float32")):
        with R.dataflow():
            lv = R.add(a, b)
            gv = R.matmul(x, lv)
            R.output(gv)
        return gv

    stays(expand, broadcast)


def test_permuted_tensors_are_put_together_first() -> None:
    @R.function
    def before(a: R.Tensor((8, 16), "float32"), b: R.Tensor((4, 16), "float32")):
        with R.dataflow():
            lv = R.permute_dims(a)
            lv1 = R.permute_dims(b)
            gv = R.concat((lv, lv1), axis=1)
            R.output(gv)
        return gv

    @R.function
    def after(a: R.Tensor((8, 16), "float32"), b: R.Tensor((4, 16), "float32")):
        with R.dataflow():
            lv = R.concat((a, b), axis=0)
            gv = R.permute_dims(lv, axes=[1, 0])
            R.output(gv)
        return gv

    reorder = transform.ReorderPermuteDimsAfterConcat()
    computes(reorder, before, (8, 16), (4, 16), after=after)
    stays(reorder, after)


def test_columns_are_chosen_after_the_product() -> None:
    @R.function
    def before(x: R.Tensor(("b", 16), "float32"), w: R.Tensor((16, 9), "float32"), i: R.Tensor((4,), "int32")):
        with R.dataflow():
            lv = R.take(w, i, axis=1)
            gv = R.matmul(x, lv)
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor(("b", 16), "float32"), w: R.Tensor((16, 9), "float32"), i: R.Tensor((4,), "int32")):
        with R.dataflow():
            lv = R.matmul(x, w)
            gv = R.take(lv, i, axis=1)
            R.output(gv)
        return gv

    reorder = transform.ReorderTakeAfterMatmul()
    computes(reorder, before, (3, 16), (16, 9), np.array([8, 0, 0, 5], "int32"), after=after)


def test_a_matrix_for_each_example_is_chosen_after_the_product() -> None:
    @R.function
    def before(x: R.Tensor(("b", "r", 8), "float32"), w: R.Tensor((5, 8, 3), "float32"), i: R.Tensor(("b",), "int32")):
        with R.dataflow():
            lv = R.take(w, i, axis=0)
            gv = R.matmul(x, lv)
            R.output(gv)
        return gv

    found = computes(transform.ReorderTakeAfterMatmul(), before, (3, 2, 8), (5, 8, 3), np.array([4, 0, 2], "int32"))
    assert "R.matmul(x, lv2" in found["main"].script()


@R.function
def parallel(
    x: R.Tensor(("n", 16), "float32"),
    a: R.Tensor((16, 8), "float32"),
    b: R.Tensor((16, 4), "float32"),
    c: R.Tensor((8,), "float32"),
    d: R.Tensor((4,), "float32"),
):
    with R.dataflow():
        lv = R.matmul(x, a)
        lv1 = R.add(lv, c)
        gv = R.nn.relu(lv1)
        lv2 = R.matmul(x, b)
        lv3 = R.add(lv2, d)
        gv1 = R.nn.relu(lv3)
        R.output(gv, gv1)
    return (gv, gv1)


@R.function
def together(
    x: R.Tensor(("n", 16), "float32"),
    a: R.Tensor((16, 8), "float32"),
    b: R.Tensor((16, 4), "float32"),
    c: R.Tensor((8,), "float32"),
    d: R.Tensor((4,), "float32"),
):
    with R.dataflow():
        lv = R.concat((a, b), axis=1)
        lv1 = R.matmul(x, lv)
        lv2 = R.concat((c, d), axis=0)
        lv3 = R.add(lv1, lv2)
        lv4 = R.nn.relu(lv3)
        lv5 = R.split(lv4, indices_or_sections=[8], axis=-1)
        gv = lv5[0]
        gv1 = lv5[1]
        R.output(gv, gv1)
    return (gv, gv1)


def test_products_of_one_value_become_one() -> None:
    computes(COMBINE, parallel, (3, 16), (16, 8), (16, 4), (8,), (4,), after=together)
    stays(COMBINE, together)


@R.function
def narrowed(
    x: R.Tensor(("n", 16), "float16"),
    a: R.Tensor((16, 8), "float16"),
    b: R.Tensor((16, 4), "float16"),
    c: R.Tensor((8,), "float16"),
    d: R.Tensor((4,), "float16"),
):
    with R.dataflow():
        lv = R.matmul(x, a, out_dtype="float32")
        lv1 = R.astype(lv, "float16")
        gv = R.add(lv1, c)
        lv2 = R.matmul(x, b, out_dtype="float32")
        lv3 = R.astype(lv2, "float16")
        gv1 = R.add(lv3, d)
        R.output(gv, gv1)
    return (gv, gv1)


@R.function
def narrowed_together(
    x: R.Tensor(("n", 16), "float16"),
    a: R.Tensor((16, 8), "float16"),
    b: R.Tensor((16, 4), "float16"),
    c: R.Tensor((8,), "float16"),
    d: R.Tensor((4,), "float16"),
):
    with R.dataflow():
        lv = R.concat((a, b), axis=1)
        lv1 = R.matmul(x, lv, out_dtype="float32")
        lv2 = R.astype(lv1, "float16")
        lv3 = R.concat((c, d), axis=0)
        lv4 = R.add(lv2, lv3)
        lv5 = R.split(lv4, indices_or_sections=[8], axis=-1)
        gv = lv5[0]
        gv1 = lv5[1]
        R.output(gv, gv1)
    return (gv, gv1)


def test_what_is_cast_is_cut_after_the_cast() -> None:
    """Mixed precision casts products before their biases are added."""
    arrays = [np.ones(shape, "float16") for shape in ((3, 16), (16, 8), (16, 4), (8,), (4,))]
    computes(COMBINE, narrowed, *arrays, after=narrowed_together)
    stays(COMBINE, narrowed_together)


def test_different_casts_are_made_after_the_cut() -> None:
    @R.function
    def before(x: R.Tensor((3, 16), "float32"), a: R.Tensor((16, 8), "float32"), b: R.Tensor((16, 4), "float32")):
        with R.dataflow():
            lv = R.matmul(x, a)
            gv = R.astype(lv, "float16")
            lv1 = R.matmul(x, b)
            gv1 = R.astype(lv1, "float64")
            R.output(gv, gv1)
        return (gv, gv1)

    made = computes(COMBINE, before, (3, 16), (16, 8), (16, 4))
    text = made["main"].script()
    assert text.index("R.split") < text.index("R.astype")
    assert text.count("R.matmul") == 1


def test_the_check_sees_what_would_be_combined() -> None:
    seen: list[Any] = []

    def refuse(value: Any, matrices: Any, biases: Any, bindings: Any) -> bool:
        seen.append(([var.name_hint for var in (value, *matrices, *biases)], len(bindings)))
        return False

    stays(transform.CombineParallelMatmul(refuse), parallel)
    assert seen == [(["x", "a", "b", "c", "d"], 6)]


def test_products_that_follow_from_each_other_stay_apart() -> None:
    @R.function
    def graph(x: R.Tensor((16, 16), "float32"), a: R.Tensor((16, 16), "float32")):
        with R.dataflow():
            lv = R.matmul(x, a)
            lv1 = R.matmul(x, lv)
            lv2 = R.matmul(lv, a)
            gv = R.add(lv1, lv2)
            R.output(gv)
        return gv

    stays(COMBINE, graph)


@pytest.mark.parametrize("seed", range(6))
def test_products_among_others_are_combined_rightly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines = ["lv0 = R.nn.relu(x)"]
    for index in range(1, 9):
        source = f"lv{rng.integers(index)}"
        kind = rng.integers(5)
        weight = f"w{rng.integers(3)}"
        other = f"lv{rng.integers(index)}"
        values = [f"R.matmul({source}, {weight})", f"R.matmul({source}, R.permute_dims({weight}))"]
        values += [f"R.add({source}, b)", f"R.add({source}, {other})", f'R.astype({source}, "float32")']
        lines.append(f"lv{index} = {values[kind]}")
    body = "\n        ".join(lines)
    weights = ", ".join(f"w{i}: R.Tensor((8, 8), 'float32')" for i in range(3))
    text = f"""
from tvm.script import relax as R

@R.function
def main(x: R.Tensor(("n", 8), "float32"), {weights}, b: R.Tensor((8,), "float32")):
    with R.dataflow():
        {body}
        gv = R.add(lv7, lv8)
        R.output(gv)
    return gv
"""
    from tunefarm.script import from_source

    graph = as_module(from_source(text))
    for name in ("CombineParallelMatmul", "AdjustMatmulOrder", "ExpandMatmulOfSum"):
        computes(getattr(transform, name)(), graph, (3, 8), (8, 8), (8, 8), (8, 8), (8,), rtol=1e-3)


def test_products_read_transposed_matrices_as_they_lie() -> None:
    @R.function
    def before(x: R.Tensor((2, 3, 8), "float32"), w: R.Tensor((4, 8), "float32"), v: R.Tensor((8, 8), "float32")):
        with R.dataflow():
            lv = R.permute_dims(w, [1, 0])
            lv1 = R.matmul(x, lv)
            kept = R.permute_dims(v)
            lv2 = R.matmul(x, kept)
            gv = (lv1, lv2, kept)
            R.output(gv)
        return gv

    made = computes(transform.FuseTransposeMatmul(), before, (2, 3, 8), (4, 8), (8, 8))
    text = made.script()
    assert [text.count(name) for name in ("R.permute_dims", "R.matmul", "R.call_tir")] == [1, 1, 1]
