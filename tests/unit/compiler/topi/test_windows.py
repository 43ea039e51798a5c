"""Convolutions and pooling compute what their definitions say, as written and as scheduled."""

from __future__ import annotations

import numpy as np
import pytest

from compiler import topi
from compiler.driver.build import build, lower
from compiler.errors import IRError, ScheduleError
from compiler.runtime.core.ndarray import array
from compiler.te.operation import placeholder
from compiler.topi.schedules import arm_cpu, cuda, generic, x86
from tests.unit.compiler.topi.test_operators import HOST, check, data, like


def windows(x: np.ndarray, kernel, strides, padding, dilation, filler: float = 0.0) -> np.ndarray:
    """(N, C, OH, OW, R, S) of an NCHW array in float64. `padding` is top, left, bottom, right."""
    top, left, bottom, right = padding
    x = np.pad(x.astype("float64"), [(0, 0), (0, 0), (top, bottom), (left, right)], constant_values=filler)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    seen = np.lib.stride_tricks.sliding_window_view(x, spans, axis=(2, 3))
    return seen[:, :, :: strides[0], :: strides[1], :: dilation[0], :: dilation[1]]


def nhwc(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1))


GEOMETRIES = [
    ((1, 1), (0, 0, 0, 0), (1, 1)),
    ((2, 1), (0, 1, 2, 3), (1, 1)),
    ((1, 2), (1, 1, 1, 1), (2, 1)),
]


