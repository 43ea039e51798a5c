"""LLVM's spelling of dtypes and constants."""

from __future__ import annotations

import math
import struct
from functools import lru_cache

from compiler.dtype import DType, parse_dtype
from compiler.errors import CodegenError

_FLOATS = {("float", 16): "half", ("float", 32): "float", ("float", 64): "double", ("bfloat", 16): "i16"}


@lru_cache(maxsize=512)
def llvm_type(dtype: str) -> str:
    """The type of a value of `dtype`: "float32x8" → "<8 x float>".

    Bool is i1, handle is ptr, bfloat16 its bits (LLVM calls a library even to choose between two values of its own
    bfloat).

    Raises CodegenError for a dtype no register holds (int1, int4).
    """
    parsed = parse_dtype(dtype)
    return vector_of(_element(parsed), parsed.lanes)


@lru_cache(maxsize=512)
def memory_type(dtype: str) -> str:
    """The type of `dtype` in memory: as `llvm_type`, but a bool takes a byte."""
    parsed = parse_dtype(dtype)
    return vector_of("i8" if parsed.code == "bool" else _element(parsed), parsed.lanes)


def vector_of(element: str, lanes: int) -> str:
    return element if lanes == 1 else f"<{lanes} x {element}>"


def _element(parsed: DType) -> str:
    match parsed.code:
        case "bool":
            return "i1"
        case "handle":
            return "ptr"
        case "int" | "uint" if parsed.bits >= 8:
            return f"i{parsed.bits}"
        case "float" | "bfloat":
            return _FLOATS[parsed.code, parsed.bits]
    raise CodegenError(f"there is no machine type for {parsed}", hint="use int8 or wider")


@lru_cache(maxsize=512)
def bits_of(dtype: str) -> int:
    """Bits of one lane."""
    return parse_dtype(dtype).bits


@lru_cache(maxsize=512)
def lanes_of(dtype: str) -> int:
    return parse_dtype(dtype).lanes


@lru_cache(maxsize=512)
def code_of(dtype: str) -> str:
    """int, uint, float, bfloat, bool or handle."""
    return parse_dtype(dtype).code


@lru_cache(maxsize=512)
def is_float(dtype: str) -> bool:
    return parse_dtype(dtype).is_float


@lru_cache(maxsize=512)
def element_bytes(dtype: str) -> int:
    """Bytes of one lane in memory."""
    return (parse_dtype(dtype).bits + 7) // 8


@lru_cache(maxsize=4096)
def float_constant(value: float, dtype: str) -> str:
    """A scalar float constant, rounded to `dtype`, in LLVM's exact hexadecimal form."""
    match code_of(dtype), bits_of(dtype):
        case "float", 64:
            return f"0x{_double_bits(value):016X}"
        case "float", 32:
            return f"0x{_double_bits(_round_float32(value)):016X}"
        case "float", 16:
            return f"0xH{_half_bits(value):04X}"
        case "bfloat", 16:
            return str(bfloat16_bits(value))
    raise CodegenError(f"{dtype} is no float dtype")


def _double_bits(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def _round_float32(value: float) -> float:
    if not math.isfinite(value):
        return value
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _half_bits(value: float) -> int:
    try:
        return int(struct.unpack("<H", struct.pack("<e", value))[0])
    except OverflowError:
        return 0x7C00 if value > 0 else 0xFC00


def bfloat16_bits(value: float) -> int:
    """`value` rounded to nearest-even bfloat16, as its 16 bits."""
    if math.isnan(value):
        return 0x7FC0
    bits = int(struct.unpack("<I", struct.pack("<f", _round_float32(value)))[0])
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
