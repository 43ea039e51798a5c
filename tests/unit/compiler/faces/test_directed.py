"""Comparisons as TVM writes them: the oracle of the texts is what `create_prim_func` of TVM 0.17 prints."""

from __future__ import annotations

import operator
import random
from typing import Any

import numpy as np

import tunefarm as tvm
from compiler.faces.directed import directed
from compiler.interp.interpreter import run
from compiler.te.prim_func import create_prim_func
from tunefarm import te, tir

A = te.placeholder((16, 16), name="A")


def text(condition: Any) -> str:
    b = te.compute((16, 16), lambda i, j: te.if_then_else(condition(i, j), A[i, j], 0.0), name="B")
    line = te.create_prim_func([A, b]).script().splitlines()[-1]
    return str(line.partition("if_then_else(")[2].partition(", A[")[0]).replace("v_", "")


def test_comparisons_of_indices_have_the_number_first_and_alone() -> None:
    assert text(lambda i, j: te.all(i >= 1, i - 1 < 8)) == "1 <= i and i < 9"
    assert text(lambda i, j: te.any(i > 3, j >= i)) == "3 < i or i <= j"
    assert text(lambda i, j: i - j > 0) == "0 < i - j"
    assert text(lambda i, j: i - 1 >= 0) == "1 <= i"
    assert text(lambda i, j: tir.Not(i < 2)) == "2 <= i"
    assert text(lambda i, j: i + 1 != j + 1) == "i + 1 != j + 1"


def test_a_comparison_of_floats_is_turned_and_a_negated_one_stays() -> None:
    assert text(lambda i, j: A[j, i] > A[i, j]) == "A[i, j] < A[j, i]"
    assert text(lambda i, j: tir.Not(A[i, j] < A[j, i])) == "not A[i, j] < A[j, i]"  # both false of NaN


def test_a_reduction_compares_as_it_was_written() -> None:
    k = te.reduce_axis((0, 16), name="k")
    most = te.comm_reducer(lambda x, y: tir.Select(x >= y, x, y), te.min_value, name="most")
    b = te.compute((16,), lambda i: most(te.if_then_else(i > k, A[i, k], 0.0), axis=k), name="B")
    line = te.create_prim_func([A, b]).script().splitlines()[-1]
    assert "T.Select(B[v_i] >= T.if_then_else(v_k < v_i, " in line


def test_functions_compute_what_they_computed() -> None:
    rng = random.Random(7)
    kinds = (operator.lt, operator.le, operator.gt, operator.ge)

    def condition(i: Any, j: Any) -> Any:
        def side() -> Any:
            return rng.choice([i, j, i + rng.randint(-4, 4), rng.randint(-4, 4) + j, i - rng.randint(-4, 4), i - j])

        made = rng.choice(kinds)(side(), rng.randint(-3, 15) if rng.random() < 0.6 else side())
        return tir.Not(made) if rng.random() < 0.3 else made

    data = np.random.default_rng(0).standard_normal((16, 16)).astype("float32")
    for _ in range(60):
        both = te.compute(
            (16, 16), lambda i, j: te.if_then_else(te.all(condition(i, j), condition(i, j)), A[i, j], 0.5), name="B"
        )
        func = create_prim_func([A, both])
        made = [np.zeros((16, 16), "float32") for _ in range(2)]
        run(func, data, made[0])
        run(directed(func), data, made[1])
        np.testing.assert_array_equal(*made)
    assert tvm.ir.structural_equal(directed(directed(func)), directed(func))
