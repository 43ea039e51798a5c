"""The product of bytes of x86 under its name in Apache TVM."""

from __future__ import annotations

import numpy as np
import pytest

import tunefarm as tvm
from compiler.driver.pipeline import lower_func
from compiler.interp.interpreter import run
from tunefarm import te
from tunefarm.tir.tensor_intrin.x86 import VNNI_DOT_16x4_INTRIN, dot_product_16x4_u8i8i32_desc


def test_it_is_applied_by_name() -> None:
    x, w = te.placeholder((8, 64), "uint8", "x"), te.placeholder((2, 16, 16, 4), "int8", "w")
    k = te.reduce_axis((0, 64), "k")

    def product(i: tvm.tir.Var, j: tvm.tir.Var) -> tvm.tir.PrimExpr:
        return te.sum(x[i, k].astype("int32") * w[j // 16, k // 4, j % 16, k % 4].astype("int32"), axis=k)

    sch = tvm.tir.Schedule(te.create_prim_func([x, w, te.compute((8, 32), product, "C")]))
    block = sch.get_block("C")
    _, j, deep = sch.get_loops(block)
    j_outer, lane = sch.split(j, [None, 16])
    k_outer, group = sch.split(deep, [None, 4])
    sch.reorder(j_outer, k_outer, lane, group)
    sch.decompose_reduction(block, k_outer)
    sch.tensorize(lane, VNNI_DOT_16x4_INTRIN)
    rng = np.random.default_rng(0)
    a = rng.integers(0, 256, (8, 64)).astype("uint8")
    b = rng.integers(-128, 128, (2, 16, 16, 4)).astype("int8")
    found = np.zeros((8, 32), "int32")
    run(lower_func(sch.mod["main"], 512), a, b, found)
    deep_b = b.transpose(1, 3, 0, 2).reshape(64, 32)
    np.testing.assert_array_equal(found, a.astype("int32") @ deep_b.astype("int32"))


def test_it_says_what_it_computes() -> None:
    assert tvm.tir.TensorIntrin.get(VNNI_DOT_16x4_INTRIN).desc.same_as(dot_product_16x4_u8i8i32_desc)


def test_others_say_why_they_are_not_here() -> None:
    with pytest.raises(AttributeError, match=r"docs/intrinsics\.md"):
        _ = tvm.tir.tensor_intrin.x86.dot_product_16x4_u8i8i32_avx512
