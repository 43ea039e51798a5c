"""Tensor cores: the warp's instructions as the interpreter does them, and a matrix product made of them."""

from __future__ import annotations

import numpy as np
import pytest

from compiler import topi
from compiler.driver.build import compile_artifact, lower
from compiler.errors import IRError, LoweringError
from compiler.interp import interpreter as interp
from compiler.interp import threads as interp_threads
from compiler.interp.thread_blocks import load_matrices, multiply
from compiler.interp.thread_memory import RaceError
from compiler.ir.base import Node
from compiler.ir.structural import structural_equal
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import map_children
from compiler.lower.gpu.inject_barriers import inject_barriers
from compiler.schedule.core.schedule import Schedule
from compiler.script.entry import from_source
from compiler.te.operation import placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tensorcore.tensor_core import WarpTile, dense
from compiler.tensorcore.warp_fetch import place
from compiler.tir import nodes as n
from compiler.tir.intrin import ptx as ptx
from tests.kit.gpu.checks import PTXAS, assemble

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


def product(
    func: n.PrimFunc, dtype: str, m: int, n_: int, k: int, transposed: bool = True, out_dtype: str = "float32"
) -> tuple[np.ndarray, np.ndarray]:
    """(what the kernel gives, what it should give) of small whole numbers, which every dtype multiplies exactly."""
    rng = np.random.default_rng(7)
    x, w = rng.integers(-4, 5, (m, k)).astype(np.float32), rng.integers(-4, 5, (n_, k)).astype(np.float32)
    out = np.zeros((m, n_), np.float32 if out_dtype == "bfloat16" else out_dtype)
    given = [a if dtype == "bfloat16" else a.astype(np.float16) for a in (x, w if transposed else w.T.copy())]
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


@pytest.mark.parametrize("tile", [TINY, WarpTile(16, 64, 64, (1, 2), 2), WarpTile(32, 32, 96, (2, 1), 2)])
def test_a_product_with_a_matrix_that_lies_in_rows(tile: WarpTile) -> None:
    func = inject_barriers(dense(32, 64, 192, "float16", tile, transposed=False, out_dtype="float16"))
    found, wanted = product(func, "float16", 32, 64, 192, False, "float16")
    np.testing.assert_array_equal(found, wanted)


def eval_index(index: n.PrimExpr) -> int:
    """The value of an index without variables."""
    out = np.zeros(1, np.int32)
    buffer = n.decl_buffer((1,), "int32", "out")
    param = n.Var("p", "handle")
    interp.run(
        n.PrimFunc((param,), n.BufferStore(buffer, index, (n.IntImm("int32", 0),)), buffer_map={param: buffer}), out
    )
    return int(out[0])


def test_eight_rows_that_are_read_at_once_are_in_different_banks() -> None:
    """`ldmatrix` reads 16 bytes of each of eight rows: together one 128 bytes of banks."""
    zero = n.IntImm("int32", 0)
    for width in (16, 32, 64, 128):
        for chunk in range(width // 8):
            rows = [place(zero, (8, width), n.IntImm("int32", row), n.IntImm("int32", chunk), 8) for row in range(8)]
            places = [eval_index(row) // 8 % 8 for row in rows]
            assert len(set(places)) == 8


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
    artifact = compile_artifact(dense(512, 512, 512, dtype, WarpTile(stages=4)), f"cuda -arch={arch}")
    text = artifact.blobs["ptx"].decode()
    kind = {"float16": "f16", "bfloat16": "bf16"}[dtype]
    assert text.count(f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32") == 32
    assert text.count("ldmatrix.sync.aligned.m8n8.x4") == 12
    assert "cp.async.cg.shared.global" in text
    assert text.count("bar.sync") == 1  # of a step: copies arrive behind it, and are asked for
    [entry] = artifact.entries
    assert entry.outputs == (2,)
    [launch] = entry.launches
    assert (launch.grid, launch.block) == (("4", "4", "1"), (32, 8, 1))
    assert launch.shared_bytes == 65_536  # more than static shared memory holds
    said = assemble(artifact.blobs["ptx"], arch)
    assert PTXAS is None or "0 bytes stack frame, 0 bytes spill stores" in said


def test_blocks_that_ask_for_it_are_computed_by_warps() -> None:
    a, b = placeholder((32, 32), "bfloat16", name="a"), placeholder((32, 32), "bfloat16", name="b")
    schedule = Schedule(create_prim_func([a, b, topi.matmul(a, b)]))
    tile = {"m": 32, "n": 32, "k": 16, "stages": 2, "warps_m": 1, "warps_n": 2}
    for name, value in tile.items():
        schedule.annotate("T_matmul", f"warp_tile.{name}", value)
    assert "ptx_mma" in lower(schedule).script()
    with PassContext():
        assert "ptx_mma" in lower(schedule).script()
    schedule.annotate("T_matmul", "warp_tile.k", 13)
    with pytest.raises(IRError, match="is not made of"):
        lower(schedule)
    schedule.unannotate("T_matmul", "warp_tile.k")
    with pytest.raises(LoweringError, match="a warp tile has"):
        lower(schedule)
    c = placeholder((32, 32), name="c")
    other = Schedule(create_prim_func([c, topi.exp(c)]))
    other.annotate("T_exp", "warp_tile.m", 16)
    with pytest.raises(LoweringError, match="no product of two matrices that tensor cores compute"):
        lower(other)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(IRError, match="a product with sums of 64 is not made of"):
        dense(128, 128, 64, tile=WarpTile(m=100))
    with pytest.raises(IRError, match="not float32"):
        dense(128, 128, 64, "float32")
    data = n.Var("data", "handle")
    with pytest.raises(IRError, match="there is no ptx_mma"):
        ptx.ptx_mma("float32", "m8n8k4", "row", "col", "fp16", "fp16", "fp32", data, 0, data, 0, data, 0)
    with pytest.raises(IRError, match="4, 8 or 16 bytes, not 12"):
        ptx.ptx_cp_async("float16", data, 0, data, 0, 12)
    with pytest.raises(IRError, match="load four"):
        ptx.ptx_ldmatrix("float16", False, 2, ".b16", data, 0, data, 0)
