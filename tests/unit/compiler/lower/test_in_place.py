"""Loops annotated with `in_place`: which temporaries are kept where the result will be, and which are not."""

from __future__ import annotations

import numpy as np
import pytest

from compiler import topi
from compiler.driver.build import compile_artifact
from compiler.driver.pipeline import lower_func
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.load import load_artifact
from compiler.schedule.core.schedule import Schedule
from compiler.script.entry import from_source
from compiler.target.target import Target
from compiler.te.operation import placeholder
from compiler.te.prim_func import create_prim_func
from tests.kit.tuner.sketch_points import at_point
from tuner.space.generate import generate

HEAD = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    A = T.match_buffer(a, (8, 64), "float32")
    C = T.match_buffer(c, (8, 64), "float32")
    for i in range(8):
        with T.block("row"):
            T.reads()
            T.writes()
            B = T.alloc_buffer((8, 64), "float32")
"""
MADE = "for j in range(64): B[i, j] = A[i, j] + T.float32(1)"
STORED = """for k in T.serial(64, annotations={"in_place": 1}): C[i, k] = B[i, k] * B[i, 0]"""
PLAIN = STORED.replace(" * B[i, 0]", " * T.float32(2)")


def lowered(*statements: str) -> str:
    return lower_func(from_source(HEAD + "".join(f"            {s}\n" for s in statements))).script()


def kept(text: str) -> bool:
    """Whether the temporary has memory of its own."""
    assert "in_place" not in text
    return "T.allocate" in text


def test_a_temporary_takes_the_place_of_the_result():
    text = lowered(MADE, PLAIN)
    assert not kept(text)
    assert text.count("C_1[") == 3


def test_other_statements_may_read_it_before():
    assert not kept(lowered(MADE, "for j in range(64): A[i, j] = B[i, 63 - j]", PLAIN))


@pytest.mark.parametrize(
    "statements",
    [
        (MADE, PLAIN.replace('annotations={"in_place": 1}', 'annotations={"other": 1}')),  # not asked for
        (MADE, STORED),  # reads another element, which may have the result by then
        (MADE, PLAIN.replace("C[i, k]", "C[i, 63 - k]")),
        (MADE, PLAIN, "for j in range(64): A[i, j] = B[i, j]"),  # used afterwards
        (MADE, "for j in range(64): A[i, j] = C[i, j]", PLAIN),  # what the result held is read
        (MADE, PLAIN.replace("serial(64", "serial(32")),  # elements that the result does not get
        (MADE.replace("range(64)", "range(32)"), PLAIN),
        (MADE.replace("B[i, j]", "B[i, j // 2]"), PLAIN),
        ("for j in range(64):", "    if A[i, j] > T.float32(0): B[i, j] = A[i, j]", PLAIN),  # some perhaps not made
        (MADE, MADE, PLAIN),
        (MADE, "for n in range(2):", "    " + PLAIN),  # done twice
    ],
)  # fmt: skip
def test_where_something_could_go_wrong_it_keeps_its_memory(statements):
    assert kept(lowered(*statements))


def test_other_shapes_and_dtypes_stay():
    text = HEAD + f"            {MADE}\n            {PLAIN}\n"
    longer = text.replace("B = T.alloc_buffer((8, 64)", "B = T.alloc_buffer((8, 65)")
    assert kept(lower_func(from_source(longer)).script())
    bits = text.replace('B = T.alloc_buffer((8, 64), "float32")', 'B = T.alloc_buffer((8, 64), "int32")')
    for there, back in (("A[i, j] + T.float32(1)", "int32"), ("B[i, k]", "float32")):
        bits = bits.replace(there, f'T.reinterpret("{back}", {there})')
    assert kept(lower_func(from_source(bits)).script())


def test_on_gpus_it_says_nothing():
    sch = Schedule(from_source(HEAD + f"            {MADE}\n            {PLAIN}\n"), seed=0)
    sch.bind(sch.get_loops(sch.get_block("row"))[0], "blockIdx.x")
    assert kept(lower_func(sch.func).script())


@pytest.mark.parametrize("task", [1, 8])
def test_exponentials_of_a_softmax_have_no_memory_of_their_own(task):
    """Where a vector is a line; results stored past the caches are not read again."""

    def scheduled(cpu, shape):
        target = Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu} -num-cores=1")
        x = placeholder(shape, name="X")
        func = create_prim_func([x, topi.nn.softmax(x)])
        [sketch] = generate(func, target)
        values = {"vectors": 2, "steps": 2, "task": task}
        point = tuple(d.values.index(values[d.name]) for d in sketch.decisions)
        return at_point(func, sketch, point)

    def alone(func):
        return "T_softmax_exp = T.allocate" in lower_func(func).script()

    here = scheduled("skylake-avx512", (128, 512))
    assert not alone(here)
    assert alone(scheduled("x86-64-v3", (128, 512)))
    assert alone(scheduled("skylake-avx512", (1 << 14, 512)))
    x = np.random.default_rng(0).standard_normal((128, 512)).astype("float32")
    x[3, 5], x[4, 6], x[5, 7] = np.nan, -np.inf, 80.0
    out = empty(x.shape, "float32")
    load_artifact(compile_artifact(here, Target("llvm -num-cores=1").resolved(), name="main"))["main"](array(x), out)
    power = np.exp(x - x.max(-1, keepdims=True))
    np.testing.assert_allclose(out.numpy(), power / power.sum(-1, keepdims=True), rtol=1e-5, atol=1e-8)