@pytest.mark.parametrize(("strides", "padding", "dilation"), GEOMETRIES)
@pytest.mark.parametrize("groups", [1, 2])
def test_conv2d(strides, padding, dilation, groups: int) -> None:
    x, w = data(2, 6, 9, 21), data(10, 6 // groups, 3, 2)

    def reference(a, k):
        seen = windows(a, (3, 2), strides, padding, dilation)
        parts = zip(np.split(seen, groups, 1), np.split(k.astype("float64"), groups))
        return np.concatenate([np.einsum("nchwrs,kcrs->nkhw", s, p) for s, p in parts], 1)

    how = generic.schedule_group_conv2d_nchw if groups > 1 else generic.schedule_conv2d_nchw
    check(
        lambda a, k: topi.nn.conv2d(a, k, strides, padding, dilation, groups=groups), reference, x, w, schedule=how
    )
    if groups == 1:
        check(
            lambda a, k: topi.nn.conv2d_nhwc(a, k, strides, padding, dilation),
            lambda a, k: nhwc(reference(x, w)),
            nhwc(x),
            np.ascontiguousarray(w.transpose(2, 3, 1, 0)),
            schedule=generic.schedule_conv2d_nhwc,
        )


@pytest.mark.parametrize(("strides", "padding", "dilation"), GEOMETRIES)
def test_depthwise_conv2d(strides, padding, dilation) -> None:
    x, w = data(2, 5, 9, 21), data(5, 2, 3, 2)

    def reference(a, k):
        out = np.einsum("nchwrs,cmrs->ncmhw", windows(a, (3, 2), strides, padding, dilation), k.astype("float64"))
        return out.reshape(2, 10, *out.shape[3:])

    check(
        lambda a, k: topi.nn.depthwise_conv2d_nchw(a, k, strides, padding, dilation),
        reference,
        x,
        w,
        schedule=generic.schedule_depthwise_conv2d_nchw,
    )
    check(
        lambda a, k: topi.nn.depthwise_conv2d_nhwc(a, k, strides, padding, dilation),
        lambda a, k: nhwc(reference(x, w)),
        nhwc(x),
        np.ascontiguousarray(w.transpose(2, 3, 0, 1)),
        schedule=generic.schedule_depthwise_conv2d_nhwc,
    )


def test_conv1d() -> None:
    x, w = data(2, 4, 30), data(6, 4, 3)

    def reference(a, k):
        seen = windows(a[:, :, None], (1, 3), (1, 2), (0, 1, 0, 1), (1, 2))
        return np.einsum("nchwrs,kcrs->nkhw", seen, k[:, :, None].astype("float64"))[:, :, 0]

    how = generic.schedule_conv1d_ncw
    check(lambda a, k: topi.nn.conv1d(a, k, 2, (1, 1), 2), reference, x, w, schedule=how)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("kind", ["max", "avg", "inside"])
def test_pool2d(layout: str, ceil: bool, kind: str) -> None:
    x, padding, strides = data(2, 3, 10, 21), (1, 0, 1, 1), (2, 3)

    def reference(a):
        extra = (1, 0, 1 + (strides[0] - 1) * ceil, 1 + (strides[1] - 1) * ceil)
        if kind == "max":
            return windows(a, (3, 2), strides, extra, (1, 1), np.finfo("float32").min).max((4, 5))
        total = windows(a, (3, 2), strides, extra, (1, 1)).sum((4, 5))
        # what ceil mode adds behind counts for neither; what padding adds counts for "avg"
        counted = np.pad(np.ones_like(a), [(0, 0), (0, 0), (1, 1), (0, 1)], constant_values=float(kind == "avg"))
        beyond = (0, 0, (strides[0] - 1) * ceil, (strides[1] - 1) * ceil)
        return total / windows(counted, (3, 2), strides, beyond, (1, 1)).sum((4, 5)).clip(1)

    check(
        lambda a: topi.nn.pool2d(
            a, (3, 2), strides, (1, 1), padding, "max" if kind == "max" else "avg", ceil, layout, kind == "avg"
        ),
        reference if layout == "NCHW" else lambda a: nhwc(reference(x)),
        x if layout == "NCHW" else nhwc(x),
        schedule=generic.schedule_pool,
    )


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("size", [(3, 4), (5, 7), (1, 1)])
def test_adaptive_and_global_pool(kind: str, size: tuple[int, int]) -> None:
    x, reduce = data(2, 3, 10, 14), np.max if kind == "max" else np.mean

    def reference(a):
        out = np.empty((2, 3, *size))
        for i in range(size[0]):
            for j in range(size[1]):
                rows = slice(i * 10 // size[0], -(-(i + 1) * 10 // size[0]))
                cols = slice(j * 14 // size[1], -(-(j + 1) * 14 // size[1]))
                out[:, :, i, j] = reduce(a[:, :, rows, cols], axis=(2, 3))
        return out

    how = generic.schedule_adaptive_pool
    check(lambda a: topi.nn.adaptive_pool(a, size, kind), reference, x, schedule=how)
    if size == (1, 1):
        check(lambda a: topi.nn.global_pool(a, kind), reference, x, schedule=how)


def test_products() -> None:
    a, b = data(65, 37), data(37, 51)
    check(topi.matmul, lambda x, y: x @ y, a, b, schedule=generic.schedule_matmul)
    check(topi.nn.dense, lambda x, y: x @ y.T, data(13, 70), data(51, 70), schedule=generic.schedule_dense)
    x, y = data(3, 13, 40), data(3, 21, 40)
    check(topi.nn.batch_matmul, lambda p, q: p @ q.transpose(0, 2, 1), x, y, schedule=generic.schedule_batch_matmul)


@pytest.mark.parametrize("shape", [(300, 257), (5, 70000), (70001,)])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_large_sums(shape: tuple[int, ...], axis: int | None) -> None:
    x = data(*shape)
    inputs = placeholder(shape, name="X")
    out = topi.sum(inputs, axis)
    result = array(np.empty(np.sum(x, axis=axis).shape, "float32"))
    build(x86.schedule_reduce(HOST, [out]), [inputs, out], target=HOST)(array(x), result)
    np.testing.assert_allclose(result.numpy(), x.astype("float64").sum(axis), rtol=1e-3, atol=1e-2)


# --------------------------------------------------------------------- which schedule, and errors


def test_cuda_binds_blocks_and_threads() -> None:
    x = like(3, 1000)
    out = topi.exp(topi.add(x, 1.0))
    for schedule in (cuda.schedule_injective("cuda", [out]), generic.schedule_injective("cuda", [out])):
        text = str(lower(schedule, [x, out]))
        assert "blockIdx.x" in text
        assert "threadIdx.x" in text
    assert arm_cpu.schedule_softmax is x86.schedule_softmax


def test_schedules_refuse_what_is_no_tensor() -> None:
    for bad in ((), ("llvm", 3), ("llvm", []), (1, 2, 3)):
        with pytest.raises(ScheduleError, match="schedule_injective takes"):
            generic.schedule_injective(*bad)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: topi.nn.conv2d(like(1, 2, 5, 5), like(2, 2, 3, 3), data_layout="NCXY"), "no data layout 'NCXY'"),
        (lambda: topi.nn.group_conv2d_nchw(like(1, 4, 5, 5), like(3, 2, 3, 3), groups=2), "2 groups do not divide"),
        (lambda: topi.nn.depthwise_conv2d_nchw(like(1, 4, 5, 5), like(3, 1, 3, 3)), "numbers of channels"),
        (lambda: topi.nn.conv1d(like(1, 4, 5), like(3, 4, 9)), "does not fit"),
        (lambda: topi.nn.pool2d(like(1, 4, 5, 5), 2, 1, pool_type="sum"), "pool_type 'sum'"),
        (lambda: topi.nn.pool2d(like(1, 4, 5), 2, 1), "pool2d in NCHW needs 4 dimensions"),
    ],
)
def test_mistakes_are_named_at_the_users_line(make, text: str) -> None:
    with pytest.raises(IRError) as error:
        make()
    assert text in error.value.message
    assert __file__ in error.value.message
