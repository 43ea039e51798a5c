"""Data types. In the IR a dtype is a plain string such as "float32", "int8x16", "bool" or "handle"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from compiler.errors import IRError

_PATTERN = re.compile(r"(int|uint|float|bfloat)(\d+)(?:x(\d+))?")
_FLOATS = {16, 32, 64}
_INTS = {1, 4, 8, 16, 32, 64}


@dataclass(frozen=True, slots=True)
class DType:
    """A parsed dtype: `code` is one of int, uint, float, bfloat, bool, handle; `bits` per lane; `lanes`."""

    code: str
    bits: int
    lanes: int = 1

    def __str__(self) -> str:
        base = self.code if self.code in ("bool", "handle") else f"{self.code}{self.bits}"
        return base if self.lanes == 1 else f"{base}x{self.lanes}"

    @property
    def is_float(self) -> bool:
        return self.code in ("float", "bfloat")

    @property
    def is_int(self) -> bool:
        return self.code in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        return self.code not in ("uint", "bool", "handle")

    @property
    def bytes(self) -> int:
        """Bytes one element takes in memory, all lanes together."""
        return (self.bits + 7) // 8 * self.lanes


@lru_cache(maxsize=512)
def parse_dtype(text: str) -> DType:
    """Parse "float32", "int8x16", "bool", "handle". Raises IRError on anything else."""
    if text == "handle":
        return DType("handle", 64)
    if text.startswith("bool"):
        lanes = text[5:] if text.startswith("boolx") else ("1" if text == "bool" else "")
        if lanes.isdigit() and int(lanes) > 0:
            return DType("bool", 8, int(lanes))
    if match := _PATTERN.fullmatch(text):
        code, bits, lanes_text = match[1], int(match[2]), match[3] or "1"
        sizes = {"bfloat": {16}, "float": _FLOATS}.get(code, _INTS)
        if bits in sizes and int(lanes_text) > 0:
            return DType(code, bits, int(lanes_text))
    raise IRError(
        f"unknown dtype {text!r}",
        hint="use int8..int64, uint8..uint64, float16, bfloat16, float32, float64, bool or handle, "
        'with an optional lane count such as "float32x8"',
    )


@lru_cache(maxsize=512)
def element_of(dtype: str) -> str:
    """The dtype of one lane: "float32x8" → "float32"."""
    parsed = parse_dtype(dtype)
    return str(DType(parsed.code, parsed.bits))


@lru_cache(maxsize=512)
def with_lanes(dtype: str, lanes: int) -> str:
    """`dtype`'s element type with `lanes` lanes."""
    parsed = parse_dtype(dtype)
    return str(DType(parsed.code, parsed.bits, lanes))


_SIGNIFICANT = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}
_EXPONENT = {"float16": 5, "bfloat16": 8, "float32": 8, "float64": 11}


def holds_all_of(dtype: str, other: str) -> bool:
    """Return whether every number of dtype `other` is also one of `dtype`.
    Casting such a number to `dtype` and back changes nothing."""
    wide, narrow = parse_dtype(element_of(dtype)), parse_dtype(element_of(other))
    if narrow.is_int:
        value_bits = narrow.bits - narrow.is_signed
        if wide.is_int:
            return wide.bits - wide.is_signed >= value_bits and (wide.is_signed or not narrow.is_signed)
        return wide.is_float and _SIGNIFICANT[str(wide)] >= value_bits
    if narrow.is_float and wide.is_float:
        a, b = str(wide), str(narrow)
        return _SIGNIFICANT[a] >= _SIGNIFICANT[b] and _EXPONENT[a] >= _EXPONENT[b]
    return wide == narrow


def is_float(dtype: str) -> bool:
    return parse_dtype(dtype).is_float


def is_int(dtype: str) -> bool:
    return parse_dtype(dtype).is_int


def lanes_of(dtype: str) -> int:
    return parse_dtype(dtype).lanes
