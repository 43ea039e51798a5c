"""Rows set apart in memory as a stage asks for it."""

import numpy as np
import pytest

from compiler.driver.build import build, lower
from compiler.driver.pipeline import lower_func
from compiler.interp import interpreter as interp
from compiler.runtime.core.ndarray import array
from compiler.te.schedule.replay import schedule_to_func
from tests.kit.compiler.schedules.te_primitives import rows


@pytest.mark.parametrize(
    ("factor", "offset", "allocated", "index"),
    [
        (8, 1, 20 * 25 + 18, "i * 25 + j"),  # 18 is no multiple of 8 plus 1: 25 is the next
        (2, 0, 20 * 18 + 18, "i * 18 + j"),  # is one already
        (32, 1, 20 * 33 + 18, "i * 33 + j"),
    ],
)
def test_rows_are_a_multiple_plus_the_offset_apart(factor: int, offset: int, allocated: int, index: str) -> None:
    s, (a, b, c) = rows()
    s[b].storage_align(b.op.axis[0], factor, offset)
    text = lower(s, [a, c], simple_mode=True).script()
    assert f"T.allocate([{allocated}]" in text
    assert f"[{index}] = " in text
    x = np.random.default_rng(0).random((21, 18), dtype="float32")
    made = np.zeros_like(x)
    interp.run(lower_func(schedule_to_func(s, [a, c])), x, made)
    np.testing.assert_allclose(made, (x + 1) * 2)
    out = array(np.zeros_like(x))
    build(s, [a, c], target="llvm")(array(x), out)
    np.testing.assert_allclose(out.numpy(), (x + 1) * 2)


def test_what_shrank_to_a_tile_is_aligned_too() -> None:
    s, (a, b, c) = rows()
    io, jo, _ii, _ji = s[c].tile(*c.op.axis, 7, 6)
    s[c].reorder(io, jo)
    s[b].compute_at(s[c], jo)
    s[b].storage_align(b.op.axis[0], 8, 1)
    assert "T.allocate([60]" in lower(s, [a, c], simple_mode=True).script()  # 7 rows of 6, 9 apart
