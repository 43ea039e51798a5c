"""Operations on LLVM values.

Broadcast, choice, comparison, float arithmetic, conversion between dtypes.
"""

from __future__ import annotations

from compiler.codegen.llvm.gen import Gen
from compiler.codegen.llvm.halves import half_to_single, single_to_half
from compiler.codegen.llvm.types import bits_of, code_of, element_bytes, is_float, lanes_of, llvm_type, vector_of
from compiler.codegen.llvm.x86.bfloat16 import rounded
from compiler.dtype import with_lanes
from compiler.errors import CodegenError

SIGNED = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
UNSIGNED = {"lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge", "eq": "eq", "ne": "ne"}
_ORDERED = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}


def is_constant(operand: str) -> bool:
    return operand[0] != "%" and operand[0] != "@"


def splat(g: Gen, value: str, dtype: str, lanes: int) -> str:
    """The vector with `value`, a scalar of `dtype`, in each lane."""
    element = llvm_type(dtype)
    if is_constant(value):
        return f"splat ({element} {value})"
    vector = f"<{lanes} x {element}>"
    one = g.w.value(f"insertelement {vector} poison, {element} {value}, i64 0", value)
    return g.w.value(f"shufflevector {vector} {one}, {vector} poison, <{lanes} x i32> zeroinitializer", one)


def choose(g: Gen, test: str, lanes: int, ty: str, a: str, b: str) -> str:
    return g.w.value(f"select {vector_of('i1', lanes)} {test}, {ty} {a}, {ty} {b}", test, a, b)


def float_op(g: Gen, op: str, dtype: str, a: str, b: str) -> str:
    """Apply `op` (fadd, fsub, ...) to two floats.
    The 16-bit floats are computed in float32 and rounded once."""
    flags = g.module.options.fast_math
    if bits_of(dtype) == 16:
        wide = with_lanes("float32", lanes_of(dtype))
        x, y = convert(g, a, dtype, wide), convert(g, b, dtype, wide)
        return convert(g, g.w.value(f"{op} {flags} {llvm_type(wide)} {x}, {y}", x, y), wide, dtype)
    return g.w.value(f"{op} {flags} {llvm_type(dtype)} {a}, {b}", a, b)


def intrinsic(g: Gen, name: str, dtype: str, *operands: str) -> str:
    """A call of `llvm.<name>` on operands of one dtype, which is its result's too."""
    ty = llvm_type(dtype)
    full = f"@llvm.{name}.{_suffix(dtype)}"
    g.module.declare(full, f"{ty} {full}({', '.join([ty] * len(operands))})")
    arguments = ", ".join(f"{ty} {x}" for x in operands)
    return g.w.value(f"call {ty} {full}({arguments})", *operands)


def _suffix(dtype: str) -> str:
    lanes = f"v{lanes_of(dtype)}" if lanes_of(dtype) > 1 else ""
    letter = "f" if code_of(dtype) == "float" else "i"
    return f"{lanes}{letter}{bits_of(dtype) if code_of(dtype) != 'bool' else 1}"


def unary_float(g: Gen, name: str, dtype: str, a: str) -> str:
    """Apply `llvm.<name>` to a float. The 16-bit floats are computed in float32."""
    if bits_of(dtype) == 16:
        wide = with_lanes("float32", lanes_of(dtype))
        return convert(g, intrinsic(g, name, wide, convert(g, a, dtype, wide)), wide, dtype)
    return intrinsic(g, name, dtype, a)


def compare(g: Gen, relation: str, dtype: str, a: str, b: str) -> str:
    """Compare two values of `dtype` by `relation` ("lt", "eq", ...): an i1 in each lane."""
    if is_float(dtype):
        if bits_of(dtype) == 16:
            wide = with_lanes("float32", lanes_of(dtype))
            return compare(g, relation, wide, convert(g, a, dtype, wide), convert(g, b, dtype, wide))
        return g.w.value(f"fcmp {_ORDERED[relation]} {llvm_type(dtype)} {a}, {b}", a, b)
    table = SIGNED if code_of(dtype) == "int" else UNSIGNED
    return g.w.value(f"icmp {table[relation]} {llvm_type(dtype)} {a}, {b}", a, b)


