"""Products of short numbers are computed of float32 on CPUs without a faster way, with the same results."""

import numpy as np
import pytest

from compiler.relax.interp import run
from compiler.target.cpu_features import multiplies_pairs_fast
from compiler.target.target import Target
from tests.kit.compiler.pass_checks import as_module, becomes, same_values, stays
from tunefarm import relax
from tunefarm.relax import transform
from tunefarm.script import relax as R

PASS = transform.WidenProducts()


def _target(cpu: str, attributes: str = "") -> Target:
    return Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}" + (f" -mattr={attributes}" if attributes else ""))


SLOW = _target("sapphirerapids", "-amx-tile")


@R.function
def product(x: R.Tensor((64, 64), "float32"), y: R.Tensor((64, 32), "float32")):
    with R.dataflow():
        lv = R.astype(R.nn.relu(x), "bfloat16")
        lv1 = R.astype(R.nn.relu(y), "bfloat16")
        gv = R.matmul(lv, lv1, out_dtype="float32")
        R.output(gv)
    return gv


@R.function
def widened(x: R.Tensor((64, 64), "float32"), y: R.Tensor((64, 32), "float32")):
    with R.dataflow():
        lv = R.astype(R.nn.relu(x), "bfloat16")
        lv1 = R.astype(R.nn.relu(y), "bfloat16")
        lv2 = R.astype(lv, "float32")
        lv3 = R.astype(lv1, "float32")
        gv = R.matmul(lv2, lv3, out_dtype="float32")
        R.output(gv)
    return gv


@pytest.mark.parametrize(
    ("cpu", "attributes", "fast"),
    [("znver4", "", True), ("emeraldrapids", "", True), ("emeraldrapids", "-amx-tile", False), ("znver3", "", False)],
)
def test_bfloat16_is_multiplied_in_pairs_or_tiles_where_that_is_faster(cpu: str, attributes: str, fast: bool) -> None:
    target = _target(cpu, attributes)
    assert multiplies_pairs_fast(target.mcpu, target.features) is (cpu == "znver4")
    with target:
        stays(PASS, product) if fast else becomes(PASS, product, widened)


@pytest.mark.parametrize(
    ("channels", "filters", "width", "groups", "in_tiles"),
    [
        (32, 16, 14, 1, True), (64, 48, 7, 1, True), (3, 16, 14, 1, False), (32, 24, 14, 1, False),
        (32, 16, 13, 1, True), (32, 16, 2, 1, False), (64, 32, 14, 2, False),
    ],
)  # fmt: skip
def test_convolutions_are_widened_but_for_whole_tiles(
    channels: int, filters: int, width: int, groups: int, in_tiles: bool
) -> None:
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((1, channels, 4, width), "float32"))  # type: ignore[arg-type]
    w = relax.Var("w", relax.TensorStructInfo((filters, channels // groups, 3, 3), "float32"))  # type: ignore[arg-type]
    with bb.function("main", [x, w]):
        with bb.dataflow():
            short = [bb.emit(relax.op.astype(relax.op.nn.relu(value), "bfloat16")) for value in (x, w)]
            out = bb.emit_output(relax.op.nn.conv2d(*short, padding=1, groups=groups, out_dtype="float32"))
        bb.emit_func_output(out)
    mod = bb.get()
    args = [np.random.default_rng(0).uniform(-1, 1, shape).astype("float32") for shape in
            ((1, channels, 4, width), (filters, channels // groups, 3, 3))]  # fmt: skip
    with _target("emeraldrapids"):
        made = PASS(mod)
    assert (made is mod or str(made) == str(mod)) == in_tiles
    same_values(run(made, *args), run(mod, *args), rtol=1e-3, atol=1e-3)
    with _target("znver4"):
        stays(PASS, mod)


@pytest.mark.parametrize(("width", "in_tiles"), [(14, True), (13, False)])
def test_first_convolutions_stay_where_zeros_make_whole_tiles_of_their_filters(width: int, in_tiles: bool) -> None:
    rng = np.random.default_rng(width)
    image = relax.Var("x", R.Tensor((1, 3, 4, width), "float32"))
    filters = relax.const(rng.standard_normal((16, 3, 3, 3)).astype("float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [image]):
        with builder.dataflow():
            short = [builder.emit(relax.op.astype(value, "bfloat16")) for value in (relax.op.nn.relu(image), filters)]
            out = builder.emit_output(relax.op.nn.conv2d(*short, padding=1, out_dtype="float32"))
        builder.emit_func_output(out)
    module = builder.get()
    with _target("emeraldrapids"):
        made = PASS(module)
    assert (str(made) == str(module)) == in_tiles
    x = rng.standard_normal((1, 3, 4, width)).astype("float32")
    same_values(run(made, x), run(module, x), 1e-3, 1e-3)


def test_graphs_for_no_target_and_for_gpus_stay() -> None:
    stays(PASS, product)
    with Target("cuda"):
        stays(PASS, product)


def test_products_of_few_rows_and_of_parameters_stay() -> None:
    """Weights take longer to come from memory than to be widened, or would be widened at each call."""

    @R.function
    def few(x: R.Tensor((4, 48), "float32"), y: R.Tensor((48, 32), "float32")):
        with R.dataflow():
            lv = R.astype(R.nn.relu(x), "bfloat16")
            lv1 = R.astype(R.nn.relu(y), "bfloat16")
            gv = R.matmul(lv, lv1, out_dtype="float32")
            R.output(gv)
        return gv

    @R.function
    def given(x: R.Tensor((64, 48), "float32"), y: R.Tensor((48, 32), "bfloat16"), z: R.Tensor((48, 32), "float32")):
        with R.dataflow():
            lv = R.astype(R.nn.relu(x), "bfloat16")
            lv1 = R.matmul(lv, y, out_dtype="float32")
            lv2 = R.astype(z, "bfloat16")
            lv3 = R.matmul(lv, lv2, out_dtype="float32")
            gv = R.add(lv1, lv3)
            R.output(gv)
        return gv

    @R.function
    def summed_short(x: R.Tensor((64, 48), "float16"), y: R.Tensor((48, 32), "float16")):
        return R.matmul(R.nn.relu(x), R.nn.relu(y))

    with SLOW:
        for graph in (few, given, summed_short):
            stays(PASS, graph)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("rows", [33, 57])
def test_results_of_a_network_are_the_same(rows: int, dtype: str) -> None:
    """A convolution and a product with constants, as `ToMixedPrecision` makes them."""
    rng = np.random.default_rng(rows)
    filters, weights = (relax.const(rng.standard_normal(s).astype("float32")) for s in ((4, 3, 3, 3), (8, 16)))
    image = relax.Var("x", R.Tensor((1, 3, rows, 8), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [image]):
        with builder.dataflow():
            seen = builder.emit(relax.op.nn.relu(relax.op.nn.conv2d(image, filters, padding=(1, 1))))
            out = builder.emit_output(relax.op.matmul(seen, weights))
        builder.emit_func_output(out)
    short = transform.ToMixedPrecision(dtype=dtype)(builder.get())
    with SLOW:
        made = PASS(short)
    assert f'"{dtype}"' in made.script()
    assert made.script().count('"float32")') > short.script().count('"float32")')
    x = rng.standard_normal((1, 3, rows, 8)).astype("float32")
    same_values(run(made, x), run(as_module(short), x), 1e-2, 1e-2)
