"""Layouts of tensors, before and after: convolutions, what follows them, outputs, tuples, blocks of channels."""

from typing import Any

import pytest

import tunefarm as tvm
from compiler.errors import ArgumentError, IRError
from compiler.relax.analysis import problems
from compiler.relax.interp import run
from tests.kit.compiler.pass_checks import computes, same_values, stays
from tests.kit.compiler.random_images import random_image_graph
from tunefarm import relax, te
from tunefarm.relax import transform
from tunefarm.script import ir as I
from tunefarm.script import relax as R
from tunefarm.script import tir as T

NHWC = {"relax.nn.conv2d": ["NHWC", "OHWI"]}
CONVERT = transform.ConvertLayout(NHWC)


def test_what_follows_a_convolution_lies_as_it_does() -> None:
    @R.function
    def before(
        x: R.Tensor((1, 4, 5, 5), "float32"), w: R.Tensor((4, 4, 3, 3), "float32"), b: R.Tensor((4, 1, 1), "float32")
    ):
        with R.dataflow():
            lv = R.nn.conv2d(x, w)
            lv1 = R.add(lv, b)
            lv2 = R.nn.conv2d(R.nn.relu(lv1), w)
            gv = R.mean(lv2, axis=[2, 3])
            gv1 = R.nn.relu(lv2)
            R.output(gv, gv1)
        return (gv, gv1)

    @R.function
    def after(
        x: R.Tensor((1, 4, 5, 5), "float32"), w: R.Tensor((4, 4, 3, 3), "float32"), b: R.Tensor((4, 1, 1), "float32")
    ):
        with R.dataflow():
            x1 = R.permute_dims(x, [0, 2, 3, 1])
            w1 = R.permute_dims(w, [0, 2, 3, 1])
            lv = R.nn.conv2d(x1, w1, data_layout="NHWC", kernel_layout="OHWI")
            b1 = R.expand_dims(b, [0])
            b2 = R.permute_dims(b1, [0, 2, 3, 1])
            lv1 = R.add(lv, b2)
            relu = R.nn.relu(lv1)
            lv2 = R.nn.conv2d(relu, w1, data_layout="NHWC", kernel_layout="OHWI")
            gv = R.mean(lv2, axis=[1, 2])
            lv3 = R.nn.relu(lv2)
            gv1 = R.permute_dims(lv3, [0, 3, 1, 2])
            R.output(gv, gv1)
        return (gv, gv1)

    computes(CONVERT, before, (1, 4, 5, 5), (4, 4, 3, 3), (4, 1, 1), after=after)
    stays(CONVERT, after)


def test_permutations_that_undo_each_other_go() -> None:
    @R.function
    def before(x: R.Tensor((1, 5, 5, 4), "float32"), w: R.Tensor((3, 3, 4, 2), "float32")):
        with R.dataflow():
            lv = R.permute_dims(x, [0, 3, 1, 2])
            lv1 = R.permute_dims(w, [3, 2, 0, 1])
            lv2 = R.nn.conv2d(lv, lv1)
            gv = R.permute_dims(lv2, [0, 2, 3, 1])
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((1, 5, 5, 4), "float32"), w: R.Tensor((3, 3, 4, 2), "float32")):
        with R.dataflow():
            w1 = R.permute_dims(w, [3, 0, 1, 2])
            lv = R.nn.conv2d(x, w1, data_layout="NHWC", kernel_layout="OHWI")
            gv = lv
            R.output(gv)
        return gv

    computes(CONVERT, before, (1, 5, 5, 4), (3, 3, 4, 2), after=after)