def convert(g: Gen, value: str, source: str, target: str) -> str:
    """Convert `value` of dtype `source` to `target`.
    Floats to integers round towards zero and stop at the limits (NaN becomes 0). Integers wrap."""
    if source == target:
        return value
    to, have = code_of(target), code_of(source)
    if "handle" in (to, have):
        raise CodegenError(f"no conversion from {source} to {target}")
    ty, tx = llvm_type(target), llvm_type(source)
    if to == "bool":
        zero = "zeroinitializer" if lanes_of(source) > 1 or have in ("float", "bfloat") else "0"
        if is_float(source):
            if bits_of(source) == 16:
                wide = with_lanes("float32", lanes_of(source))
                return convert(g, convert(g, value, source, wide), wide, target)
            return g.w.value(f"fcmp une {tx} {value}, {zero}", value)
        return g.w.value(f"icmp ne {tx} {value}, {zero}", value)
    if is_float(source):
        return _from_float(g, value, source, target)
    if is_float(target):
        if bits_of(target) == 16:
            wide = with_lanes("float32", lanes_of(target))
            return convert(g, convert(g, value, source, wide), wide, target)
        op = "sitofp" if have == "int" else "uitofp"
        return g.w.value(f"{op} {tx} {value} to {ty}", value)
    narrow_bits = 1 if have == "bool" else bits_of(source)
    if bits_of(target) == narrow_bits:
        return value
    op = "trunc" if bits_of(target) < narrow_bits else "sext" if have == "int" else "zext"
    return g.w.value(f"{op} {tx} {value} to {ty}", value)


def _from_float(g: Gen, value: str, source: str, target: str) -> str:
    ty, tx, lanes = llvm_type(target), llvm_type(source), lanes_of(source)
    single = with_lanes("float32", lanes)
    if bits_of(source) == 16:
        if target != single:
            return convert(g, convert(g, value, source, single), single, target)
        if code_of(source) == "bfloat":
            return _from_bfloat(g, value, lanes)
        if not g.module.options.half_conversions:
            return half_to_single(g, value, lanes)
    if not is_float(target):
        if lanes > 1 and bits_of(target) < 32 and bits_of(source) == 32 and g.module.options.device is None:
            return _to_narrow_integers(g, value, lanes, target)
        name = f"@llvm.{'fptosi' if code_of(target) == 'int' else 'fptoui'}.sat.{_suffix(target)}.{_suffix(source)}"
        g.module.declare(name, f"{ty} {name}({tx})")
        return g.w.value(f"call {ty} {name}({tx} {value})", value)
    if bits_of(target) == 16:
        if bits_of(source) == 64:
            value, source, tx = _to_odd_single(g, value, lanes), single, llvm_type(single)
        if code_of(target) == "bfloat":
            return _to_bfloat(g, value, lanes)
        if not g.module.options.half_conversions:
            return single_to_half(g, value, lanes)
    op = "fpext" if element_bytes(target) > element_bytes(source) else "fptrunc"
    return g.w.value(f"{op} {tx} {value} to {ty}", value)


def _to_narrow_integers(g: Gen, value: str, lanes: int, target: str) -> str:
    """float32 to integers of 8 or 16 bits by way of 32 bits.
    LLVM converts each lane by itself where it saturates."""
    w, single, whole, bits = g.w, vector_of("float", lanes), vector_of("i32", lanes), bits_of(target)
    signed = code_of(target) == "int"
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    ordered = "" if not signed else w.value(f"fcmp ord {single} {value}, {value}", value)
    for relation, limit in (("oge", low), ("ole", high)):
        bound = f"splat (float {limit:.1f})"
        inside = w.value(f"fcmp {relation} {single} {value}, {bound}", value)
        value = choose(g, inside, lanes, single, value, bound)
    made = w.value(f"fptosi {single} {value} to {whole}", value)
    if signed:  # unsigned, what is no number became 0 with what is less
        made = choose(g, ordered, lanes, whole, made, "zeroinitializer")
    return w.value(f"trunc {whole} {made} to {llvm_type(target)}", made)


