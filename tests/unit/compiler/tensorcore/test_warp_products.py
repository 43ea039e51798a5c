"""Products on tensor cores of what is no plain matrix product of even sizes: each kernel in lock step without a race,
and its PTX, against numpy; ptxas takes it without spills."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from compiler import topi
from compiler.artifact import Artifact
from compiler.codegen.nvptx.ptxas import kernel_resources
from compiler.driver.build import compile_artifact, lower
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from compiler.te.operation import placeholder
from compiler.te.prim_func import create_prim_func
from compiler.te.tensor import Tensor
from compiler.tensorcore.warp_form import WarpProduct
from compiler.tensorcore.warp_match import warp_product
from compiler.tir import nodes as n
from compiler.tir import ops
from tests.kit.gpu import ptx_machine
from tests.kit.gpu.checks import PTXAS, run_threads
from tuner.space.analysis import blocks_of
from tuner.untuned import runnable

Array = np.ndarray[Any, Any]
TILE = {"m": 16, "n": 32, "k": 16, "stages": 2, "warps_m": 1, "warps_n": 1}
BYTES = {**TILE, "k": 32}


@dataclass(frozen=True)
class Case:
    """`inputs` by shape and dtype; what is computed of them, and what numpy gives of them in float64. `fetched`: the
    elements that one copy takes of each operand."""

    inputs: Sequence[tuple[tuple[int, ...], str]]
    made: Callable[..., Tensor]
    wanted: Callable[..., Array]
    fetched: tuple[int, int]
    tile: dict[str, int]

    def func(self) -> n.PrimFunc:
        given = [placeholder(shape, dtype, name=name) for name, (shape, dtype) in zip("xwb", self.inputs)]
        return create_prim_func([*given, self.made(*given)])


def halves(*shapes: tuple[int, ...], dtype: str = "float16") -> list[tuple[tuple[int, ...], str]]:
    return [(shape, dtype) for shape in shapes]


def convolved(x: Array, w: Array, stride: int, padding: int) -> Array:
    """Return the convolution of images (N, C, H, W) and filters (K, C, R, S)."""
    around = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, around), w.shape[2:], (2, 3))
    found: Array = np.einsum("ncyxrs,fcrs->nfyx", windows[:, :, ::stride, ::stride], w)
    return found


def convolved_nhwc(x: Array, w: Array, stride: int, padding: int) -> Array:
    return convolved(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), stride, padding).transpose(0, 2, 3, 1)


def of_bytes(batched: bool) -> Callable[[Tensor, Tensor], Tensor]:
    if batched:
        return lambda x, w: topi.batch_matmul(x, w, transpose_b=False, out_dtype="int32")
    return lambda x, w: topi.nn.dense(x, w, out_dtype="int32")


CASES = {
    "sizes that no tile divides": Case(halves((17, 24), (24, 40)), topi.matmul, np.matmul, (8, 8), TILE),
    "rows at odd addresses": Case(halves((17, 23), (23, 35)), topi.matmul, np.matmul, (1, 1), TILE),
    "rows at multiples of 8 bytes": Case(halves((16, 20), (20, 36)), topi.matmul, np.matmul, (4, 4), TILE),
    "rows at multiples of 4 bytes": Case(halves((16, 18), (18, 34)), topi.matmul, np.matmul, (2, 2), TILE),
    "a transposed left operand": Case(
        halves((16, 24), (16, 32)), lambda x, w: topi.matmul(x, w, transp_a=True), lambda x, w: x.T @ w, (8, 8), TILE
    ),
    "bytes": Case(halves((17, 48), (24, 48), dtype="int8"), of_bytes(False), lambda x, w: x @ w.T, (16, 16), BYTES),
    "bytes with and without sign": Case(
        [((16, 40), "uint8"), ((33, 40), "int8")], of_bytes(False), lambda x, w: x @ w.T, (8, 8), BYTES
    ),
    "a batch of bytes, transposed by the copy": Case(
        [((2, 16, 32), "int8"), ((2, 32, 24), "uint8")], of_bytes(True), np.matmul, (16, 1), BYTES
    ),
    "a batch": Case(
        halves((2, 17, 16), (2, 16, 24)), lambda x, w: topi.batch_matmul(x, w, transpose_b=False), np.matmul, (8, 8),
        TILE,
    ),
    "bias and relu": Case(
        halves((16, 16), (24, 16), (24,)), lambda x, w, b: topi.nn.relu(topi.nn.dense(x, w, b)),
        lambda x, w, b: np.maximum(x @ w.T + b, 0), (8, 8), TILE,
    ),
    "sums in float32, scaled, then narrow": Case(
        halves((16, 16), (24, 16)),
        lambda x, w: topi.cast(topi.multiply(topi.nn.dense(x, w, out_dtype="float32"), 0.5), "float16"),
        lambda x, w: x @ w.T / 2, (8, 8), TILE,
    ),
    "NCHW, stride 2, padded, bias and relu": Case(
        halves((1, 8, 5, 5), (16, 8, 3, 3), (16,)),
        lambda x, w, b: topi.nn.relu(topi.nn.bias_add(topi.conv2d_nchw(x, w, stride=2, padding=1), b, axis=1)),
        lambda x, w, b: np.maximum(convolved(x, w, 2, 1) + b[:, None, None], 0), (8, 1), TILE,
    ),
    "NCHW, 1x1": Case(
        halves((2, 8, 4, 4), (16, 8, 1, 1)), topi.conv2d_nchw, lambda x, w: convolved(x, w, 1, 0), (8, 8), TILE
    ),
    "NHWC, padded, and a sum with another image": Case(
        halves((1, 4, 4, 8), (3, 3, 8, 24), (1, 4, 4, 24)),
        lambda x, w, b: topi.add(topi.nn.conv2d_nhwc(x, w, padding=1), b),
        lambda x, w, b: convolved_nhwc(x, w, 1, 1) + b, (8, 8), TILE,
    ),
    "NHWC of three channels, stride 2": Case(
        halves((1, 5, 5, 3), (3, 3, 3, 16)), lambda x, w: topi.nn.conv2d_nhwc(x, w, stride=2, padding=1),
        lambda x, w: convolved_nhwc(x, w, 2, 1), (1, 8), TILE,
    ),
}  # fmt: skip


def annotated(func: n.PrimFunc, tile: dict[str, int]) -> n.PrimFunc:
    schedule = Schedule(func)
    [block] = [info.name for info in blocks_of(func) if info.reduced]
    for name, value in tile.items():
        schedule.annotate(block, f"warp_tile.{name}", value)
    return schedule.func


def product_of(func: n.PrimFunc) -> WarpProduct:
    found = warp_product(func)
    assert found is not None
    return found


def run_ptx(artifact: Artifact, arrays: list[Array]) -> None:
    def memory(address: int, size: int) -> memoryview:
        for array in arrays:
            if array.ctypes.data <= address and address + size <= array.ctypes.data + array.nbytes:
                return memoryview((ctypes.c_char * size).from_address(address)).cast("B")
        raise ptx_machine.IllegalAccess(hex(address))

    [launch] = artifact.entries[0].launches
    [kernel] = ptx_machine.kernels(artifact.blobs["ptx"].decode()).values()
    values = [arrays[slot].ctypes.data for slot in launch.slots]
    kernel.launch(memory, [int(size) for size in launch.grid], launch.block, values, launch.shared_bytes)


@pytest.mark.parametrize("name", CASES)
def test_a_product(name: str) -> None:
    """Small whole numbers, which every dtype multiplies and adds exactly."""
    case = CASES[name]
    func = case.func()
    product = product_of(func)
    assert (product.left.lanes, product.right.lanes) == case.fetched
    rng = np.random.default_rng(3)
    given = [rng.integers(0 if "u" in dtype else -3, 4, shape).astype(dtype) for shape, dtype in case.inputs]
    out = func.buffer_map[func.params[-1]]
    shape = [ops.as_int(extent) or 0 for extent in out.shape]
    wanted = case.wanted(*(x.astype(np.float64) for x in given))
    scheduled = annotated(func, case.tile)
    found = np.zeros(shape, out.dtype)
    run_threads(lower(scheduled), *given, found)
    np.testing.assert_array_equal(found, wanted)
    artifact = compile_artifact(scheduled, "cuda -arch=sm_80")
    found = np.zeros(shape, out.dtype)
    run_ptx(artifact, [*given, found])
    np.testing.assert_array_equal(found, wanted)
    if PTXAS is not None:
        [resources] = kernel_resources(artifact)
        assert resources.stack == resources.spill_stores == 0


def bfloat16_bits(x: Array) -> Array:
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize("out_dtype", ["bfloat16", "float32"])
def test_bfloat16(out_dtype: str) -> None:
    x, w = placeholder((16, 16), "bfloat16", name="x"), placeholder((24, 16), "bfloat16", name="w")
    func = annotated(create_prim_func([x, w, topi.nn.relu(topi.nn.dense(x, w, out_dtype=out_dtype))]), TILE)
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((16, 16), (24, 16)))
    wanted = np.maximum(a @ b.T, 0)
    found = np.zeros((16, 24), np.float32)
    run_threads(lower(func), a, b, found)
    np.testing.assert_array_equal(found, wanted)
    if out_dtype == "float32":
        found = np.zeros((16, 24), np.float32)
        run_ptx(compile_artifact(func, "cuda -arch=sm_80"), [bfloat16_bits(a), bfloat16_bits(b), found])
        np.testing.assert_array_equal(found, wanted)


def test_bytes_of_every_value_are_exact() -> None:
    """So are they in the function that nobody scheduled, with which candidates are compared."""
    x, w = placeholder((16, 32), "int8", name="x"), placeholder((16, 32), "uint8", name="w")
    func = create_prim_func([x, w, topi.nn.dense(x, w, out_dtype="int32")])
    rng = np.random.default_rng(5)
    a, b = rng.integers(-128, 128, (16, 32)).astype(np.int8), rng.integers(0, 256, (16, 32)).astype(np.uint8)
    wanted = a.astype(np.int64) @ b.T.astype(np.int64)
    for made in (annotated(func, {**BYTES, "n": 16}), runnable(func, Target("cuda"))):
        found = np.zeros((16, 16), np.int32)
        run_ptx(compile_artifact(made, "cuda -arch=sm_80"), [a, b, found])
        np.testing.assert_array_equal(found, wanted)


def test_instructions_and_registers_of_whole_tiles() -> None:
    """The kernel of a network's layer for an H100: one barrier a step, pairs stored at once."""
    x, w = placeholder((16, 56, 56, 64), "float16", name="x"), placeholder((3, 3, 64, 64), "float16", name="w")
    tile = {"m": 128, "n": 64, "k": 32, "stages": 3, "warps_m": 2, "warps_n": 4}
    func = annotated(create_prim_func([x, w, topi.nn.conv2d_nhwc(x, w, padding=1)]), tile)
    artifact = compile_artifact(func, "cuda -arch=sm_90")
    text = artifact.blobs["ptx"].decode()
    assert text.count("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") == 16
    assert text.count("bar.sync") == 1
    assert text.count("st.global.b32") == 16
    assert text.count("cp.async.cg.shared.global") == 9  # two steps ahead, and each step's
    [launch] = artifact.entries[0].launches
    assert launch.grid == ("1", "392", "1")
    if PTXAS is not None:
        [resources] = kernel_resources(artifact)
        assert resources.stack == resources.spill_stores == 0
        assert resources.registers <= 128


