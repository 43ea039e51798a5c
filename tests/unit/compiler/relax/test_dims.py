"""Relations between two dimensions that can be proved."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.relax.nodes.dims import int64, proven_equal, same_size, simplified
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Var
from compiler.tir.visit import substitute

N, M = Var("n", "int64"), Var("m", "int64")
OPERATORS: tuple[Callable[..., PrimExpr], ...] = (ops.add, ops.sub, ops.minimum, ops.maximum)


def test_sizes_that_are_equal_only_where_none_is_negative() -> None:
    one = ops.maximum(ops.minimum(N, int64(1)), int64(0))
    rest = ops.mul(ops.minimum(ops.sub(ops.sub(int64(1), one), N), int64(0)), int64(-1))
    assert not proven_equal(rest, N)
    assert same_size(rest, N)
    assert same_size(ops.maximum(N, int64(0)), N)
    assert not same_size(ops.maximum(N, int64(1)), N)


sizes = st.recursive(
    st.sampled_from([N, M]) | st.integers(-2, 3).map(int64),
    lambda parts: st.builds(lambda make, a, b: make(a, b), st.sampled_from(OPERATORS), parts, parts),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None)
@given(sizes, sizes)
def test_what_is_said_to_be_the_same_size_is(a: PrimExpr, b: PrimExpr) -> None:
    if same_size(a, b):
        for n in range(4):
            for m in range(4):
                values = {N: int64(n), M: int64(m)}
                first, second = [ops.as_int(simplified(substitute(x, values))) for x in (a, b)]
                assert first is not None
                assert first == second
