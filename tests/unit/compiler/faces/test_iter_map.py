"""Indices taken apart: compared with all values, and with what Apache TVM 0.17 answers."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tunefarm as tvm
from compiler.errors import IRError
from compiler.tir.visit import substitute
from tests.kit.places import TESTS
from tunefarm import arith, te, tir

x, y = te.var("x"), te.var("y")
DOMAINS = {x: tvm.ir.Range(0, 16), y: tvm.ir.Range(0, 8)}


def value(expr: Any, i: int, j: int) -> int:
    return int(arith.Analyzer().simplify(substitute(expr, {x: tir.const(i), y: tir.const(j)})))


CASES: dict[str, tuple[list[Any], tuple[bool, bool, bool]]] = {
    "fused": ([x * 8 + y], (True, True, True)),
    "split": ([x // 4, x % 4, y], (True, True, True)),
    "fused and split": ([(x * 8 + y) // 4, (x * 8 + y) % 4], (True, True, True)),
    "twice": ([x, x], (False, False, False)),
    "other order": ([y * 16 + x], (True, True, True)),
    "strided": ([x * 2], (True, False, True)),
    "part": ([x // 4], (True, False, True)),
    "overlapping": ([x * 8 + y, x], (False, False, False)),
    "constant": ([x * 8 + y + 3], (True, True, True)),
}


@pytest.mark.parametrize("name", CASES)
def test_answers_of_apache_tvm(name: str) -> None:
    indices, wanted = CASES[name]
    for level, is_found in zip(("surjective", "bijective", "nocheck"), wanted):
        found = arith.detect_iter_map(indices, DOMAINS, True, level)
        assert bool(found.indices) == is_found, (level, found.errors)
        assert bool(found.errors) != is_found
        for index, made in zip(indices, found.indices):
            expr = arith.normalize_iter_map_to_expr(made)
            for i, j in itertools.product((0, 5, 15), (0, 3, 7)):
                assert value(expr, i, j) == value(index, i, j)


factor = st.sampled_from([1, 2, 4, 8, 16])


@given(a=factor, b=factor, c=factor, d=factor)
def test_what_is_bijective_is_one_to_one(a: int, b: int, c: int, d: int) -> None:
    whole = x * a + y * b
    indices = [whole // c, whole % c // d, whole % d] if d <= c else [whole // c, whole % c]
    found = arith.detect_iter_map(indices, DOMAINS, True, arith.IterMapLevel.Bijective)
    reached = {
        ((a * i + b * j) // c, (a * i + b * j) % c // d, (a * i + b * j) % d) if d <= c
        else ((a * i + b * j) // c, (a * i + b * j) % c)
        for i in range(16)
        for j in range(8)
    }  # fmt: skip
    if found.indices:
        assert len(reached) == 128
    elif {a, b} in ({8, 1}, {16, 1}) and (a, b) in ((8, 1), (1, 16)):
        raise AssertionError(found.errors)


def test_a_hundred_random_mappings_are_told_apart_as_apache_tvm_does() -> None:
    """Sums that overlap and parts that do not divide a size are found there by padding, and not here."""
    kept = json.loads((TESTS / "data" / "iter_maps.json").read_text())
    names = {name: te.var(name) for name in "xyz"}
    same = dict.fromkeys(kept["levels"], 0)
    for case in kept["cases"]:
        domains = {var: tvm.ir.Range(0, case["sizes"][name]) for name, var in names.items()}
        indices = [eval(text, {}, names) for text in case["indices"]]
        for level, count in zip(kept["levels"], case["found"]):
            same[level] += len(arith.detect_iter_map(indices, domains, True, level).indices) == count
    assert same["bijective"] == 100
    assert min(same.values()) >= 88


def test_levels_have_names() -> None:
    assert arith.IterMapLevel.from_str("Bijective") is arith.IterMapLevel.Bijective
    with pytest.raises(IRError, match="there is no level 'some'"):
        arith.IterMapLevel.from_str("some")
    assert arith.detect_iter_map([x], DOMAINS, x < 3).errors
    assert arith.detect_iter_map([x * y], DOMAINS).errors