def test_tuples_and_axes_follow() -> None:
    @R.function
    def before(x: R.Tensor((1, 4, 5, 5), "float32"), w: R.Tensor((4, 4, 1, 1), "float32")):
        with R.dataflow():
            lv = R.nn.conv2d(x, w)
            parts = R.split(lv, 2, axis=1)
            first = parts[0]
            second = parts[1]
            both = (second, first)
            gv = R.concat(both, axis=1)
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((1, 4, 5, 5), "float32"), w: R.Tensor((4, 4, 1, 1), "float32")):
        with R.dataflow():
            x1 = R.permute_dims(x, [0, 2, 3, 1])
            w1 = R.permute_dims(w, [0, 2, 3, 1])
            lv = R.nn.conv2d(x1, w1, data_layout="NHWC", kernel_layout="OHWI")
            parts = R.split(lv, 2, axis=3)
            first = parts[0]
            second = parts[1]
            joined = R.concat((second, first), axis=3)
            gv = R.permute_dims(joined, [0, 3, 1, 2])
            R.output(gv)
        return gv

    computes(CONVERT, before, (1, 4, 5, 5), (4, 4, 1, 1), after=after)


def test_blocks_of_channels() -> None:
    @R.function
    def before(x: R.Tensor((1, 8, 5, 5), "float32"), w: R.Tensor((8, 8, 3, 3), "float32")):
        with R.dataflow():
            lv = R.nn.conv2d(x, w)
            lv1 = R.nn.relu(lv)
            gv = R.nn.max_pool2d(lv1, 2)
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((1, 8, 5, 5), "float32"), w: R.Tensor((8, 8, 3, 3), "float32")):
        with R.dataflow():
            x1 = R.layout_transform(x, T.index_map(lambda n, c, h, w: (n, c // 4, h, w, c % 4)))
            w1 = R.layout_transform(w, lambda o, i, h, w: (o // 4, i // 4, h, w, i % 4, o % 4))
            lv = R.nn.conv2d(x1, w1, data_layout="NCHW4c", kernel_layout="OIHW4i4o")
            lv1 = R.nn.relu(lv)
            lv2 = R.nn.max_pool2d(lv1, 2, layout="NCHW4c")
            gv = R.layout_transform(lv2, T.index_map(lambda n, c, h, w, d: (n, c * 4 + d, h, w)))
            R.output(gv)
        return gv

    convert = transform.ConvertLayout({"relax.nn.conv2d": ["NCHW4c", "OIHW4i4o"]})
    computes(convert, before, (1, 8, 5, 5), (8, 8, 3, 3), after=after)


def test_single_calls_are_decided_by_a_function() -> None:
    @R.function
    def two(
        x: R.Tensor((1, 4, 5, 5), "float32"), w: R.Tensor((4, 4, 1, 1), "float32"), v: R.Tensor((6, 4, 1, 1), "float32")
    ):
        with R.dataflow():
            lv = R.nn.conv2d(x, w)
            gv = R.nn.conv2d(lv, v)
            R.output(gv)
        return gv

    def wide(call: Any) -> Any:
        return NHWC if call.args[1].struct_info.dims[0].value == 6 else None

    text = transform.ConvertLayout({}, wide)(_module(two)).script()
    assert text.count('data_layout="NCHW"') == text.count('data_layout="NHWC"') == 1
    with pytest.raises(ArgumentError, match=r"no operator 'relax\.nn\.conv'"):
        transform.ConvertLayout({"relax.nn.conv": ["NHWC"]})(_module(two))
    with pytest.raises(IRError, match="'NHWX' does not fit"):
        transform.ConvertLayout({"relax.nn.conv2d": ["NHWX"]})(_module(two))


def _module(func: Any) -> Any:
    return tvm.IRModule({"main": func.with_attr("global_symbol", "main")})


LAYOUTS = [["NHWC", "OHWI"], ["NHWC", "HWIO"], ["NCHW4c", "OIHW4o"], ["NHWC", "OIHW", "NCHW"]]


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_compute_what_they_did(seed: int) -> None:
    graph = random_image_graph(seed)
    made = transform.ConvertLayout({"relax.nn.conv2d": LAYOUTS[seed % len(LAYOUTS)]})(graph.module)
    assert problems(made) == []
    same_values(run(made, *graph.args), run(graph.module, *graph.args))


# ------------------------------------------------------------------- other kernels, moves in a row


@I.ir_module
class Plain:
    @T.prim_func(private=True)
    def double(A: T.Buffer((T.int64(8), T.int64(3)), "float32"), B: T.Buffer((T.int64(8), T.int64(3)), "float32")):
        T.func_attr({"operator_name": "test.double"})
        for i, j in T.grid(T.int64(8), T.int64(3)):
            with T.block("B"):
                v, w = T.axis.remap("SS", [i, j])
                B[v, w] = A[v, w] * T.float32(2)

    @R.function
    def main(x: R.Tensor((8, 3), "float32")):
        cls = Plain
        with R.dataflow():
            lv = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((8, 3), "float32"))
            gv = R.call_tir(cls.double, (lv,), out_sinfo=R.Tensor((8, 3), "float32"))
            R.output(gv)
        return gv


def blocked(rows: int) -> Any:
    """Doubles 4 rows at a time."""
    outer = -(-rows // 4)

    @T.prim_func(private=True)
    def kernel(
        A: T.Buffer((T.int64(outer), T.int64(3), T.int64(4)), "float32"),
        B: T.Buffer((T.int64(outer), T.int64(3), T.int64(4)), "float32"),
    ):
        for i, j, k in T.grid(T.int64(outer), T.int64(3), T.int64(4)):
            with T.block("B"):
                u, v, w = T.axis.remap("SSS", [i, j, k])
                B[u, v, w] = A[u, v, w] * T.float32(2)

    return kernel


ROWS_OF_4 = lambda i, j: (i // 4, j, i % 4)  # noqa: E731


def test_kernels_are_replaced_and_what_is_moved_there_and_back_stays() -> None:
    alter = transform.AlterOpImpl({"test.double": blocked(8)}, {"test.double": [ROWS_OF_4, ROWS_OF_4]})
    altered = computes(alter, Plain, (8, 3))
    moves = altered.script().count("R.layout_transform")
    assert (moves, "double_altered" in altered.script()) == (4, True)
    less = computes(transform.OptimizeLayoutTransform(), altered, (8, 3))
    assert less.script().count("R.layout_transform") == 2


def test_kernels_of_padded_arrays() -> None:
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((10, 3), "float32"))  # type: ignore[arg-type]
    with bb.function("main", [x]):
        twice = lambda a: te.compute(a.shape, lambda *at: a(*at) * 2.0)  # noqa: E731
        bb.emit_func_output(bb.emit_te(twice, x, primfunc_attrs={"operator_name": "test.double"}))
    mod = bb.get()
    alter = transform.AlterOpImpl({"test.double": blocked(10)}, {"test.double": [ROWS_OF_4, ROWS_OF_4]})
    made = computes(alter, mod, (10, 3))
    assert "R.strided_slice" in made.script()
    with pytest.raises(ArgumentError, match=r"has 1 maps for .*, whose kernel has 2 arrays"):
        transform.AlterOpImpl({"test.double": blocked(8)}, {"test.double": [None]})(Plain)
    with pytest.raises(ArgumentError, match="op_buffer_axis_separators must be empty"):
        transform.AlterOpImpl({}, {}, {"test.double": [[1]]}, {})(Plain)


def test_moves_in_a_row_become_one_or_none() -> None:
    @R.function
    def before(x: R.Tensor((8, 3), "float32")):
        with R.dataflow():
            lv = R.layout_transform(x, lambda i, j: (i // 4, j, i % 4))
            lv1 = R.layout_transform(lv, lambda i, j, k: (i * 4 + k, j))
            lv2 = R.layout_transform(lv, lambda i, j, k: (k, j, i))
            gv = R.exp(lv1)
            R.output(gv, lv2)
        return (gv, lv2)

    @R.function
    def after(x: R.Tensor((8, 3), "float32")):
        with R.dataflow():
            lv1 = x
            lv2 = R.layout_transform(x, lambda i, j: (i % 4, j, i // 4))
            gv = R.exp(lv1)
            R.output(gv, lv2)
        return (gv, lv2)

    @R.function
    def padded(x: R.Tensor((10, 3), "float32")):
        with R.dataflow():
            lv = R.layout_transform(x, lambda i, j: (i // 4, j, i % 4), pad_value=1.0)
            gv = R.layout_transform(lv, lambda i, j, k: (i * 4 + k, j))
            R.output(gv)
        return gv

    computes(transform.OptimizeLayoutTransform(), before, (8, 3), after=after)
    stays(transform.OptimizeLayoutTransform(), padded)
