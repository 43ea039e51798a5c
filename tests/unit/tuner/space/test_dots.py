"""Products in narrow numbers by instructions for groups: what is computed, and that the instructions are used."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest

from compiler.driver.build import compile_artifact
from compiler.driver.pipeline import lower_func
from compiler.errors import CodegenError
from compiler.interp.interpreter import run
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from compiler.te.operation import compute, placeholder, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.prim_func import create_prim_func
from compiler.te.tensor import Tensor
from compiler.tir.intrin import intrin
from compiler.tir.nodes import ForKind, PrimFunc
from tests.kit.compiler.narrow.products import numbers, operands, product
from tests.kit.tuner.sketch_points import at_point, random_point
from tuner.space.generate import generate

SAPPHIRE, SKYLAKE, ZEN3, ALDER, ZEN5 = (
    Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu} -num-cores=2")
    for cpu in ("sapphirerapids", "skylake-avx512", "znver3", "alderlake", "znver5")
)
CASES = {  # target, sketch, dtypes, the instruction
    "vpdpbusd": (SAPPHIRE, "dot_16x4_vnni", "uint8", "int8", "int32", "vpdpbusd"),
    "vdpbf16ps": (SAPPHIRE, "dot_16x2_bf16", "bfloat16", "bfloat16", "float32", "vdpbf16ps"),
    "vdpbf16ps, Zen 5": (ZEN5, "dot_16x2_bf16", "bfloat16", "bfloat16", "float32", "vdpbf16ps"),
    "signed bytes, VNNI": (SAPPHIRE, "dot_16x2_int16", "int8", "int8", "int32", "vpdpwssd"),
    "signed bytes, AVX-512": (SKYLAKE, "dot_16x2_int16", "int8", "int8", "int32", "vpmaddwd"),
    "signed bytes, AVX2": (ZEN3, "dot_8x2_int16", "int8", "int8", "int32", "vpmaddwd"),
    "both kinds of bytes, AVX2": (ZEN3, "dot_8x2_int16", "uint8", "int8", "int32", "vpmaddwd"),
    "words, AVX2": (ZEN3, "dot_8x2_int16", "int16", "int16", "int32", "vpmaddwd"),
    "words, AVX-512": (SKYLAKE, "dot_16x2_int16", "int16", "int16", "int32", "vpmaddwd"),
    "AVX-VNNI": (ALDER, "dot_8x4_vnni", "uint8", "int8", "int32", "vpdpbusd"),
}
SHAPE = (5, 32, 16)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_instruction_is_used_and_right(case, transposed):
    target, name, a, b, c, instruction = CASES[case]
    func = product(SHAPE, a, b, c, transposed)
    [sketch] = [s for s in generate(func, target) if s.name == name]
    point = random_point(sketch, np.random.default_rng(0))
    scheduled = at_point(func, sketch, point)
    asm = compile_artifact(scheduled, target, name="main", keep=("asm",)).blobs["asm"].decode()
    assert instruction in asm
    held = operands(SHAPE, a, b)
    out = np.zeros(SHAPE[:2], c)
    x, y = (numbers(h) if a == "bfloat16" else h.astype("int32") for h in held)
    held[1] = np.ascontiguousarray(held[1].T) if transposed else held[1]
    run(lower_func(scheduled, target.vector_bits), *held, out)
    np.testing.assert_allclose(out, x @ y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("case", ["vpdpbusd", "vdpbf16ps, Zen 5"])
def test_batches_of_products_pack_each_matrix(case, transposed):
    """Heads of attention, say: with an axis of extent 1 before them, as models have it."""
    target, name, a, b, c, instruction = CASES[case]
    rows, columns, depth = SHAPE
    x = placeholder((1, 3, rows, depth), a, "x")
    y = placeholder((1, 3, columns, depth) if transposed else (1, 3, depth, columns), b, "y")
    k = reduce_axis((0, depth), "k")

    def value(one, h, i, j):
        right = y[one, h, j, k] if transposed else y[one, h, k, j]
        return te_sum(x[one, h, i, k].astype(c) * right.astype(c), axis=k)

    func = create_prim_func([x, y, compute((1, 3, rows, columns), value, name="z")])
    [sketch] = [s for s in generate(func, target) if s.name == name]
    rng = np.random.default_rng(0)
    scheduled = at_point(func, sketch, random_point(sketch, rng))
    asm = compile_artifact(scheduled, target, name="main", keep=("asm",)).blobs["asm"].decode()
    assert instruction in asm
    pairs = [operands(SHAPE, a, b) for _ in range(3)]
    left, right = (np.stack([pair[at] for pair in pairs])[None] for at in (0, 1))
    out = np.zeros((1, 3, rows, columns), c)
    given = np.ascontiguousarray(right.swapaxes(2, 3)) if transposed else right
    run(lower_func(scheduled, target.vector_bits), left, given, out)
    wide = [numbers(h) if a == "bfloat16" else h.astype("int32") for h in (left, right)]
    np.testing.assert_allclose(out, wide[0] @ wide[1], rtol=1e-5, atol=1e-5)


ONE_BY_ONE = r"vpinsr[bw]|mov[bw]\t%[a-z0-9]+, .*\(%r"  # an instruction that moves a narrow number


def heads(shape: tuple[int, ...], dtypes: tuple[str, ...], order: str, unit: tuple[int, ...] = ()) -> PrimFunc:
    """Products of 3 heads whose operands lie word by word. `order`: of the right operand's dimensions, h for heads.
    More dimensions of the extents `unit` are the first ones."""
    rows, columns, depth = shape
    sizes = {"h": 3, "j": columns, "k": depth}
    x = placeholder((*unit, rows, 3, depth), dtypes[0], "x")
    y = placeholder((*unit, *(sizes[dim] for dim in order)), dtypes[1], "y")

    def right(*at):
        *first, h, k, j = at
        return y(*first, *({"h": h, "j": j, "k": k}[dim] for dim in order))

    left = compute((*unit, 3, rows, depth), lambda *at: x(*at[:-3], at[-2], at[-3], at[-1]), name="left")
    turned = compute((*unit, 3, depth, columns), right, name="turned")
    k = reduce_axis((0, depth), "k")

    def value(*at):
        *first, h, i, j = at
        factors = left(*first, h, i, k), turned(*first, h, k, j)
        return te_sum(factors[0].astype(dtypes[2]) * factors[1].astype(dtypes[2]), axis=k)

    return create_prim_func([x, y, compute((*unit, 3, rows, columns), value, name="z")])


def check_heads(case: str, shape: tuple[int, int, int], order: str, unit: tuple[int, ...], seed: int) -> str:
    """Compare a random point's results with numpy's. Returns the assembly."""
    target, name, *dtypes, _ = CASES[case]
    func, rng = heads(shape, tuple(dtypes), order, unit), np.random.default_rng(seed)
    [sketch] = [s for s in generate(func, target) if s.name == name]
    scheduled = at_point(func, sketch, random_point(sketch, rng))
    pairs = [operands(shape, *dtypes[:2], seed=seed + head) for head in range(3)]
    x, y = (np.stack([pair[at] for pair in pairs]) for at in (0, 1))
    given = x.swapaxes(0, 1), np.einsum(f"hkj->{order}", y)
    out = np.zeros((*unit, 3, *shape[:2]), dtypes[2])
    held = [np.ascontiguousarray(g).reshape(*unit, *g.shape) for g in given]
    run(lower_func(scheduled, target.vector_bits), *held, out)
    wide = [numbers(h) if dtypes[0] == "bfloat16" else h.astype("int32") for h in (x, y)]
    np.testing.assert_allclose(out.reshape(3, *shape[:2]), wide[0] @ wide[1], rtol=1e-5, atol=1e-5)
    return compile_artifact(scheduled, target, name="main", keep=("asm",)).blobs["asm"].decode()


@pytest.mark.parametrize("unit", [(), (1,)])
@pytest.mark.parametrize("order", ["jhk", "hjk", "khj", "hkj"])
@pytest.mark.parametrize("case", ["vpdpbusd", "vdpbf16ps, Zen 5"])
def test_operands_are_packed_from_where_they_lie_by_shuffles(case, order, unit):
    """Attention's keys and values: nothing is copied before it is packed, nor moved number by number."""
    asm = check_heads(case, (5, 32, 64), order, unit, 0)
    assert not re.search(ONE_BY_ONE, asm)
    assert asm.count("tunefarm_parallel_for") <= 2  # that packs, and that multiplies


