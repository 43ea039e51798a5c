"""The elementary functions: error bounds, special values, and what the assembly looks like.

The bounds are those of docs/intrinsics.md, in units of the last place, with and without fused multiply-add.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from compiler.driver.build import compile_artifact
from compiler.target.target import Target
from compiler.tir import ops
from compiler.tir.intrin import intrin
from tests.kit.compiler.elementwise import PLAIN, Array, agree, by_machine, elementwise
from tests.kit.compiler.lowering import HOST
from tests.kit.docs_pages import ROOT


def erf(x: Array) -> Array:
    """2 / sqrt(pi) e^-x² times a sum of positive terms, which loses nothing (Abramowitz and Stegun, 7.1.6)."""
    wide, where = np.unique(np.clip(np.abs(x.astype(np.longdouble)), 0, 7), return_inverse=True)  # many past the end
    total, term, left = wide.copy(), wide, wide  # what is left of the numbers and of their sums: the sum of large ones
    for k in range(1, 250):  # goes on longest
        term = term * (2 * left * left) / (2 * k + 1)
        total[len(total) - len(left) :] += term
        first = int(np.argmax(~(term <= total[len(total) - len(left) :] * 1e-21)))
        term, left = term[first:], left[first:]
    result: Array = 2 / np.sqrt(np.longdouble("3.14159265358979323846264")) * np.exp(-wide * wide) * total
    return np.copysign(result[where], x)


def logistic(x: Array) -> Array:
    power = np.exp(-np.abs(x))
    result: Array = np.where(x >= 0, 1, power) / (1 + power)
    return result


REFERENCE: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(np.ones_like(x) * 10, x), "log": np.log,
    "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "tanh": np.tanh, "sigmoid": logistic, "erf": erf,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sinh": np.sinh, "cosh": np.cosh, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
}  # fmt: skip
FAR = {"sin", "cos", "tan"}  # of a float64 that is large, the C library's
TWO = {"pow": intrin.power, "atan2": intrin.atan2, "hypot": intrin.hypot, "fmod": intrin.fmod}


def bounds() -> dict[str, float]:
    """The table of the documentation: function → bound."""
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| ([\d.]+) \|", (ROOT / "docs" / "intrinsics.md").read_text(), re.MULTILINE)
    return {name: float(bound) for name, bound in rows}


BOUNDS = bounds()


def error(got: Array, want: Array) -> Array:
    """|got - want| in units of the last place of got's dtype; 0 where want rounds to got."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(want)
        place = np.ldexp(np.ones_like(want), np.maximum(exponent - 1, info.minexp) - info.nmant)
        same = (got == want.astype(got.dtype)) | (np.isnan(got) & np.isnan(want))
        distance = np.abs(got.astype(want.dtype) - want) / place
        return np.where(same, 0, np.where(np.isfinite(distance), distance, np.inf))


@lru_cache
def samples(dtype: str) -> Array:
    """All over the bits, all over the line, and the neighbourhood of where something changes."""
    rng = np.random.default_rng(11)
    whole = np.uint32 if dtype == "float32" else np.uint64
    bits = rng.integers(0, np.iinfo(whole).max, 60_000, dtype=whole, endpoint=True).view(dtype)
    line = np.concatenate([rng.standard_normal(40_000) * scale for scale in (1e-3, 0.3, 0.6, 3, 40, 800)])
    info = np.finfo(dtype)
    edges = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, math.sqrt(0.5), math.sqrt(2), 4.0, 9.5, 20.0, 2.0**20, -(2.0**20), 2.0**30,
             89.41598, 89.416, -0.5, 1.5, 6.0, 710.4758, 710.476, 88.0, 88.7228, 89.0,
             -87.3, -103.9, -104.0, 128.0, -126.0, -149.0, -150.0, 38.53, -37.9, -45.2, 709.78,
             -708.4, -745.1, 1024.0, -1074.0, 308.25, -323.6, info.max, info.tiny, info.smallest_subnormal,
             *(k * math.pi / 4 for k in range(1, 200)), 1e5 * math.pi, 710_000 * math.pi]  # fmt: skip
    with np.errstate(over="ignore"):
        near = np.array(edges).astype(dtype)
    steps = [near]
    with np.errstate(over="ignore"):
        for _ in range(3):
            steps.append(np.nextafter(steps[-1], np.asarray(np.inf, dtype)))
        steps += [np.nextafter(s, np.asarray(-np.inf, dtype)) for s in steps]
    special = np.array([np.inf, -np.inf, np.nan], dtype)
    return np.concatenate([bits, line.astype(dtype), *steps, special])


