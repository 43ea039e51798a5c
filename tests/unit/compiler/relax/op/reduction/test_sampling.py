"""Drawing from distributions: StructInfo, kernels and numpy agree; shares come out as probabilities say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.errors import IRError
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.interp import run
from compiler.relax.nodes import TensorStructInfo, Var
from tests.kit.compiler.relax_ops import WITHOUT_ZERO, Case, check

Array = np.ndarray[Any, Any]


def shares(a: Array) -> Array:
    """Rows of probabilities, eighths, so that sums are exact."""
    made = np.zeros(a.shape)
    if a.shape[1]:
        for row, count in zip(made, range(len(made))):
            for k in range(8):
                row[(k * (count + 1)) % a.shape[1]] += 0.125
    return made


def drawn(prob: Array, number: Array, which: Array) -> Array:
    sums = np.cumsum(prob.astype("float64"), 1)[which[:, 0]]
    return np.minimum((sums <= number.astype("float64")).sum(1, keepdims=True), prob.shape[1] - 1)


CASES = [
    Case(name, lambda p, u, i, to=to: op.multinomial_from_uniform(p, u, i, to), drawn, ["n m", "k 1", "k 1"], dtypes,
         fixed={2: "int64"}, values={0: shares, 1: lambda a: np.abs(np.round(a * 8)) % 8 / 8 + 0.0625,
                                     2: lambda a: a * 0}, sizes=WITHOUT_ZERO)
    for name, to, dtypes in [("multinomial", "int64", ("float32", "float64", "float16")),
                             ("multinomial int32", "int32", ("float32",))]
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_info_kernel_and_numpy_agree(case: Case) -> None:
    check(case)


def test_how_often_entries_are_drawn() -> None:
    prob, number, which = (
        Var(name, TensorStructInfo(shape, dtype))
        for name, shape, dtype in [("p", (2, 3), "float32"), ("u", (400, 1), "float32"), ("i", (400, 1), "int64")]
    )
    bb = BlockBuilder()
    with bb.function("main", [prob, number, which]):
        bb.emit_func_output(bb.emit(op.multinomial_from_uniform(prob, number, which)))
    rows = (np.arange(400) % 2).reshape(400, 1)
    table = np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]], "float32")
    numbers = ((np.arange(400) // 2) / 200).astype("float32").reshape(400, 1)
    found = run(bb.get(), table, numbers, rows)
    assert np.bincount(found[rows == 0]).tolist() == [100, 50, 50]
    assert set(found[rows == 1]) == {2}


def test_refusals() -> None:
    def var(*shape: int, dtype: str = "float32") -> Var:
        return Var("x", TensorStructInfo(shape, dtype))

    for args, message in [
        ((var(2, 3), var(4, 2), var(4, 1, dtype="int64")), "1 and the width of uniform_sample differ: 1 and 2"),
        ((var(2, 3), var(4, 1), var(5, 1, dtype="int64")), "the numbers and the rows that they draw from differ"),
        ((var(2, 3), var(4, 1), var(4, 1)), "sample_indices must have integer elements, got float32"),
    ]:
        with pytest.raises(IRError, match=message):
            BlockBuilder().normalize(op.multinomial_from_uniform(*args))