def moved(given: Tensor, turned: bool) -> Tensor:
    """A copy of a matrix, or of the transposed one."""
    shape = given.shape[::-1] if turned else given.shape
    return compute(shape, lambda i, j: given[j, i] if turned else given[i, j])


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("case", CASES)
def test_matrices_that_are_moved_first(case, turned):
    """Also where numbers are widened, and where the rows' operand is transposed, which is copied."""
    target, name, a, b, c, _ = CASES[case]
    held = operands(SHAPE, a, b)
    wide = [numbers(h) if a == "bfloat16" else h.astype("int32") for h in held]
    held = [np.ascontiguousarray(h.T) if way else h for h, way in zip(held, turned)]
    x, y = (placeholder(h.shape, dtype) for h, dtype in zip(held, (a, b)))
    left, right = moved(x, turned[0]), moved(y, turned[1])
    k = reduce_axis((0, SHAPE[2]), "k")
    z = compute(SHAPE[:2], lambda i, j: te_sum(left[i, k].astype(c) * right[k, j].astype(c), axis=k))
    func = create_prim_func([x, y, z])
    [sketch] = [s for s in generate(func, target) if s.name == name]
    scheduled, out = at_point(func, sketch, random_point(sketch, np.random.default_rng(0))), np.zeros(SHAPE[:2], c)
    run(lower_func(scheduled, target.vector_bits), *held, out)
    np.testing.assert_allclose(out, wide[0] @ wide[1], rtol=1e-5, atol=1e-5)