def refused() -> dict[str, list[Tensor]]:
    x, w = (placeholder((16, 16), "float16", name=name) for name in "xw")
    f, g = (placeholder((16, 16), name=name) for name in "fg")
    c, d = (placeholder((16, 16), "int8", name=name) for name in "cd")
    e = placeholder((16, 16), "uint8", name="e")
    image, filters = placeholder((1, 8, 6, 6), "float16", name="image"), placeholder((8, 4, 3, 3), "float16", name="w")
    narrow = topi.cast(f, "float16")
    product = topi.matmul(x, w)
    return {
        "float32": [f, g, topi.matmul(f, g)],
        "numbers made narrow on their way": [f, w, topi.matmul(narrow, w)],
        "sums in bytes": [c, d, topi.matmul(c, d)],
        "bytes that change their sign on their way": [c, e, topi.nn.dense(topi.cast(c, "uint8"), e, out_dtype="int32")],
        "what follows is no element's": [x, w, topi.nn.softmax(product)],
        "two results": [x, w, topi.nn.relu(product), topi.exp(product)],
        "an operand that is read again": [x, w, topi.add(topi.nn.relu(product), topi.transpose(product))],
        "groups of channels": [image, filters, topi.nn.group_conv2d_nchw(image, filters, groups=2)],
        "two products": [x, w, topi.matmul(product, w)],
    }


@pytest.mark.parametrize("name", refused())
def test_what_is_no_such_product(name: str) -> None:
    assert warp_product(create_prim_func(refused()[name])) is None


def test_padding_that_is_not_zero_is_no_product() -> None:
    image, filters = placeholder((1, 8, 4, 4), "float16", name="image"), placeholder((8, 8, 3, 3), "float16", name="w")
    padded = topi.nn.pad(image, [0, 0, 1, 1], pad_value=1.0)
    assert warp_product(create_prim_func([image, filters, topi.conv2d_nchw(padded, filters)])) is None