def _to_odd_single(g: Gen, value: str, lanes: int) -> str:
    """Convert float64 to float32, rounding inexact results to odd.
    Rounding those again gives the same as rounding once.

    It serves float64 to float16, for which LLVM calls a library that not every machine has.
    """
    w, double, single, whole = g.w, vector_of("double", lanes), vector_of("float", lanes), vector_of("i32", lanes)
    near = w.value(f"fptrunc {double} {value} to {single}", value)
    back = w.value(f"fpext {single} {near} to {double}", near)
    exact = w.value(f"fcmp ueq {double} {back}, {value}", back, value)
    dtype = with_lanes("float64", lanes)
    outward = compare(g, "gt", dtype, intrinsic(g, "fabs", dtype, back), intrinsic(g, "fabs", dtype, value))
    bits = w.value(f"bitcast {single} {near} to {whole}", near)
    step = w.value(f"zext {vector_of('i1', lanes)} {outward} to {whole}", outward)
    inward = w.value(f"sub {whole} {bits}, {step}", bits, step)
    odd = w.value(f"or {whole} {inward}, {'1' if lanes == 1 else 'splat (i32 1)'}", inward)
    kept = choose(g, exact, lanes, whole, bits, odd)
    return w.value(f"bitcast {whole} {kept} to {single}", kept)


def _to_bfloat(g: Gen, value: str, lanes: int) -> str:
    """float32 to bfloat16, to nearest even, without the library call LLVM would make for a CPU."""
    if g.module.options.device is not None:
        brain = vector_of("bfloat", lanes)
        near = g.w.value(f"fptrunc {vector_of('float', lanes)} {value} to {brain}", value)
        return g.w.value(f"bitcast {brain} {near} to {vector_of('i16', lanes)}", near)
    return rounded(g, value, lanes, lambda: _rounded_bits(g, value, lanes))


def _rounded_bits(g: Gen, value: str, lanes: int) -> str:
    """float32 to the bits of bfloat16 in integers, to nearest even."""
    w, single, whole = g.w, vector_of("float", lanes), vector_of("i32", lanes)

    def constant(number: int) -> str:
        return str(number) if lanes == 1 else f"splat (i32 {number})"

    bits = w.value(f"bitcast {single} {value} to {whole}", value)
    high = w.value(f"lshr {whole} {bits}, {constant(16)}", bits)
    odd = w.value(f"and {whole} {high}, {constant(1)}", high)
    bias = w.value(f"add {whole} {odd}, {constant(0x7FFF)}", odd)
    rounded = w.value(f"lshr {whole} {w.value(f'add {whole} {bits}, {bias}', bits, bias)}, {constant(16)}", bits, bias)
    quiet = w.value(f"or {whole} {high}, {constant(0x40)}", high)
    nan = w.value(f"fcmp uno {single} {value}, {value}", value)
    kept = choose(g, nan, lanes, whole, quiet, rounded)
    return w.value(f"trunc {whole} {kept} to {vector_of('i16', lanes)}", kept)


def _from_bfloat(g: Gen, value: str, lanes: int) -> str:
    """bfloat16 to float32: the bits are its upper half."""
    whole = vector_of("i32", lanes)
    wide = g.w.value(f"zext {vector_of('i16', lanes)} {value} to {whole}", value)
    high = g.w.value(f"shl {whole} {wide}, {'16' if lanes == 1 else 'splat (i32 16)'}", wide)
    return g.w.value(f"bitcast {whole} {high} to {vector_of('float', lanes)}", high)