def test_random_heads():
    """Columns of any number of vectors, and reductions that fill no tile of words."""
    rng = np.random.default_rng(0)
    for seed in range(16):
        case = str(rng.choice(["vpdpbusd", "vdpbf16ps, Zen 5", "AVX-VNNI"]))
        shape = int(rng.integers(2, 9)), 16 * int(rng.integers(1, 4)), 4 * int(rng.integers(1, 35))
        order, unit = str(rng.choice(["jhk", "hjk", "khj", "hkj", "jkh", "kjh"])), (1,) * int(rng.integers(3))
        check_heads(case, shape, order, unit, seed)


@pytest.mark.parametrize("name", ["erf", "exp", "tanh"])
def test_what_takes_many_instructions_is_computed_after_a_tile(name):
    """It goes through the tile in a loop, and the products keep their registers."""
    rows, columns, depth = 12, 64, 32
    x, w = placeholder((rows, depth), "bfloat16", "x"), placeholder((depth, columns), "bfloat16", "w")
    k = reduce_axis((0, depth), "k")
    sums = compute((rows, columns), lambda i, j: te_sum(x[i, k].astype("float32") * w[k, j].astype("float32"), axis=k))
    last = compute((rows, columns), lambda i, j: intrin.call(f"tir.{name}", "float32", sums[i, j]), name="last")
    func = create_prim_func([x, w, last])
    [sketch] = [s for s in generate(func, ZEN5) if s.name == "dot_16x2_bf16"]
    rng = np.random.default_rng(0)
    for _ in range(3):
        scheduled = at_point(func, sketch, random_point(sketch, rng))
        sch = Schedule(scheduled)
        kinds = {sch.get(loop).kind for loop in sch.get_loops(sch.get_block("last"))}
        assert ForKind.UNROLLED not in kinds
        a, b = operands((rows, columns, depth), "bfloat16", "bfloat16")
        out = np.zeros((rows, columns), "float32")
        run(lower_func(scheduled, ZEN5.vector_bits), a, b, out)
        exact = numbers(a).astype("float64") @ numbers(b)
        wanted = np.vectorize(math.erf)(exact) if name == "erf" else getattr(np, name)(exact)
        np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-6)


