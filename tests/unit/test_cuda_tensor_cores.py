"""Tensor cores: the warp's instructions as the interpreter does them, and a matrix product made of them."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_checks import PTXAS, assemble

from compiler.driver import compile_artifact
from compiler.errors import IRError
from compiler.ir.base import Node
from compiler.lower import interp_threads
from compiler.lower.inject_barriers import inject_barriers
from compiler.lower.thread_memory import RaceError
from compiler.lower.thread_tensor import load_matrices, multiply
from compiler.script.entry import from_source
from compiler.tir import nodes as n
from compiler.tir import ptx_intrin as ptx
from compiler.tir.structural import structural_equal
from compiler.tir.visit import map_children
from compiler.topi.tensor_core import WarpTile, dense

TINY = WarpTile(32, 32, 16, (2, 1), 2)


def without(func: n.PrimFunc, name: str) -> n.PrimFunc:
    """`func` with no call of one operator."""

    def go(node: Node) -> Node:
        if isinstance(node, n.Evaluate) and getattr(getattr(node.value, "op", None), "name", "") == name:
            return n.Evaluate(n.IntImm("int32", 0))
        return map_children(node, go)

    body = go(func.body)
    assert isinstance(body, n.Stmt)
    return func.with_body(body)


def product(func: n.PrimFunc, dtype: str, m: int, n_: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(what the kernel gives, what it should give) of small whole numbers, which every dtype multiplies exactly."""
    rng = np.random.default_rng(7)
    x, w = rng.integers(-4, 5, (m, k)).astype(np.float32), rng.integers(-4, 5, (n_, k)).astype(np.float32)
    out = np.zeros((m, n_), np.float32)
    given = [a if dtype == "bfloat16" else a.astype(np.float16) for a in (x, w)]
    interp_threads.run(func, *given, out)
    return out, x @ w.T


@pytest.mark.parametrize(
    ("dtype", "tile", "sizes"),
    [
        ("float16", TINY, (64, 32, 48)),
        ("bfloat16", TINY, (32, 32, 32)),
        ("float16", WarpTile(16, 32, 32, (1, 2), 3), (16, 32, 96)),
    ],
)
def test_a_product_is_exact_and_without_a_race(dtype: str, tile: WarpTile, sizes: tuple[int, int, int]) -> None:
    found, wanted = product(inject_barriers(dense(*sizes, dtype, tile)), dtype, *sizes)
    np.testing.assert_array_equal(found, wanted)


def test_its_text_reads_back() -> None:
    func = dense(32, 32, 32, "bfloat16", TINY)
    assert structural_equal(from_source(func.script()), func)


def test_what_is_not_waited_for_has_not_arrived() -> None:
    func = inject_barriers(dense(32, 32, 32, "float16", TINY))
    found, _ = product(without(func, "tir.ptx_wait_group"), "float16", 32, 32, 32)
    assert np.isnan(found).all()  # shared memory as it was
    with pytest.raises(RaceError, match="_shared"):
        product(without(func, "tir.tvm_storage_sync"), "float16", 32, 32, 32)


def test_layouts_of_the_instructions() -> None:
    rows = [[100 * lane + e for e in range(8)] for lane in range(32)]
    loaded = load_matrices([("ldmatrix", 0, row, 0) for row in rows])
    assert loaded[0] == [0, 1, 800, 801, 1600, 1601, 2400, 2401]  # row 0, elements 0 and 1, of four matrices
    assert loaded[31][:2] == [706, 707]
    assert load_matrices([("ldmatrix", 0, row, 1) for row in rows])[4][:2] == [1, 101]  # column 1
    a, b = [[0.0] * 8 for _ in range(32)], [[0.0] * 4 for _ in range(32)]
    a[5][6] = 2.0  # row 1 + 8, column 2 + 8
    b[13][2] = 3.0  # row 2 + 8, column 3
    sums = multiply([("mma", 0, a[lane], b[lane], [1.0] * 4) for lane in range(32)])
    changed = {(lane, i): value for lane in range(32) for i, value in enumerate(sums[lane]) if value != 1.0}
    assert changed == {(5, 3): 7.0}  # row 9, column 3


@pytest.mark.parametrize(("arch", "dtype"), [("sm_80", "float16"), ("sm_90a", "bfloat16"), ("sm_100a", "float16")])
def test_ptx(arch: str, dtype: str) -> None:
    artifact = compile_artifact(dense(512, 512, 512, dtype), f"cuda -arch={arch}")
    text = artifact.blobs["ptx"].decode()
    kind = {"float16": "f16", "bfloat16": "bf16"}[dtype]
    assert text.count(f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32") == 32
    assert text.count("ldmatrix.sync.aligned.m8n8.x4") == 12
    assert "cp.async.cg.shared.global" in text
    [entry] = artifact.entries
    assert entry.outputs == (2,)
    [launch] = entry.launches
    assert (launch.grid, launch.block) == (("4", "4", "1"), (32, 8, 1))
    assert launch.shared_bytes == 61_440  # more than static shared memory holds
    said = assemble(artifact.blobs["ptx"], arch)
    assert PTXAS is None or "0 bytes stack frame, 0 bytes spill stores" in said


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(IRError, match="a 100 x 128 x 64 product is not made of"):
        dense(100, 128, 64)
    with pytest.raises(IRError, match="not float32"):
        dense(128, 128, 64, "float32")
    data = n.Var("data", "handle")
    with pytest.raises(IRError, match="there is no ptx_mma"):
        ptx.ptx_mma("float32", "m8n8k4", "row", "col", "fp16", "fp16", "fp32", data, 0, data, 0, data, 0)
    with pytest.raises(IRError, match="4, 8 or 16 bytes, not 12"):
        ptx.ptx_cp_async("float16", data, 0, data, 0, 12)
    with pytest.raises(IRError, match="load four"):
        ptx.ptx_ldmatrix("float16", False, 2, ".b16", data, 0, data, 0)
