"""pad_einsum: extents rounded up, with zeros around what is read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler.interp.interpreter import run
from compiler.schedule.core.schedule import Schedule
from compiler.te import operation as te
from compiler.te.prim_func import create_prim_func
from compiler.tir import ops
from compiler.tir.nodes import PrimFunc
from tests.kit.compiler.schedules import workloads as w


@pytest.mark.parametrize("shape", [(13, 11, 10), (5, 3, 1), (16, 8, 12), (17, 1, 33)])
@pytest.mark.parametrize("padding", [[4, 4, 4], [16, 1, 1], [1, 1, 8], [1, 5, 3]])
def test_products_of_any_shape(shape: tuple[int, int, int], padding: list[int]) -> None:
    func = w.matmul_relu(*shape)
    sch = Schedule(func)
    sch.pad_einsum(sch.get_block("C"), padding)
    extents = [int(iv.dom.extent) for iv in sch.get(sch.get_block("C")).iter_vars]
    assert extents == [-(-size // factor) * factor for size, factor in zip(shape, padding)]
    w.check_everywhere(sch, func)


def test_what_is_padded_is_tiled_without_conditions() -> None:
    func = w.matmul()
    sch = Schedule(func)
    block = sch.get_block("C")
    sch.pad_einsum(block, [4, 8, 2])
    i, j, k = sch.get_loops(block)
    (i0, i1), (j0, j1) = sch.split(i, [None, 4]), sch.split(j, [None, 8])
    sch.reorder(i0, j0, k, i1, j1)
    sch.decompose_reduction(block, k)
    sch.vectorize(j1)
    sch.compute_inline(sch.get_block("A_pad"))
    sch.reverse_compute_at(sch.get_block("C_pad"), j0)
    assert sch.get(i1).body is sch.get(j1)
    assert "T.where" not in sch.func.script().split('T.block("C_update")')[1].split('T.block("C_pad")')[0]
    w.check_everywhere(sch, func)


def test_channels_of_a_convolution() -> None:
    """Axes that are not padded may be indexed in any way."""
    func = w.conv(channels=3, filters=5)
    sch = Schedule(func)
    sch.pad_einsum(sch.get_block("conv2d_nchw"), [1, 4, 1, 1, 2, 1, 1])
    w.check_everywhere(sch, func)


def test_an_axis_of_one_iteration_need_not_be_an_index() -> None:
    a, b = te.placeholder((1, 9, 5), name="A"), te.placeholder((6, 5), name="B")
    k = te.reduce_axis((0, 5), name="k")
    func = create_prim_func([a, b, te.compute((1, 6, 9), lambda z, i, j: te.sum(a[z, j, k] * b[i, k], k), name="C")])
    sch = Schedule(func)
    block = sch.get_block("C")
    sch.transform_block_layout(block, lambda z, i, j, k: (z, i, j, k))
    assert "C[0, v1, v2] +" in sch.func.script()
    sch.pad_einsum(block, [1, 1, 8, 1])
    w.check_everywhere(sch, func)


def test_reordered_loops_and_elementwise_blocks() -> None:
    func = w.matmul_relu()
    sch = Schedule(func)
    i, j, k = sch.get_loops(sch.get_block("C"))
    sch.reorder(k, j, i)
    sch.pad_einsum(sch.get_block("C"), [4, 4, 4])
    sch.pad_einsum(sch.get_block("D"), [2, 3])
    assert [sch.get(f).loop_var.name for f in sch.get_loops(sch.get_block("C"))] == ["k", "j", "i"]
    w.check_everywhere(sch, func)


def test_nothing_to_pad() -> None:
    sch = Schedule(w.matmul(8, 4, 2))
    before = sch.func
    sch.pad_einsum(sch.get_block("C"), [4, 2, 1])
    assert sch.func is before


def test_two_operands_of_one_name() -> None:
    a, b = te.placeholder((5, 3), name="A"), te.placeholder((5, 3), name="A")
    func = create_prim_func([a, b, te.compute((5, 3), lambda i, j: a[i, j] * b[i, j], name="C")])
    sch = Schedule(func)
    sch.pad_einsum(sch.get_block("C"), [4, 4])
    w.check_everywhere(sch, func)


def test_symbolic_extents() -> None:
    m, k = te.size_var("m"), te.size_var("k")
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, 7), name="B")
    r = te.reduce_axis((0, k), name="r")
    func = create_prim_func([a, b, te.compute((m, 7), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")])
    sch = Schedule(func)
    sch.pad_einsum(sch.get_block("C"), [4, 4, 8])
    for rows, depth in ((1, 1), (4, 8), (6, 11)):
        x = np.random.default_rng(rows).standard_normal((rows, depth)).astype("float32")
        y = np.random.default_rng(depth).standard_normal((depth, 7)).astype("float32")
        out = np.full((rows, 7), np.nan, "float32")
        run(sch.func, x, y, out)
        np.testing.assert_allclose(out, x @ y, rtol=1e-4, atol=1e-5)


def _row_max() -> PrimFunc:
    a = te.placeholder((5, 6), name="A")
    r = te.reduce_axis((0, 6), name="r")
    return create_prim_func([a, te.compute((5,), lambda i: te.max(a[i, r], axis=r), name="C")])


def _scaled(add: bool) -> PrimFunc:
    """C[i] = sum of A[i, :] * S[i], or of A[i, :] + 1."""
    a, s = te.placeholder((5, 6), name="A"), te.placeholder((5,), name="S")
    r = te.reduce_axis((0, 6), name="r")
    body = (lambda i: a[i, r] + 1.0) if add else (lambda i: a[i, r] * s[i])
    return create_prim_func([a, s, te.compute((5,), lambda i: te.sum(body(i), axis=r), name="C")])


def _split_first(s: Schedule) -> None:
    s.split(s.get_loops(s.get_block("C"))[0], [None, 2])
    s.pad_einsum(s.get_block("C"), [4, 4, 4])


def _bound(s: Schedule) -> None:
    s.bind(s.get_loops(s.get_block("C"))[0], "blockIdx.x")
    s.pad_einsum(s.get_block("C"), [4, 4, 4])


def _decomposed(s: Schedule) -> None:
    block = s.get_block("C")
    s.decompose_reduction(block, s.get_loops(block)[0])
    s.pad_einsum(block, [4, 4, 4])


def _pad(padding: list[int]) -> Callable[[Schedule], None]:
    return lambda s: s.pad_einsum(s.get_block("C"), padding)


REFUSED = [
    (w.matmul, _pad([4, 4]), "block 'C' has 3 axes, padding names 2 factors"),
    (w.matmul, _pad([4, 0, 4]), "padding must be positive integers, got [4, 0, 4]"),
    (w.matmul, _split_first, "loop 'i_0' does not run over one axis of block 'C'"),
    (w.matmul, _bound, "loop 'i' is bound to a thread"),
    (w.matmul, _decomposed, "block 'C_update' adds to what 'C' held before"),
    (_row_max, _pad([4, 4]), "block 'C' reduces along axis 'v_r', but not by a sum"),
    (lambda: _scaled(False), _pad([4, 4]), "'S' does not lie along the reduction axis 'v_r' of block 'C'"),
    (lambda: _scaled(True), _pad([4, 4]), "does not add up products of elements along axis 'v_r'"),
    (w.blur, _pad([4, 2]), "of 'B' in block 'C' is no axis by itself"),
    (w.stencils, _pad([4]), "block 'C' uses 'B' at 2 different places"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_cannot_be_padded(number: int) -> None:
    make, steps, rule = REFUSED[number]
    w.check_refused(make(), steps, "pad_einsum", rule)


def test_rows_alone_of_a_maximum_can_be_padded() -> None:
    func = _row_max()
    sch = Schedule(func)
    sch.pad_einsum(sch.get_block("C"), [4, 1])
    w.check_everywhere(sch, func)


def test_integers() -> None:
    a, b = te.placeholder((5, 7), "int8", name="A"), te.placeholder((7, 3), "int8", name="B")
    r = te.reduce_axis((0, 7), name="r")
    product = lambda i, j: te.sum(ops.cast("int32", a[i, r]) * ops.cast("int32", b[r, j]), axis=r)  # noqa: E731
    func = create_prim_func([a, b, te.compute((5, 3), product, name="C")])
    sch = Schedule(func)
    sch.pad_einsum(sch.get_block("C"), [4, 4, 4])
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-128, 128, size).astype("int8") for size in ((5, 7), (7, 3)))
    out = np.zeros((5, 3), "int32")
    run(sch.func, x, y, out)
    np.testing.assert_array_equal(out, x.astype("int32") @ y.astype("int32"))
