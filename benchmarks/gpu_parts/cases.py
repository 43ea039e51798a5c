"""The workloads of the benchmark of GPUs: their functions, their data, what is right, and what torch does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Run = Callable[[], object]
Array = np.ndarray[Any, Any]
PRODUCTS = ("matmul", "batch_matmul", "dense_relu")
CONVOLUTIONS = ("conv2d", "conv2d_nhwc")
_SMALL_IMAGES = (1, 16, 8, 8, 16)  # images, channels, height, width, filters
_CHECKED_ROWS = 8
_ALLOWED = {"float32": 1e-4, "float16": 2e-3, "bfloat16": 1.6e-2, "int8": 0.0}


@dataclass(frozen=True)
class Case:
    """A workload, and the goal: a part of the speed of the vendor's library, or of the bandwidth of a copy."""

    name: str
    dtype: str
    sizes: tuple[int, ...]
    goal: float

    @property
    def computes(self) -> bool:
        """Whether its speed is that of arithmetic, not of memory."""
        return self.name in PRODUCTS or self.name in CONVOLUTIONS

    @property
    def flops(self) -> float:
        if self.name not in CONVOLUTIONS:
            return 2.0 * np.prod(self.sizes, dtype=np.float64)
        images, channels, height, width, filters, r, s, stride, padding = self.sizes
        places = ((height + 2 * padding - r) // stride + 1) * ((width + 2 * padding - s) // stride + 1)
        return 2.0 * images * places * filters * channels * r * s

    def small(self) -> Case:
        if self.name in CONVOLUTIONS:
            return replace(self, sizes=(*map(min, self.sizes, _SMALL_IMAGES), *self.sizes[5:]))
        most = (2, 64, 64, 64) if self.name == "batch_matmul" else (64,) * len(self.sizes)
        return replace(self, sizes=tuple(min(size, limit - size % 2) for size, limit in zip(self.sizes, most)))


CASES = (
    Case("matmul", "float32", (4096, 4096, 4096), 0.9),
    Case("matmul", "bfloat16", (4096, 4096, 4096), 0.85),
    Case("matmul", "bfloat16", (8192, 8192, 8192), 0.85),
    Case("matmul", "float16", (4096, 4096, 4096), 0.85),
    Case("matmul", "float16", (8192, 8192, 8192), 0.85),
    Case("matmul", "float16", (4100, 4100, 4100), 0.7),  # rows at multiples of 8 bytes, not of 16
    Case("matmul", "float16", (4095, 4095, 4095), 0.5),  # rows at odd addresses
    Case("matmul", "int8", (4096, 4096, 4096), 0.8),
    Case("batch_matmul", "float16", (64, 1024, 1024, 128), 0.8),
    Case("dense_relu", "float16", (4096, 4096, 4096), 0.85),
    Case("conv2d", "float16", (16, 64, 56, 56, 64, 3, 3, 1, 1), 0.5),
    Case("conv2d", "float16", (16, 256, 56, 56, 64, 1, 1, 1, 0), 0.7),
    Case("conv2d_nhwc", "float16", (16, 64, 56, 56, 64, 3, 3, 1, 1), 0.7),
    Case("conv2d_nhwc", "float16", (16, 128, 56, 56, 256, 3, 3, 2, 1), 0.7),
    Case("triad", "float32", (1 << 28,), 0.9),
    Case("row_sum", "float32", (1 << 16, 1 << 12), 0.9),
    Case("softmax", "float32", (1 << 15, 1 << 12), 0.9),
    Case("layer_norm", "float32", (1 << 15, 1 << 12), 0.9),
)


def function(case: Case) -> Any:
    from compiler import topi
    from compiler.te.operation import placeholder
    from compiler.te.prim_func import create_prim_func
    from tuner.workloads import WorkloadSpec

    given = [placeholder(shape, case.dtype, name=name) for name, shape in zip("xwb", shapes(case))]
    match case.name:
        case "matmul" if case.dtype == "int8":  # summed in int32
            return create_prim_func([*given, topi.nn.dense(*given, out_dtype="int32")])
        case "dense_relu":
            return create_prim_func([*given, topi.nn.relu(topi.nn.dense(*given))])
        case "conv2d_nhwc":
            *_, stride, padding = case.sizes
            return create_prim_func([*given, topi.nn.conv2d_nhwc(*given, stride=stride, padding=padding)])
    return WorkloadSpec(case.name, case.sizes, case.dtype).prim_func()


def shapes(case: Case) -> list[tuple[int, ...]]:
    """Return the shapes of the inputs."""
    match case.name:
        case "matmul":
            m, n, k = case.sizes
            return [(m, k), (n, k) if case.dtype == "int8" else (k, n)]
        case "batch_matmul":
            b, m, n, k = case.sizes
            return [(b, m, k), (b, k, n)]
        case "dense_relu":
            m, n, k = case.sizes
            return [(m, k), (n, k), (n,)]
        case "conv2d" | "conv2d_nhwc":
            images, channels, height, width, filters, r, s, _, _ = case.sizes
            if case.name == "conv2d":
                return [(images, channels, height, width), (filters, channels, r, s)]
            return [(images, height, width, channels), (r, s, channels, filters)]
        case "triad":
            return [case.sizes, case.sizes]
        case "layer_norm":
            return [case.sizes, case.sizes[1:], case.sizes[1:]]
    return [case.sizes]


def data(case: Case) -> list[Array]:
    rng = np.random.default_rng(0)
    if case.dtype == "int8":
        return [rng.integers(-8, 8, shape, dtype=np.int8) for shape in shapes(case)]
    found = [rng.random(shape, dtype=np.float32) * 2 - 1 for shape in shapes(case)]
    return [x.astype(np.float16) for x in found] if case.dtype == "float16" else found


def wrong(case: Case, inputs: list[Array], got: Array) -> str:
    """Return what is wrong with some rows (images, matrices) of a result, by numpy in float64; "" for nothing."""
    rows = np.random.default_rng(1).integers(0, got.shape[0], _CHECKED_ROWS)
    wanted = _wanted(case, inputs, rows)
    scale = np.sqrt(np.mean(wanted**2)) or 1.0
    error = float(np.abs(got[rows].astype(np.float64) - wanted).max() / scale)
    return "" if error <= _ALLOWED[case.dtype] else f"wrong by {error:.1e} of the typical size"


def _wanted(case: Case, inputs: list[Array], rows: Array) -> Array:
    first = inputs[0][rows].astype(np.float64)
    others = [x[rows].astype(np.float64) if case.name == "triad" else x for x in inputs[1:]]
    match case.name:
        case "matmul":
            second = others[0].astype(np.float64)
            found: Array = first @ (second.T if case.dtype == "int8" else second)
            return found
        case "batch_matmul":
            return np.asarray(first @ others[0][rows].astype(np.float64))
        case "dense_relu":
            return np.asarray(np.maximum(first @ others[0].T.astype(np.float64) + others[1], 0))
        case "conv2d":
            return _convolved(case, first, others[0].astype(np.float64))
        case "conv2d_nhwc":
            filters = others[0].transpose(3, 2, 0, 1).astype(np.float64)
            return _convolved(case, first.transpose(0, 3, 1, 2), filters).transpose(0, 2, 3, 1)
        case "triad":
            return first + 3 * others[0]
        case "row_sum":
            return np.asarray(first.sum(1))
        case "softmax":
            e = np.exp(first - first.max(1, keepdims=True))
            return np.asarray(e / e.sum(1, keepdims=True))
    centred = first - first.mean(1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * others[0] + others[1])


def _convolved(case: Case, images: Array, filters: Array) -> Array:
    *_, stride, padding = case.sizes
    around = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(images, around), filters.shape[2:], (2, 3))
    return np.einsum("ncyxrs,fcrs->nfyx", windows[:, :, ::stride, ::stride], filters, optimize=True)