@lru_cache(maxsize=1)
def asked_and_wanted(name: str, dtype: str) -> tuple[Array, Array]:
    x = samples(dtype)
    with np.errstate(all="ignore"):
        return x, REFERENCE[name](x.astype(np.float64 if dtype == "float32" else np.longdouble))


@pytest.mark.parametrize("cpu", [HOST, PLAIN], ids=["host", "plain"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", list(REFERENCE))
def test_error_is_within_the_documented_bound(name: str, dtype: str, cpu: Target) -> None:
    x, wanted = asked_and_wanted(name, dtype)
    got = by_machine(elementwise([dtype], dtype, getattr(intrin, name), len(x)), [x], cpu)
    with np.errstate(all="ignore"):
        found = error(got, wanted)
    worst = int(found.argmax())
    assert found[worst] <= BOUNDS[name], f"{name}({x[worst]!r}) = {got[worst]!r} is {found[worst]} ulp off"


@pytest.mark.parametrize("cpu", [HOST, PLAIN], ids=["host", "plain"])
@pytest.mark.parametrize("limit", [-1.0, 0.0, 1.0, 32.0, 33.0])
@pytest.mark.parametrize(("dtype", "wide"), [("float32", np.float64), ("float64", np.longdouble)])
def test_exp_of_what_is_known_to_be_small(dtype: str, wide: Any, limit: float, cpu: Target) -> None:
    """The shorter code for exp(min(x, limit)) has the bound of exp."""
    x = samples(dtype)
    body = elementwise([dtype], dtype, lambda v: intrin.exp(ops.minimum(v, ops.const(limit, dtype))), len(x))
    with np.errstate(all="ignore"):
        found = error(by_machine(body, [x], cpu), np.exp(np.minimum(x, np.asarray(limit, dtype)).astype(wide)))
    assert found.max() <= BOUNDS["exp"]


@pytest.mark.parametrize("cpu", [HOST, PLAIN], ids=["host", "plain"])
@pytest.mark.parametrize(("dtype", "wide"), [("float32", np.float64), ("float64", np.longdouble)])
def test_power(dtype: str, wide: Any, cpu: Target) -> None:
    """Also of numbers near 1 to large powers, where the logarithm's error counts most, and of integers."""
    rng = np.random.default_rng(5)
    edges = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 2.5, 1e30, -1e30, 1e-45, 16777217.0,
                      2.0**53 + 2, -(2.0**53) - 2, 1e-310, 1e300, np.inf, -np.inf, np.nan])  # fmt: skip
    a, b = (v.ravel() for v in np.meshgrid(edges, edges))
    bases = [np.exp(rng.standard_normal(50_000) * 20), 1 + rng.standard_normal(50_000) * 2.0 ** rng.integers(-20, -2)]
    exponents = [rng.standard_normal(50_000) * 4, rng.standard_normal(50_000) * 3000]
    whole = [v.ravel() for v in np.meshgrid(np.arange(-40, 41), np.arange(-40, 41))]
    scales = np.exp(rng.standard_normal(50_000) * 150)
    near_limits = rng.uniform(-760, 760, 50_000) / np.log(scales)
    with np.errstate(all="ignore"):
        a = np.concatenate([a, *bases, whole[0], scales]).astype(dtype)
        b = np.concatenate([b, *exponents, whole[1], near_limits]).astype(dtype)
    got = by_machine(elementwise([dtype] * 2, dtype, intrin.power, len(a)), [a, b], cpu)
    with np.errstate(all="ignore"):
        want = np.power(a.astype(wide), b.astype(wide))
    assert error(got, want).max() <= BOUNDS["pow"]
    zeros = got == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 1e-45, -1e-45, 1.1754944e-38, 3e-39, 3.4028235e38, -3.4028235e38, 1e30,
         np.inf, -np.inf, np.nan]  # fmt: skip


