"""Products on Intel's matrix unit: what is computed, the code for it, and that nothing else is moved in its loop."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest

from compiler import topi
from compiler.codegen.llvm.writer import NO_TILES
from compiler.driver.build import compile_artifact
from compiler.driver.pipeline import lower_func
from compiler.errors import CodegenError
from compiler.interp.interpreter import run
from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace, walk
from compiler.runtime.core import native
from compiler.runtime.core.code.cpu_function import kernel_failure
from compiler.target.cpu_features import host_cpu
from compiler.target.target import Target
from compiler.te.operation import compute, placeholder, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.prim_func import create_prim_func
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimFunc
from compiler.topi import nn
from tests.kit.compiler.narrow.amx_in_software import target_with_tiles
from tests.kit.compiler.narrow.products import computed, numbers, operands, product
from tests.kit.tuner.sketch_points import at_point
from tuner.space.generate import generate
from tuner.task import TuningTask

SAPPHIRE = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=2")
CASES = {  # sketch: dtypes of the operands and the sums, the instruction
    "amx_bf16": ("bfloat16", "bfloat16", "float32", "tdpbf16ps"),
    "amx_s8s8": ("int8", "int8", "int32", "tdpbssd"),
    "amx_s8u8": ("int8", "uint8", "int32", "tdpbsud"),
    "amx_u8s8": ("uint8", "int8", "int32", "tdpbusd"),
    "amx_u8u8": ("uint8", "uint8", "int32", "tdpbuud"),
}


def scheduled(
    name: str, shape: tuple[int, int, int], transposed: bool = False, free: tuple[int, ...] = (), **wanted: int
) -> PrimFunc:
    a, b, c, _ = CASES[name]
    func = product(shape, a, b, c, transposed)
    func = func.with_attr("layout_free_buffers", list(free)) if free else func
    [sketch] = [s for s in generate(func, SAPPHIRE) if s.name == name]
    point = [d.values.index(wanted.get(d.name, 1)) for d in sketch.decisions]
    assert sketch.is_allowed(point)
    return at_point(func, sketch, point)


@pytest.mark.parametrize(
    ("name", "transposed", "free"),
    [
        *((name, False, ()) for name in CASES), ("amx_bf16", True, ()), ("amx_s8u8", True, ()),
        ("amx_bf16", False, (0, 1)), ("amx_s8s8", True, (1,)),
    ],
)  # fmt: skip
def test_tiles_are_multiplied(name, transposed, free):
    a, b, c, _ = CASES[name]
    shape = (32, 32, 128 if c == "int32" else 64)
    func = scheduled(name, shape, transposed, free, rows=2, columns=2)
    held = operands(shape, a, b)
    x, y = (numbers(h) if c == "float32" else h.astype("int32") for h in held)
    held[1] = np.ascontiguousarray(held[1].T) if transposed else held[1]
    out = np.zeros(shape[:2], c)
    run(lower_func(func, 512), *held, out)
    np.testing.assert_allclose(out, x @ y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(32, 32, 4096), (128, 128, 1024)])
@pytest.mark.parametrize("name", ["amx_bf16", "amx_u8s8"])
def test_the_loop_holds_four_tiles_of_sums(name, shape):
    func = scheduled(name, shape, rows=2, columns=2, panel=shape[1] // 64 or 1)
    asm = compile_artifact(func, SAPPHIRE, name="main", keep=("asm",)).blobs["asm"].decode()
    instruction = CASES[name][3]
    inner = max(re.split(r"\.LBB\w+:", asm), key=lambda loop: loop.count(instruction))
    assert inner.count(instruction) % 4 == 0
    assert inner.count("tileloadd") == inner.count(instruction)  # two rows and two columns of operands
    between = inner[inner.index(instruction) : inner.rindex(instruction)]
    assert "tilestored" not in between
    assert "zmm" not in between
    assert asm.count("ldtilecfg") == asm.count("tilerelease") == 1


@pytest.mark.parametrize(("transposed", "instruction"), [(False, "vpermt2w"), (True, "vpermt2d|vpunpck|vshuf")])
def test_columns_are_packed_by_shuffles_of_whole_vectors(transposed, instruction):
    func = scheduled("amx_bf16", (128, 128, 1024), transposed, columns=2)
    asm = compile_artifact(func, SAPPHIRE, name="main", keep=("asm",)).blobs["asm"].decode()
    assert len(re.findall(instruction, asm)) >= 16
    assert not re.search("vpinsrw|movw\\t%[a-z]+, .*\\(%r", asm)


def test_what_follows_is_computed_where_tiles_are_copied_to_their_places():
    """Bias, relu and a cast, in one pass over the results."""
    shape = (32, 64, 64)
    x, y = (placeholder(s, "bfloat16", name=w) for s, w in zip(((32, 64), (64, 64)), "AB"))
    k, bias = reduce_axis((0, 64), name="k"), placeholder((64,), "float32", name="bias")
    c = compute((32, 64), lambda i, j: te_sum(x[i, k].astype("float32") * y[k, j].astype("float32"), axis=k))
    func = create_prim_func([x, y, bias, topi.cast(nn.relu(topi.add(c, bias)), "bfloat16")])
    [sketch] = [s for s in generate(func, SAPPHIRE) if s.name == "amx_bf16"]
    point = sketch.random(np.random.default_rng(0))
    made = at_point(func, sketch, point)
    whole = [b for b in allocated(made) if [int(e) for e in b.shape] == list(shape[:2])]
    assert not whole, "the results lie in memory before they are finished"
    held = [*operands(shape, "bfloat16", "bfloat16"), np.linspace(-1, 1, 64, dtype="float32")]
    out = np.zeros(shape[:2], "uint16")
    run(lower_func(made, 512), *held, out)
    expected = np.maximum(numbers(held[0]) @ numbers(held[1]) + held[2], 0)
    np.testing.assert_allclose(numbers(out), expected, rtol=1e-2, atol=1e-5)


def allocated(func: PrimFunc) -> list[n.Buffer]:
    return [b for node in walk(func.body) if isinstance(node, n.Block) for b in node.alloc_buffers]


def test_rows_that_are_no_tile_are_refused():
    func = scheduled("amx_bf16", (32, 32, 64))

    def without_the_last(node: Node) -> Node:
        if isinstance(node, n.Call) and getattr(node.op, "name", "") == "tir.x86_amx_rows":
            return replace(node, args=(*node.args[:-1], node.args[0]))
        return map_children(node, without_the_last)

    with pytest.raises(CodegenError, match="equally far apart"):
        compile_artifact(func.with_body(without_the_last(func.body)), SAPPHIRE, name="main")


def test_vectors_are_tried_beside_tiles_and_alone_where_tiles_do_not_fit():
    a, b, c, _ = CASES["amx_u8s8"]
    assert [s.name for s in generate(product((32, 32, 64), a, b, c), SAPPHIRE)] == ["amx_u8s8", "dot_16x4_vnni"]
    assert [s.name for s in generate(product((8, 32, 64), a, b, c), SAPPHIRE)] == ["dot_16x4_vnni"]
    without = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=icelake-server")
    assert [s.name for s in generate(product((32, 32, 64), a, b, c), without)] == ["dot_16x4_vnni"]


@pytest.mark.parametrize(
    ("workload", "unit"), [("matmul:32,32,64:bfloat16", "amx_bf16"), ("dense:32,32,64:int8", "amx_s8s8")]
)
def test_products_named_in_a_line_are_tried_on_the_unit(workload, unit):
    task = TuningTask.from_spec(workload, SAPPHIRE)
    assert generate(task.func, task.target)[0].name == unit


def test_points_fit_eight_tile_registers():
    a, b, c, _ = CASES["amx_bf16"]
    sketch = generate(product((192, 192, 64), a, b, c), SAPPHIRE)[0]
    points = [sketch.random(np.random.default_rng(seed)) for seed in range(40)]
    sizes = {(v["rows"], v["columns"]) for v in (sketch.values(p) for p in points if p is not None)}
    assert (2, 2) in sizes
    assert all(rows * columns + min(rows, columns) + 1 <= 8 for rows, columns in sizes)


def test_the_system_is_asked_for_the_unit_before_it_is_used():
    func = scheduled("amx_bf16", (32, 16, 64))
    text = compile_artifact(func, SAPPHIRE, name="main").blobs["ll"].decode()
    asked = text.index("call i32 @tunefarm_tiles()")
    assert text.index('define internal i32 @"main.run"') < asked < text.index('define void @"main"')
    other = compile_artifact(product((8, 8, 8), *CASES["amx_bf16"][:3]), SAPPHIRE, name="main")
    assert "tunefarm_tiles" not in other.blobs["ll"].decode()
    assert "does not let this process use" in str(kernel_failure("main", NO_TILES))


def test_the_runtime_asks_linux():
    tiles = ctypes.CFUNCTYPE(ctypes.c_int32)(native.load().exports["tunefarm_tiles"])
    assert tiles() == ("amx-tile" in host_cpu().features)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_machine_code_gives_the_same(name, transposed, monkeypatch):
    target = target_with_tiles(monkeypatch)
    a, b, c, _ = CASES[name]
    shape = (64, 96, 256)
    func = scheduled(name, shape, transposed, rows=2, columns=2)
    left, right = operands(shape, a, b)
    wanted = np.matmul(*((numbers(h) if c == "float32" else h).astype(c) for h in (left, right)))
    held = [left, np.ascontiguousarray(right.T) if transposed else right, np.zeros(wanted.shape, c)]
    np.testing.assert_allclose(computed(func, target, held), wanted, rtol=1e-4, atol=1e-4)


def test_code_for_a_cpu_without_the_unit_is_refused():
    func = scheduled("amx_bf16", (32, 16, 64))
    with pytest.raises(CodegenError, match="amx-bf16"):
        compile_artifact(func, Target("llvm -mtriple=x86_64-linux-gnu -mcpu=icelake-server"), name="main")