def with_torch(case: Case, inputs: list[Array]) -> Run | None:
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    given = [torch.from_numpy(x).cuda() for x in inputs]
    if case.dtype == "bfloat16":
        given = [x.bfloat16() for x in given]
    functional = torch.nn.functional
    match case.name:
        case "matmul" if case.dtype == "int8":
            transposed = given[1].t()
            return lambda: torch._int_mm(given[0], transposed)
        case "matmul" | "batch_matmul":
            return lambda: torch.matmul(given[0], given[1])
        case "dense_relu":
            return lambda: torch.relu(functional.linear(given[0], given[1], given[2]))
        case "conv2d" | "conv2d_nhwc":
            *_, stride, padding = case.sizes
            if case.name == "conv2d_nhwc":  # the same memory, seen as torch's layout of channels last
                given = [given[0].permute(0, 3, 1, 2), given[1].permute(3, 2, 0, 1)]
                given[1] = given[1].contiguous(memory_format=torch.channels_last)
            return lambda: functional.conv2d(given[0], given[1], stride=stride, padding=padding)
        case "triad":
            return lambda: torch.add(given[0], given[1], alpha=3)
        case "row_sum":
            return lambda: given[0].sum(1)
        case "softmax":
            return lambda: torch.softmax(given[0], 1)
    return lambda: functional.layer_norm(given[0], given[0].shape[-1:], given[1], given[2])
