"""Convolutions of bytes and bfloat16 lie with channels last for CPUs that multiply groups of them, and no others."""

import numpy as np
import pytest

from compiler.ir.module import IRModule
from compiler.relax.interp import run
from compiler.runtime.core.ndarray import array
from compiler.target.target import Target
from tests.kit.compiler.pass_checks import as_module, becomes, same_values, stays
from tunefarm import relax
from tunefarm.relax import transform
from tunefarm.script import relax as R

VNNI, AVX2, AMX = (
    Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}") for cpu in ("znver4", "znver3", "sapphirerapids")
)
PASS = transform.ChannelsLastNarrow()


@R.function
def quantised(
    x: R.Tensor((1, 8, 6, 6), "uint8"), w: R.Tensor((4, 8, 3, 3), "int8"), b: R.Tensor((1, 4, 1, 1), "int32")
):
    with R.dataflow():
        lv = R.nn.conv2d(x, w, padding=[1, 1], out_dtype="int32")
        lv1 = R.add(lv, b)
        gv = R.astype(lv1, "float32")
        R.output(gv)
    return gv


@R.function
def channels_last(
    x: R.Tensor((1, 8, 6, 6), "uint8"), w: R.Tensor((4, 8, 3, 3), "int8"), b: R.Tensor((1, 4, 1, 1), "int32")
):
    with R.dataflow():
        lv = R.permute_dims(x, [0, 2, 3, 1])
        lv1 = R.permute_dims(w, [2, 3, 1, 0])
        lv2 = R.nn.conv2d(lv, lv1, padding=[1, 1], data_layout="NHWC", kernel_layout="HWIO", out_dtype="int32")
        lv3 = R.permute_dims(b, [0, 2, 3, 1])
        lv4 = R.add(lv2, lv3)
        lv5 = R.astype(lv4, "float32")
        gv = R.permute_dims(lv5, [0, 3, 1, 2])
        R.output(gv)
    return gv


def test_where_there_is_an_instruction_for_groups_channels_come_last() -> None:
    with VNNI:
        becomes(PASS, quantised, channels_last)
        stays(PASS, channels_last)


def test_bfloat16_lies_with_channels_last_where_it_has_an_instruction() -> None:
    @R.function
    def graph(x: R.Tensor((1, 3, 6, 6), "bfloat16"), w: R.Tensor((4, 3, 3, 3), "bfloat16")):
        with R.dataflow():
            lv = R.nn.conv2d(x, w, out_dtype="float32")
            gv = R.nn.relu(lv)
            R.output(gv)
        return gv

    with VNNI:
        assert 'data_layout="NHWC"' in PASS(as_module(graph)).script()
    with Target("llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake"):  # integers only
        stays(PASS, graph)


@pytest.mark.parametrize("target", [AVX2, Target("cuda")], ids=str)
def test_other_targets_keep_graphs_as_they_are(target: Target) -> None:
    with target:
        stays(PASS, quantised)
    stays(PASS, quantised)


def around(
    image: relax.Var, filters: relax.Constant, attrs: dict[str, object], before: tuple[int, ...] = ()
) -> IRModule:
    """A convolution of an image, which `before` pads, and relu."""
    builder = relax.BlockBuilder()
    with builder.function("main", [image]):
        with builder.dataflow():
            padded = builder.emit(relax.op.nn.pad(image, before, "constant", 9)) if before else image
            sums = builder.emit(relax.op.nn.conv2d(padded, filters, out_dtype="int32", **attrs))
            out = builder.emit_output(relax.op.nn.relu(sums))
        builder.emit_func_output(out)
    return builder.get()


@pytest.mark.parametrize(
    ("channels", "groups", "columns", "by_rows"),
    [
        (3, 1, 3, True),
        (3, 1, 4, True),
        (3, 1, 1, False),
        (4, 1, 3, False),
        (6, 2, 3, False),
        (8, 8, 3, False),
        (5, 1, 6, True),
    ],
)
def test_results_are_the_same_for_all_numbers_of_channels(
    channels: int, groups: int, columns: int, by_rows: bool
) -> None:
    """Groups along filters' rows are filled where channels fill none, unless they would be more."""
    rng = np.random.default_rng(channels)
    filters = relax.const(rng.integers(-128, 128, (8, channels // groups, 3, columns)).astype("int8"))
    image = relax.Var("x", R.Tensor((1, channels, 7, 5), "uint8"))
    module = around(image, filters, {"strides": (2, 1), "padding": (1, 1), "groups": groups})
    with VNNI:
        made = PASS(module)
    text = made.script()
    assert ('data_layout="NHWC"' in text) == (not by_rows)
    assert ("R.nn.pad(" in text) == (groups == 1 and (columns % 4 != 0 if by_rows else channels % 4 != 0))
    x = rng.integers(0, 256, (1, channels, 7, 5)).astype("uint8")
    same_values(run(made, x), run(as_module(module), x), 0, 0)


def test_an_image_that_is_padded_is_padded_once() -> None:
    rng = np.random.default_rng(0)
    filters = relax.const(rng.integers(-128, 128, (8, 3, 7, 7)).astype("int8"))
    image = relax.Var("x", R.Tensor((1, 3, 12, 12), "uint8"))
    module = around(image, filters, {"strides": (2, 2)}, (0, 0, 0, 0, 3, 3, 3, 3))
    with VNNI:
        made = PASS(module)
    text = made.script()
    assert text.count("R.nn.pad(") == 2  # the filters, too
    assert "(1, 3, 18, 19)" in text
    assert "R.permute_dims(x" not in text
    x = rng.integers(0, 256, (1, 3, 12, 12)).astype("uint8")
    same_values(run(made, x), run(as_module(module), x), 0, 0)


@pytest.mark.parametrize(
    ("filters", "size", "columns"), [(16, 14, 32), (16, 13, 4), (8, 14, 4)], ids=["tiles", "odd rows", "few filters"]
)
def test_rows_of_filters_fill_tiles_where_there_are_some(filters: int, size: int, columns: int) -> None:
    """First convolutions of bfloat16 are products of tiles on CPUs with AMX, if results make whole tiles."""
    rng = np.random.default_rng(size)
    weights = relax.const(rng.integers(-8, 9, (filters, 3, 3, 3)).astype("float32"), "bfloat16")
    image = relax.Var("x", R.Tensor((1, 3, size, size), "bfloat16"))
    builder = relax.BlockBuilder()
    with builder.function("main", [image]):
        with builder.dataflow():
            sums = builder.emit(relax.op.nn.conv2d(image, weights, padding=(1, 1), out_dtype="float32"))
            out = builder.emit_output(relax.op.nn.relu(sums))
        builder.emit_func_output(out)
    module = builder.get()
    with AMX:
        made = PASS(module)
    assert f"R.Tensor(({filters}, 3, 3, {columns})" in made.script()
    x = array(rng.integers(-8, 9, (1, 3, size, size)).astype("float32"), dtype="bfloat16")
    same_values(run(made, x), run(as_module(module), x), 0, 0)


def test_unknown_filters_are_not_filled() -> None:
    @R.function
    def graph(x: R.Tensor((1, 3, 6, 6), "uint8"), w: R.Tensor((4, 3, 3, 3), "int8")):
        with R.dataflow():
            lv = R.nn.conv2d(x, w, out_dtype="int32")
            gv = R.nn.relu(lv)
            R.output(gv)
        return gv

    with VNNI:
        text = PASS(as_module(graph)).script()
    assert 'data_layout="NHWC"' in text
    assert "R.nn.pad(" not in text
