"""Sketches of row functions and reductions: every point builds and computes the right thing."""

from __future__ import annotations

import re

import numpy as np
import pytest

from compiler import topi
from compiler.driver.build import build, compile_artifact
from compiler.driver.pipeline import lower_func
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.load import load_artifact
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from compiler.te.operation import placeholder
from compiler.te.prim_func import create_prim_func
from tests.kit.tuner.sketch_points import at_point, random_point
from tuner.space.analysis import blocks_of
from tuner.space.generate import generate

TARGET = Target("llvm -num-cores=2").resolved()
EIGHT_LANES = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3 -num-cores=2")


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x, gamma, beta):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * gamma + beta


CASES = {
    "softmax": (((9, 203),), topi.nn.softmax, softmax, {"rows"}),
    "softmax of small rows": (((5, 3, 6),), topi.nn.softmax, softmax, {"rows"}),
    "layer_norm": (((300, 130), (130,), (130,)), topi.nn.layer_norm, layer_norm, {"rows"}),
    "sum of rows": (((400, 101),), lambda x: topi.sum(x, -1), lambda x: x.sum(-1), {"rows"}),
    "max of rows": (((7, 65),), lambda x: topi.max(x, -1), lambda x: x.max(-1), {"rows"}),
    "sum of columns": (((64, 77),), lambda x: topi.sum(x, 0), lambda x: x.sum(0), {"panels", "deep"}),
    "few long rows": (((2, 40000),), lambda x: topi.sum(x, -1), lambda x: x.sum(-1), {"rows", "parts"}),
    "rows of images": (((5, 36, 300),), lambda x: topi.sum(x, -1), lambda x: x.sum(-1), {"rows"}),
    "sum of all": (((200, 203),), topi.sum, lambda x: x.sum(), {"parts"}),
    "global pooling": (((2, 24, 7, 7),), lambda x: topi.nn.global_pool(x, "avg"),
                       lambda x: x.mean((2, 3), keepdims=True), {"rows"}),
    "mean of even images": (((3, 40, 14, 14),), lambda x: topi.mean(x, (2, 3)), lambda x: x.mean((2, 3)), {"rows"}),
    "largest of prime images": (((2, 600, 1, 5),), lambda x: topi.max(x, (2, 3)), lambda x: x.max((2, 3)), {"rows"}),
    "adaptive pooling to one": (((2, 64, 8, 6),), lambda x: topi.nn.adaptive_pool(x, (1, 1), "avg"),
                                lambda x: x.mean((2, 3), keepdims=True), {"rows"}),
    "root of the mean of squares": (((90, 301),), lambda x: topi.sqrt(topi.mean(topi.square(x), -1, keepdims=True)),
                                    lambda x: np.sqrt((x * x).mean(-1, keepdims=True)), {"rows"}),
    "distance of rows": (((90, 65), (90, 65)), lambda x, y: topi.sum(topi.abs(topi.subtract(x, y)), -1),
                         lambda x, y: abs(x - y).sum(-1), {"rows"}),
    "product with a vector": (((1, 130), (75, 130)), topi.nn.dense, lambda x, w: x @ w.T, {"rows"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_sketch_agrees_with_numpy(name):
    shapes, make, reference, sketches = CASES[name]
    tensors = [placeholder(shape, name=f"X{i}") for i, shape in enumerate(shapes)]
    func = create_prim_func([*tensors, make(*tensors)])
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    expected = np.asarray(reference(*args))
    found = generate(func, TARGET)
    assert {sketch.name for sketch in found} == sketches
    for sketch in found:
        for _ in range(2):
            point = random_point(sketch, rng)
            scheduled = at_point(func, sketch, point)
            module = load_artifact(compile_artifact(scheduled, TARGET, name="main"))
            out = empty(expected.shape, "float32")
            module["main"](*map(array, args), out)
            np.testing.assert_allclose(
                out.numpy(), expected, rtol=1e-3, atol=2e-3, err_msg=f"{sketch.name} {sketch.values(point)}"
            )
            assert 0 <= sketch.score(point) <= 1


def test_rows_that_are_only_reduced_are_read_several_at_a_time():
    offered = {}
    for name in ("sum of rows", "rows of images", "sum of all", "max of rows", "softmax"):
        shapes, make, _, _ = CASES[name]
        tensors = [placeholder(shape, name=f"X{i}") for i, shape in enumerate(shapes)]
        sketch = generate(create_prim_func([*tensors, make(*tensors)]), EIGHT_LANES)[-1]
        decisions = {d.name: d.values for d in sketch.decisions}
        assert ("steps" in decisions) == (name == "softmax")
        offered[name] = decisions.get("abreast")
        together = {**dict.fromkeys(decisions, 2), "abreast": 8}
        assert not sketch.allowed({**together, "vectors": 4})  # 16 registers
        assert sketch.allowed(together) == ("parts" not in decisions)
    assert offered["sum of rows"] == (1, 2, 4, 8)
    assert offered["rows of images"] == (1, 2, 4)
    assert offered["sum of all"] == (1, 2, 4, 8)
    assert offered["max of rows"] is None  # too few to share
    assert offered["softmax"] is None


@pytest.mark.parametrize(
    ("cpu", "dtype", "most"), [("x86-64-v3", "float32", 8), ("skylake-avx512", "float32", 16), ("znver3", "float64", 8)]
)
def test_more_rows_together_where_a_vector_is_a_line(cpu, dtype, most):
    target = Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu} -num-cores=1")
    x = placeholder((64, 4096), dtype, name="X")
    for make in (lambda: topi.sum(x, -1), lambda: topi.sum(x)):
        sketch = generate(create_prim_func([x, make()]), target)[-1]
        [abreast] = [d.values for d in sketch.decisions if d.name == "abreast"]
        assert max(abreast) == most
        values = {"vectors": 1, "task": 1, "parts": 16, "abreast": most}
        assert sketch.allowed({d.name: values[d.name] for d in sketch.decisions})


@pytest.mark.parametrize("name", ["softmax", "layer_norm"])
def test_the_next_row_is_asked_for_while_one_is_computed(name):
    """Where rows come from a cache that is far, a vector is a line, and near caches hold two rows and their results."""
    _, make, _, _ = CASES[name]
    inputs = 1 if name == "softmax" else 3

    def asked(count, length, target):
        """How many lines one step asks for, and how many steps ahead."""
        shapes = ((count, length), (length,), (length,))[:inputs]
        func = create_prim_func([*(x := [placeholder(s, name=f"X{i}") for i, s in enumerate(shapes)]), make(*x)])
        [sketch] = generate(func, target)
        values = {"vectors": 8, "steps": 4, "task": 1}
        assert {d.name for d in sketch.decisions} == set(values)
        point = tuple(d.values.index(values[d.name]) for d in sketch.decisions)
        scheduled = at_point(func, sketch, point)
        source = build(scheduled, target=target).get_source("asm")
        steps = re.findall(
            r"T\.prefetch\(X0_1\[.* \+ (\d+)\) \* \d+", lower_func(scheduled, target.vector_bits).script()
        )
        assert (source.count("prefetcht0") > 0) == bool(steps)
        return [int(ahead) for ahead in steps]

    target = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=1")
    assert asked(512, 1024, target) == [16] * 4
    assert asked(16, 1 << 15, target) == [512] * 4
    assert asked(8, 1 << 16, target) == []  # long rows
    assert asked(128, 1024, target) == []  # all of it stays near
    assert asked(512, 1024, EIGHT_LANES) == []


def test_rows_read_together_are_summed_in_registers():
    """Each row's partial sums stay in vectors: nothing in the loop over them is written to memory."""
    target = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=2")
    x = placeholder((64, 4096), name="X")
    func = create_prim_func([x, topi.sum(x, -1)])
    [sketch] = generate(func, target)
    point = [d.values.index({"vectors": 2, "task": 1, "abreast": 4}[d.name]) for d in sketch.decisions]
    scheduled = at_point(func, sketch, point)
    text = build(scheduled, target=target).get_source("asm")
    blocks = [block for block in re.split(r"^\.L\w+:", text, flags=re.MULTILINE) if block.count("vaddps") >= 8]
    [loop] = [block.partition("\tj")[0] for block in blocks]
    assert loop.count("vaddps\t") >= 8
    assert not re.search(r"vmov\w+\t%[xy]mm\d+, .*\(", loop)


@pytest.mark.parametrize("columns", [128, 203, 16])
def test_few_numbers_are_added_one_after_the_other(columns):
    """Each would wait for the one before: a vector becomes four first."""
    x = placeholder((64, columns), name="x")
    func = create_prim_func([x, topi.sum(x, -1)])
    for target in (EIGHT_LANES, Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4 -num-cores=1")):
        sketch = next(s for s in generate(func, target) if s.name == "rows")
        sch = Schedule(at_point(func, sketch, random_point(sketch, np.random.default_rng(0))))
        last = [b for b in blocks_of(sch.func) if b.output.buffer in func.buffer_map.values()]
        assert [b.reduced[-1].extent for b in last] == [4]


def test_sums_of_columns_read_whole_pages_of_few_rows():
    x = placeholder((4096, 4096), name="X")
    sketches = {sketch.name: sketch for sketch in generate(create_prim_func([x, topi.sum(x, 0)]), EIGHT_LANES)}
    wide = {"depth": 8, "rows": 1, "vectors": 4, "panel": 128, "unroll": 2}
    assert sketches["deep"].allowed(wide)
    assert not sketches["deep"].allowed({**wide, "depth": 64})
    assert not sketches["deep"].allowed({**wide, "panel": 2})
