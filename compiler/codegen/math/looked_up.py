"""erf of float32 with AVX-512: one polynomial, whose coefficients are looked up in registers.

    i = |x| / step, rounded        |x| = i step + u        erf |x| = c0[i] + c1[i] u + … + c5[i] u⁵

`vpermps` picks lanes of a register of 16 numbers, one coefficient of all pieces. Two polynomials, an exponential and a
choice take twice as many instructions. The pieces are half a step to both sides of their middle; the first one is
odd, so that small numbers keep all their digits. The last one is 1 where erf rounds to it.

Intel, "Intrinsics Guide": _mm512_permutexvar_ps. Coefficients: least squares of the relative error, with weights that
make it even.
"""

from __future__ import annotations

from compiler.codegen.llvm.types import float_constant
from compiler.codegen.math.body import MathBody
from compiler.codegen.math.registers import in_registers

_STEP = 17 / 64  # i times this is exact
_END = 4.0
_MAGIC = 1.5 * 2.0**23  # added to a number, it leaves the nearest integer in the last bits
_COEFFICIENTS = (
    (
        0.0, 0.2928232252597809, 0.5475284457206726, 0.7402369976043701, 0.867058277130127, 0.9396533370018005,
        0.975797712802887, 0.991450309753418, 0.9973459839820862, 0.9992774128913879, 0.9998276829719543,
        0.9999640583992004, 0.9999934434890747, 0.9999989867210388, 0.9999998807907104, 1.0,
    ),
    (
        1.1283791065216064, 1.0515083074569702, 0.8509140014648438, 0.5979623794555664, 0.36490288376808167,
        0.19337309896945953, 0.08898771554231644, 0.035561464726924896, 0.012340805493295193, 0.0037189824506640434,
        0.0009732344187796116, 0.00022117042681202292, 4.364351843832992e-05, 7.5007014856964815e-06,
        1.1338322565279668e-06, 1.5959101062890113e-07,
    ),
    (
        0.0, -0.2792976200580597, -0.45204150676727295, -0.47650146484375, -0.3877125084400177, -0.25682297348976135,
        -0.14182457327842712, -0.06612758338451385, -0.026227032765746117, -0.00889511313289404,
        -0.002581695793196559, -0.0006452309899032116, -0.00013763629249297082, -3.241900776629336e-05,
        -9.925216545525473e-06, -4.545107003650628e-06,
    ),
    (
        -0.3761216998100281, -0.30105507373809814, -0.12356167286634445, 0.05380069836974144, 0.15298978984355927,
        0.1629408448934555, 0.12102942168712616, 0.07010665535926819, 0.033041127026081085, 0.01292947493493557,
        0.004254219587892294, 0.0011853110045194626, 0.00028187085990794003, 5.224722917773761e-05,
        5.201824023970403e-06, -2.0961795144103235e-06,
    ),
    (
        0.0, 0.13188625872135162, 0.18230532109737396, 0.13701744377613068, 0.04829920455813408,
        -0.022211363539099693, -0.04885869100689888, -0.04280279949307442, -0.026267563924193382,
        -0.012348385527729988, -0.004983451217412949, -0.001579594099894166, -0.0004755471309181303,
        0.00020700889581348747, 0.00024472203222103417, 0.0001771504757925868,
    ),
    (
        0.11212895810604095, 0.07648025453090668, -0.0006987665547057986, -0.058690860867500305,
        -0.06589636206626892, -0.03699082136154175, -0.005246030166745186, 0.011109123937785625,
        0.012291822582483292, 0.008087784051895142, 0.00378979928791523, 0.0014150437200441957,
        0.0003964197530876845, 0.00032207206822931767, 0.00023519262322224677, 0.00016587867867201567,
    ),
)  # fmt: skip


def erf(m: MathBody, x: str) -> str:
    size = m.at_most(m.fabs(x), _END)
    shifted = m.fma(size, 1 / _STEP, _MAGIC)
    u = m.fma(m.sub(shifted, _MAGIC), -_STEP, size)
    *others, total = [_looked_up(m, numbers, shifted) for numbers in _COEFFICIENTS]
    for coefficient in reversed(others):
        total = m.fma(total, u, coefficient)
    return m.copysign(total, x)


def _looked_up(m: MathBody, numbers: tuple[float, ...], place: str) -> str:
    """The numbers at the places that the last four bits of `place` say."""
    name = "@llvm.x86.avx512.permvar.sf.512"
    m.declared[name] = f"<16 x float> {name}(<16 x float>, <16 x i32>)"
    values = ", ".join("float " + float_constant(number, "float32") for number in numbers)
    table = f"<{values}>"

    def one(given: list[str]) -> str:
        bits = m.emit(f"bitcast <16 x float> {given[0]} to <16 x i32>")
        return m.emit(f"call <16 x float> {name}(<16 x float> {table}, <16 x i32> {bits})")

    return in_registers(m, [place], len(numbers), one)
