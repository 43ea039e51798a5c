"""Divisions by powers of two are multiplications with the same results, down to the last bit."""

import numpy as np
import pytest

from compiler.relax.interp import run
from compiler.runtime.core.ndarray import array
from tests.kit.compiler.pass_checks import as_module, stays
from tunefarm import relax
from tunefarm.ir.module import IRModule
from tunefarm.relax import transform
from tunefarm.script import relax as R

PASS = transform.MultiplyByReciprocals()
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -3e-39, 3.4e38, 65504.0, 6e-8]


def divided(divisor: np.ndarray, dtype: str, cast: bool = False) -> IRModule:
    """x / divisor, a constant of `dtype`, or one of float32 that is cast."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((37,), dtype))
    held = relax.const(divisor, "float32" if cast else dtype)
    with builder.function("main", [x]):
        with builder.dataflow():
            by = builder.emit(relax.op.astype(held, dtype)) if cast else held
            out = builder.emit_output(relax.op.divide(x, by))
        builder.emit_func_output(out)
    return builder.get()


@pytest.mark.parametrize("cast", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("divisor", [8.0, -0.25, 2.0**-14, [2.0, 4.0, -1.0, 0.5] * 9 + [1.0]], ids=str)
def test_results_are_equal_to_the_last_bit(divisor: float | list[float], dtype: str, cast: bool) -> None:
    module = divided(np.array(divisor), dtype, cast)
    made = PASS(module)
    assert "R.multiply" in made.script()
    assert "R.divide" not in made.script()
    rng = np.random.default_rng(5)
    numbers = np.concatenate([SPECIAL, rng.standard_normal(27) * 10.0 ** rng.integers(-6, 6, 27)])
    with np.errstate(all="ignore"):
        x = array(numbers.astype("float32"), dtype=dtype) if dtype == "bfloat16" else numbers.astype(dtype)
        before, after = (run(one, x) for one in (module, made))
    assert np.asarray(before).tobytes() == np.asarray(after).tobytes()


@pytest.mark.parametrize("divisor", [3.0, 0.0, 2.0**15, [2.0] * 36 + [6.0]], ids=str)
def test_other_divisions_stay(divisor: float | list[float]) -> None:
    stays(PASS, divided(np.array(divisor), "float32"))


def test_whole_numbers_and_unknown_divisors_stay() -> None:
    @R.function
    def graph(x: R.Tensor((4,), "int32"), y: R.Tensor((4,), "float32")):
        with R.dataflow():
            lv = R.divide(x, R.const(2, "int32"))
            lv1 = R.astype(lv, "float32")
            gv = R.divide(lv1, y)
            R.output(gv)
        return gv

    stays(PASS, as_module(graph))
