"""Writing the body of a math function: LLVM vector code for one float dtype and number of lanes.

A function is made once for a module and inlined at each call. A kernel that uses `exp` in sixteen unrolled places
writes its polynomial once. Scalar and vector code come from the same definition, so every lane gets the same bits.
Nothing here carries fast-math flags, since the reductions rely on the order that is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.llvm.types import bits_of, float_constant, lanes_of, llvm_type, vector_of
from compiler.dtype import element_of, with_lanes


class MathBody:
    """Instructions on values of `dtype` (float32 or float64, any number of lanes), by name."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.lanes = lanes_of(dtype)
        self.bits = bits_of(dtype)
        self.mantissa = 23 if self.bits == 32 else 52
        self.bias = 127 if self.bits == 32 else 1023
        self.type = llvm_type(dtype)
        self.whole = vector_of(f"i{self.bits}", self.lanes)
        self.mask = vector_of("i1", self.lanes)
        self.lines: list[str] = []
        self.declared: dict[str, str] = {}

    def emit(self, rhs: str) -> str:
        name = f"%m{len(self.lines)}"
        self.lines.append(f"  {name} = {rhs}")
        return name

    def at(self, dtype: str) -> MathBody:
        """The same body, writing operations on another dtype of as many lanes."""
        other = MathBody(with_lanes(dtype, self.lanes))
        other.lines, other.declared = self.lines, self.declared
        return other

    # -- floats
    def number(self, value: float) -> str:
        text = float_constant(value, element_of(self.dtype))
        return text if self.lanes == 1 else f"splat ({llvm_type(element_of(self.dtype))} {text})"

    def _number(self, value: str | float) -> str:
        return value if isinstance(value, str) else self.number(value)

    def _binary(self, op: str, a: str | float, b: str | float) -> str:
        return self.emit(f"{op} {self.type} {self._number(a)}, {self._number(b)}")

    def add(self, a: str | float, b: str | float) -> str:
        return self._binary("fadd", a, b)

    def sub(self, a: str | float, b: str | float) -> str:
        return self._binary("fsub", a, b)

    def mul(self, a: str | float, b: str | float) -> str:
        return self._binary("fmul", a, b)

    def div(self, a: str | float, b: str | float) -> str:
        return self._binary("fdiv", a, b)

    def neg(self, a: str) -> str:
        return self.emit(f"fneg {self.type} {a}")

    def call(self, name: str, *args: str | float) -> str:
        """`llvm.<name>` of floats of this dtype."""
        lanes = f"v{self.lanes}" if self.lanes > 1 else ""
        full = f"@llvm.{name}.{lanes}f{self.bits}"
        self.declared[full] = f"{self.type} {full}({', '.join([self.type] * len(args))})"
        return self.emit(f"call {self.type} {full}({', '.join(f'{self.type} {self._number(a)}' for a in args)})")

    def fma(self, a: str | float, b: str | float, c: str | float) -> str:
        """a * b + c: fused where the target has the instruction, else a product and a sum."""
        return self.call("fmuladd", a, b, c)

    def fabs(self, a: str) -> str:
        return self.call("fabs", a)

    def copysign(self, size: str, sign: str) -> str:
        return self.call("copysign", size, sign)

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """c0 + c1 x + c2 x² + ... by Horner's rule."""
        total: str | float = coefficients[-1]
        for c in reversed(coefficients[:-1]):
            total = self.fma(total, x, c)
        return self._number(total)

    # -- comparison and choice
    def test(self, relation: str, a: str | float, b: str | float) -> str:
        """An fcmp: "olt", "uno", ..."""
        return self.emit(f"fcmp {relation} {self.type} {self._number(a)}, {self._number(b)}")

    def choose(self, test: str, a: str | float, b: str | float) -> str:
        return self.emit(f"select {self.mask} {test}, {self.type} {self._number(a)}, {self.type} {self._number(b)}")

    def at_most(self, x: str, limit: float) -> str:
        """The lesser; NaN stays."""
        return self.choose(self.test("ogt", x, limit), limit, x)

    def at_least(self, x: str, limit: float) -> str:
        """The greater; NaN stays."""
        return self.choose(self.test("olt", x, limit), limit, x)

    def any(self, test: str) -> str:
        """Whether a test holds in some lane, as an i1."""
        if self.lanes == 1:
            return test
        name = f"@llvm.vector.reduce.or.v{self.lanes}i1"
        self.declared[name] = f"i1 {name}({self.mask})"
        return self.emit(f"call i1 {name}({self.mask} {test})")

    # -- bits
    def integer(self, value: int) -> str:
        return str(value) if self.lanes == 1 else f"splat (i{self.bits} {value})"

    def ints(self, op: str, a: str, b: str | int) -> str:
        """An integer operation ("add", "lshr", "icmp eq", ...) on values as wide as a float."""
        return self.emit(f"{op} {self.whole} {a}, {b if isinstance(b, str) else self.integer(b)}")

    def choose_int(self, test: str, a: str, b: str) -> str:
        return self.emit(f"select {self.mask} {test}, {self.whole} {a}, {self.whole} {b}")

    def to_bits(self, x: str) -> str:
        return self.emit(f"bitcast {self.type} {x} to {self.whole}")

    def from_bits(self, x: str) -> str:
        return self.emit(f"bitcast {self.whole} {x} to {self.type}")

    def nearest(self, x: str) -> tuple[str, str]:
        """The integer nearest to x, as a float and as an integer; |x| < 2^(mantissa - 1).

        Adding 1.5 * 2^mantissa rounds the fraction away and leaves the integer in the low bits.
        """
        magic = 1.5 * 2.0**self.mantissa
        shifted = self.add(x, magic)
        magic_bits = (self.bias + self.mantissa) << self.mantissa | 1 << (self.mantissa - 1)
        return self.sub(shifted, magic), self.ints("sub", self.to_bits(shifted), magic_bits)

    def power_of_two(self, exponent: str) -> str:
        """2^exponent, where that is a normal number."""
        return self.from_bits(self.ints("shl", self.ints("add", exponent, self.bias), self.mantissa))
