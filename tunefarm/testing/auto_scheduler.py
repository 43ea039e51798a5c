"""Computations for tests of the auto scheduler, registered as workloads."""

from __future__ import annotations

from collections.abc import Callable

from tunefarm import te, topi
from tuner.faces.auto_scheduler.workload_registry import register_workload

__all__ = [
    "conv2d_nchw_bn_relu_auto_scheduler_test", "double_matmul_auto_scheduler_test", "invalid_compute_definition",
    "matmul_auto_scheduler_test", "matmul_auto_scheduler_test_rename_0", "max_pool2d_auto_scheduler_test",
    "min_nm_auto_scheduler_test", "parallel_matmul_auto_scheduler_test", "softmax_abcd_auto_scheduler_test",
    "softmax_nm_auto_scheduler_test", "zero_rank_compute_auto_scheduler_test", "zero_rank_reduce_auto_scheduler_test",
]  # fmt: skip

Tensors = list[te.Tensor]


def _matmul(a: te.Tensor, b: te.Tensor, name: str = "C") -> te.Tensor:
    k = te.reduce_axis((0, a.shape[1]), name="k")
    out: te.Tensor = te.compute((a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=[k]), name=name)
    return out


def _workload(func: Callable[..., Tensors]) -> Callable[..., Tensors]:
    """Register a function, also where another program's had its name."""
    registered: Callable[..., Tensors] = register_workload(func, override=True)
    return registered


@_workload
def matmul_auto_scheduler_test(N: int, M: int, K: int) -> Tensors:
    """A product of N × K and K × M."""
    a, b = te.placeholder((N, K), name="A"), te.placeholder((K, M), name="B")
    return [a, b, _matmul(a, b)]


@_workload
def matmul_auto_scheduler_test_rename_0(N: int, M: int, K: int) -> Tensors:
    """The same product under another name."""
    return matmul_auto_scheduler_test(N, M, K)


@_workload
def double_matmul_auto_scheduler_test(N: int) -> Tensors:
    """Two products, one after the other."""
    a, b, c = (te.placeholder((N, N), name=name) for name in "ABC")
    d = _matmul(a, b, "D")
    return [a, b, c, _matmul(d, c, "E")]


@_workload
def parallel_matmul_auto_scheduler_test(N: int) -> Tensors:
    """Two products that share an input."""
    a, b, c = (te.placeholder((N, N), name=name) for name in "ABC")
    return [a, b, c, _matmul(a, b, "D"), _matmul(a, c, "E")]


@_workload
def conv2d_nchw_bn_relu_auto_scheduler_test(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int, strides: int, padding: int, dilation: int = 1
) -> Tensors:
    """A convolution with bias, scale and offset of its channels, and a ReLU."""
    data = te.placeholder((N, CI, H, W), name="Data")
    kernel = te.placeholder((CO, CI, kernel_size, kernel_size), name="Kernel")
    bias, scale, offset = (te.placeholder((CO, 1, 1), name=name) for name in ("Bias", "Bn_scale", "Bn_offset"))
    conv = topi.nn.conv2d_nchw(data, kernel, strides, padding, dilation)
    shape = tuple(conv.shape)
    biased = te.compute(shape, lambda n, c, h, w: conv[n, c, h, w] + bias[c, 0, 0], name="Bias_add")
    scaled = te.compute(shape, lambda n, c, h, w: biased[n, c, h, w] * scale[c, 0, 0], name="Bn_mul")
    moved = te.compute(shape, lambda n, c, h, w: scaled[n, c, h, w] + offset[c, 0, 0], name="Bn_add")
    return [data, kernel, bias, offset, scale, topi.nn.relu(moved)]


@_workload
def max_pool2d_auto_scheduler_test(N: int, H: int, W: int, CI: int, padding: int) -> Tensors:
    """Maxima of windows of 2 × 2."""
    data = te.placeholder((N, CI, H, W), name="Data")
    out = topi.nn.pool2d(data, [2, 2], [1, 1], [1, 1], [padding] * 4, "max")
    return [data, out]


@_workload
def min_nm_auto_scheduler_test(N: int, M: int) -> Tensors:
    """The least of each row."""
    a = te.placeholder((N, M), name="A")
    return [a, topi.min(a, axis=-1)]


@_workload
def softmax_nm_auto_scheduler_test(N: int, M: int) -> Tensors:
    """Softmax of rows."""
    a = te.placeholder((N, M), name="A")
    return [a, topi.nn.softmax(a, axis=1)]


@_workload
def softmax_abcd_auto_scheduler_test(a: int, b: int, c: int, d: int) -> Tensors:
    """Softmax of the last axis of four."""
    given = te.placeholder((a, b, c, d), name="A")
    return [given, topi.nn.softmax(given, axis=-1)]


@_workload
def zero_rank_reduce_auto_scheduler_test(N: int) -> Tensors:
    """The sum of a vector, a tensor without axes."""
    a = te.placeholder((N,), name="A")
    k = te.reduce_axis((0, N), name="k")
    return [a, te.compute((), lambda: te.sum(a[k], axis=[k]), name="B")]


@_workload
def zero_rank_compute_auto_scheduler_test(N: int) -> Tensors:
    """A sum without axes, and a computation on it."""
    a, total = zero_rank_reduce_auto_scheduler_test(N)
    return [a, te.compute((), lambda: total() * 2, name="C")]


@_workload
def invalid_compute_definition() -> Tensors:
    """A tensor that is computed of another of the same name."""
    a = te.placeholder((16, 16), name="A")
    return [a, te.compute((16, 16), lambda i, j: a[i, j] + 1, name="A")]