def pairs() -> tuple[Array, Array]:
    """Every edge with every other, and pairs near in size and far apart."""
    rng = np.random.default_rng(6)
    a, b = (v.ravel() for v in np.meshgrid(*[np.array(EDGES, "float32")] * 2))
    spread = np.exp(rng.standard_normal((2, 40_000)) * 25) * rng.choice([-1, 1], (2, 40_000))
    near = rng.standard_normal((2, 40_000))
    with np.errstate(all="ignore"):
        x, y = np.concatenate([spread, near], 1).astype("float32")
    return np.concatenate([a, x]), np.concatenate([b, y])


@pytest.mark.parametrize("cpu", [HOST, PLAIN], ids=["host", "plain"])
@pytest.mark.parametrize(("name", "reference"), [("atan2", np.arctan2), ("hypot", np.hypot)])
@pytest.mark.parametrize(("dtype", "wide"), [("float32", np.float64), ("float64", np.longdouble)])
def test_angles_and_lengths(name: str, reference: Callable[..., Array], dtype: str, wide: Any, cpu: Target) -> None:
    a, b = pairs()
    if dtype == "float64":
        far = np.random.default_rng(9).permutation(samples("float64"))[:60_000]
        with np.errstate(all="ignore"):
            a, b = np.concatenate([a, far[::2], far[::3]]), np.concatenate([b, far[1::2], far[::3] * 0.7])
    got = by_machine(elementwise([dtype] * 2, dtype, getattr(intrin, name), len(a)), [a, b], cpu)
    with np.errstate(all="ignore"):
        want = reference(a.astype(wide), b.astype(wide))
    assert error(got, want).max() <= (0.51 if (name, dtype) == ("hypot", "float32") else BOUNDS[name])
    zeros = want == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


@pytest.mark.parametrize("cpu", [HOST, PLAIN], ids=["host", "plain"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_remainders_are_exact(dtype: str, cpu: Target) -> None:
    with np.errstate(all="ignore"):
        a, b = (v.astype(dtype) for v in pairs())
        whole = np.arange(1, 2000).astype(dtype)
        a, b = np.concatenate([a, whole * 3, whole]), np.concatenate([b, np.full_like(whole, 3), whole])
        want = np.fmod(a, b)
    numbers = ~np.isnan(want)
    for body in (intrin.fmod, ops.truncmod):
        got = by_machine(elementwise([dtype] * 2, dtype, body, len(a)), [a, b], cpu)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))


@pytest.mark.parametrize("cpu", [HOST, PLAIN], ids=["host", "plain"])
@pytest.mark.parametrize(("dtype", "most"), [("float32", 330), ("float64", 2300)])
def test_scaling_is_rounded_once(dtype: str, most: int, cpu: Target) -> None:
    x = samples(dtype)
    powers = np.random.default_rng(8).integers(-most, most, len(x)).astype("int32")
    powers[:4] = [2**31 - 1, -(2**31), 2**24 + 1, -(2**24) - 1]
    got = by_machine(elementwise([dtype, "int32"], dtype, intrin.ldexp, len(x)), [x, powers], cpu)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, np.ldexp(x, powers))