def test_tiles_of_more_rows_are_drafted_where_columns_come_from_the_second_cache():
    """A row's columns of 64 bytes take two cycles from there."""
    for depth, least in ((64, 1), (768, 7)):
        func = product((128, 3072, depth), "bfloat16", "bfloat16", "float32")
        [sketch] = generate(func, Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver5 -num-cores=1"))
        best = max(
            (sketch.score(point), sketch.values(point)["rows"])
            for point in itertools.product(*(range(len(d.values)) for d in sketch.decisions))
            if sketch.is_allowed(point)
        )
        assert best[1] >= least, depth


def test_batches_of_bfloat16_are_widened_where_pairs_are_slow():
    """Pairs are only offered in the place of AMX's tiles on its CPUs."""

    def batch(columns: int):
        x, y = placeholder((3, 16, 32), "bfloat16", "x"), placeholder((3, 32, columns), "bfloat16", "y")
        k = reduce_axis((0, 32), "k")

        def value(h, i, j):
            return te_sum(x[h, i, k].astype("float32") * y[h, k, j].astype("float32"), axis=k)

        return create_prim_func([x, y, compute((3, 16, columns), value, name="z")])

    slow = Target(f"{SAPPHIRE} -mattr=-amx-tile")
    assert all("bf16" not in sketch.name for sketch in generate(batch(16), slow))
    assert any("bf16" in sketch.name for sketch in generate(batch(16), ZEN5))
    assert [sketch.name for sketch in generate(batch(16), SAPPHIRE)] == ["amx_bf16_windows", "dot_16x2_bf16"]


def test_sums_stay_in_registers():
    """The reduction's loop stores nothing."""
    _, name, a, b, c, instruction = CASES["signed bytes, AVX2"]
    func = product((6, 32, 64), a, b, c)
    [sketch] = [s for s in generate(func, ZEN3) if s.name == name]
    wanted = {"rows": 3, "vectors": 2, "panel": 1, "unroll": 1}
    point = [d.values.index(wanted[d.name]) for d in sketch.decisions]
    scheduled = at_point(func, sketch, point)
    asm = compile_artifact(scheduled, ZEN3, name="main", keep=("asm",)).blobs["asm"].decode()
    inner = max(re.split(r"\.LBB\w+:", asm), key=lambda loop: loop.count(instruction))
    between = inner[inner.index(instruction) : inner.rindex(instruction)]
    assert between.count(instruction) >= 5
    assert not re.search(r"vmov\w+\s+%[xyz]mm\d+, [-\d]*\(", between)


def test_no_unit_is_offered_where_none_fits():
    plain = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v2")
    a, b, c = CASES["vpdpbusd"][2:5]
    assert all("dot" not in sketch.name for sketch in generate(product(SHAPE, a, b, c), plain))
    assert all("dot" not in sketch.name for sketch in generate(product((5, 30, 16), a, b, c), SAPPHIRE))


@pytest.mark.parametrize(
    ("case", "attributes", "needed"),
    [("vpdpbusd", "", "avx512vnni$"), ("AVX-VNNI", "+avx512vnni", r"avxvnni or avx512vl \+ avx512vnni$")],
)
def test_code_for_a_cpu_without_the_unit_is_refused(case, attributes, needed):
    """Instructions of AVX-512 on shorter vectors are a feature of their own, without which LLVM ends the process."""
    target, name, *dtypes, _ = CASES[case]
    func = product(SHAPE, *dtypes)
    [sketch] = [s for s in generate(func, target) if s.name == name]
    point = random_point(sketch, np.random.default_rng(0))
    scheduled = at_point(func, sketch, point)
    other = Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -mattr={attributes}") if attributes else ZEN3
    with pytest.raises(CodegenError) as caught:
        compile_artifact(scheduled, other, name="main")
    assert re.search(needed, caught.value.message)