@pytest.mark.parametrize("name", [*REFERENCE, "sqrt"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_zeros_keep_their_sign_and_every_lane_its_bits(name: str, dtype: str) -> None:
    x = np.concatenate([np.array([0.0, -0.0], dtype), samples(dtype)[:: 1 if name == "sqrt" else 41]])
    function = getattr(intrin, name)
    vector, scalar = (
        by_machine(elementwise([dtype], dtype, function, len(x), lanes), [x]) for lanes in (8, len(x) + 1)
    )
    np.testing.assert_array_equal(vector, scalar)
    if name in ("tanh", "erf", "sin", "tan", "log1p", "sqrt", "sinh", "asin", "atan"):
        assert vector[:2].tolist() == [0, 0]
        assert np.signbit(vector[:2]).tolist() == [False, True]


@pytest.mark.parametrize("cpu", [HOST, PLAIN], ids=["host", "plain"])
@pytest.mark.parametrize("name", list(REFERENCE))
def test_float16_is_nearly_correctly_rounded(name: str, cpu: Target) -> None:
    x = np.arange(65536, dtype=np.uint16).view(np.float16)
    got = by_machine(elementwise(["float16"], "float16", getattr(intrin, name), 65536), [x], cpu)
    with np.errstate(all="ignore"):
        assert error(got, REFERENCE[name](x.astype(np.float64))).max() <= 0.51


TARGETS = {
    "avx2": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver3",
    "avx512": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512",
    "neon": "llvm -mtriple=aarch64-linux-gnu",
}
FLOAT64 = [*(name for name in REFERENCE if name not in FAR), "pow", "atan2", "hypot"]


@pytest.mark.parametrize("spec", TARGETS.values(), ids=list(TARGETS))
@pytest.mark.parametrize(
    ("dtype", "names"), [("float32", [*REFERENCE, *TWO]), ("float16", [*REFERENCE, *TWO]), ("float64", FLOAT64)]
)
def test_no_function_is_called(spec: str, dtype: str, names: list[str]) -> None:
    """Neither a library's, nor one of ours that was not inlined."""
    for name in names:
        body: Any = TWO.get(name) or getattr(intrin, name)
        func = elementwise([dtype] * (1 + (name in TWO)), dtype, body, 64)
        text = compile_artifact(func, spec, name="main", keep=("asm",)).blobs["asm"].decode()
        called = re.findall(r"^\s+(?:callq?|bl|jmp)\s+([A-Za-z_]\S*)", text, re.MULTILINE)
        assert not [c for c in called if not c.startswith("main")], (name, called)


@pytest.mark.parametrize("name", ["log", "log2", "log10"])
def test_logarithms_of_positive_normal_numbers_ask_one_question(name: str) -> None:
    """Zeros, infinities, NaN and what is negative or denormal are seen to in a block of their own, if a vector has any;
    its other lanes lose no bit by it."""
    func = elementwise(["float32"], "float32", getattr(intrin, name), 64, 16)
    text = compile_artifact(func, TARGETS["avx512"], name="main", keep=("ll",)).blobs["ll"].decode()
    body = text.partition(f"@tunefarm.{name}.v16f32(")[2].partition("\n}")[0]
    usual, _, rest = body.partition("rare:")
    assert usual.count("br i1") == 1
    assert "select" in rest.partition("after:")[0]
    assert "select" not in usual + rest.partition("after:")[2]
    x = np.random.default_rng(5).uniform(0.01, 100, 64).astype("float32")
    mixed = x.copy()
    mixed[::7] = np.resize(np.array([0, -0.0, np.inf, -np.inf, np.nan, -1, 1e-40, 1e-45], "float32"), 10)
    alone, among = (by_machine(elementwise(["float32"], "float32", getattr(intrin, name), 64), [v]) for v in (x, mixed))
    normal = mixed == x
    np.testing.assert_array_equal(alone[normal], among[normal])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_steps_scales_and_classes(dtype: str) -> None:
    info = np.finfo(dtype)
    edges = np.array([0.0, -0.0, 1.0, -1.0, info.max, -info.max, info.tiny, np.inf, -np.inf, np.nan], dtype)
    least = info.smallest_subnormal
    edges = np.concatenate([edges, np.array([least, -least], dtype)])
    a, b = (v.ravel() for v in np.meshgrid(edges, edges))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(agree([dtype] * 2, dtype, intrin.nextafter, [a, b]), np.nextafter(a, b))
    powers = np.resize(np.array([0, 1, -1, 10, -24, 200, -200, 3000, -3000], "int32"), len(a))
    with np.errstate(all="ignore"):
        got = agree([dtype, "int32"], dtype, intrin.ldexp, [a, powers])
        np.testing.assert_array_equal(got, np.ldexp(a, powers))
    for name in ("isnan", "isinf", "isfinite"):
        np.testing.assert_array_equal(agree([dtype], "bool", getattr(intrin, name), [a]), getattr(np, name)(a))


@pytest.mark.parametrize("name", ["exp", "sigmoid", "erf"])
def test_results_have_the_same_bits_in_vectors_of_any_length(name: str) -> None:
    """Instructions of AVX-512 for 4, 8 and 16 lanes are used in parts, or several times."""
    x = samples("float32")[::7]
    found = [
        by_machine(elementwise(["float32"], "float32", getattr(intrin, name), len(x), lanes), [x])
        for lanes in (1, 2, 3, 4, 5, 16, 17, 32, 48, 64)
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other.view(np.uint32), found[0].view(np.uint32))


@pytest.mark.parametrize("cpu", [HOST, PLAIN], ids=["host", "plain"])
@pytest.mark.parametrize("name", ["exp", "sigmoid"])
def test_powers_where_they_overflow_or_become_denormal(name: str, cpu: Target) -> None:
    """Also of numbers so large that the reduced argument is no number."""
    ends = [np.linspace(a, b, 50_000) for a, b in ((-110, -85), (85, 110), (-1e-3, 1e-3))]
    large = np.exp(np.linspace(0, 88.7, 20_000))
    x = np.concatenate([*ends, large, -large, [np.inf, -np.inf, np.nan, -np.nan]]).astype("float32")
    got = by_machine(elementwise(["float32"], "float32", getattr(intrin, name), len(x), 16), [x], cpu)
    with np.errstate(all="ignore"):
        assert error(got, REFERENCE[name](x.astype(np.float64))).max() <= BOUNDS[name]


@pytest.mark.parametrize(("spec", "scaled"), [("avx2", False), ("avx512", True)])
@pytest.mark.parametrize("lanes", [1, 8, 16])
def test_powers_are_scaled_by_an_instruction_where_there_is_one(spec: str, scaled: bool, lanes: int) -> None:
    """A sigmoid then asks nothing about the sign or size of its argument."""
    func = elementwise(["float32"], "float32", intrin.sigmoid, 64, lanes)
    text = compile_artifact(func, TARGETS[spec], name="main", keep=("asm",)).blobs["asm"].decode()
    assert ("vscalefps" in text) == scaled
    assert bool(re.search(r"v(cmp|max|min|pslld|blendm|or)\w*ps|vpslld", text)) != scaled


@pytest.mark.parametrize(("spec", "looked_up"), [("avx2", False), ("avx512", True)])
@pytest.mark.parametrize("lanes", [1, 8, 16, 32])
def test_coefficients_of_erf_are_looked_up_in_registers_of_16(spec: str, looked_up: bool, lanes: int) -> None:
    func = elementwise(["float32"], "float32", intrin.erf, 64, lanes)
    text = compile_artifact(func, TARGETS[spec], name="main", keep=("asm",)).blobs["asm"].decode()
    assert (text.count("vpermps") >= 6 * max(1, lanes // 16)) == looked_up


@pytest.mark.parametrize("cpu", [HOST, PLAIN], ids=["host", "plain"])
def test_erf_where_its_pieces_meet_and_end(cpu: Target) -> None:
    meet = np.arange(0.5, 16) * 17 / 64
    near = np.concatenate([at + np.linspace(-2e-3, 2e-3, 4001) for at in meet])
    x = np.concatenate([near, [4, 5, 1e30, np.inf, 0, 1e-45, 1e-30, np.nan]]).astype("float32")
    x = np.concatenate([x, -x])
    got = by_machine(elementwise(["float32"], "float32", intrin.erf, len(x), 16), [x], cpu)
    assert error(got, REFERENCE["erf"](x.astype(np.float64))).max() <= BOUNDS["erf"]
    assert np.nanmax(np.abs(got)) == 1
    np.testing.assert_array_equal(np.signbit(got[:-1]), np.signbit(x[:-1]))
